//! [`calls!`](crate::calls::calls): the table of an object's calls.

/// The calls of an object: for each its name in JavaScript, its arguments, its answer's type, and its implementation.
///
/// ```text
/// calls! {
///     (of: &Rc<StoreObject>, scope, input) { let store = of.store()?; }
///
///     listRuns(options: ListRuns) -> Page<RunSummary> =>
///         of.read(async move { store.runs().list(&options).await });
///     getRun { run_id: RunId } -> Option<Run> => of.read(async move { store.runs().get(run_id).await });
/// }
/// ```
///
/// becomes one function, whose arms are
///
/// ```text
/// pub(crate) fn call(of: &Rc<StoreObject>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
///     let store = of.store()?;
///     let answer = match input.method {
///         "listRuns" => {
///             let options: ListRuns = input.read()?;
///             let typed: Typed<Page<RunSummary>> = of.read(…);
///             typed.answer
///         }
///         "getRun" => {
///             let given = input.named(&["run_id"])?;
///             let run_id: RunId = given.take("run_id", …)?;
///             …
///         }
///         _ => return Ok(None),
///     };
///     Ok(Some(answer))
/// }
/// ```
///
/// and, for code generation, one that adds each call's types to a list. Changing one of a call's types changes the
/// generated TypeScript.
macro_rules! calls {
    (
        ($of:ident: $object:ty, $scope:ident, $input:ident) { $($before:tt)* }
        $($(#[$when:meta])* $method:ident $arguments:tt -> $answer:ty => $body:expr;)*
    ) => {
        pub(crate) fn call(
            $of: $object,
            $scope: &$crate::object::Scope,
            $input: $crate::arguments::Input<'_>,
        ) -> $crate::Result<Option<$crate::tasks::Answer>> {
            $($before)*
            let answer = match $input.method {
                $($(#[$when])* stringify!($method) => {
                    $crate::calls::calls!(@read $input $arguments);
                    let typed: $crate::answers::Typed<$answer> = $body;
                    typed.answer
                })*
                _ => return Ok(None),
            };
            Ok(Some(answer))
        }

        #[cfg(feature = "schema")]
        #[allow(dead_code, reason = "of the arguments, their types alone are looked at")]
        pub(crate) fn schema(calls: &mut $crate::schema::Calls) {
            $($(#[$when])* {
                $crate::calls::calls!(@type $arguments);
                calls.add::<Arguments, $answer>(stringify!($method));
            })*
        }
    };
    (@read $input:ident ($name:ident: $type:ty)) => {
        let $name: $type = $input.read()?;
    };
    (@read $input:ident {}) => {
        $input.named(&[])?;
    };
    (@read $input:ident {$(
        $(#[doc = $doc:tt])* $(#[serde($($how:tt)*)])? $(#[cfg_attr($($schema:tt)*)])? $field:ident: $type:ty
    ),* $(,)?}) => {
        let given = $input.named(&[$($crate::calls::calls!(@name $field $($($how)*)?)),*])?;
        $(
            let name = $crate::calls::calls!(@name $field $($($how)*)?);
            let $field: $type = given.take(name, $crate::calls::calls!(@absent $type; $($($how)*)?))?;
        )*
    };
    (@name $field:ident rename = $name:literal) => {
        $name
    };
    (@name $field:ident $(default)?) => {
        stringify!($field)
    };
    (@absent $type:ty; default) => {
        || Some(Default::default())
    };
    (@absent $type:ty; $(rename = $name:literal)?) => {
        || {
            // For an option this is the method of `Absent` itself, for any other type the trait's.
            #[allow(unused_imports, reason = "of options alone it isn't used")]
            use $crate::arguments::Required;
            $crate::arguments::Absent::<$type>::NEW.value()
        }
    };
    (@type ($name:ident: $type:ty)) => {
        type Arguments = $type;
    };
    (@type { $($(#[$about:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Arguments {
            $($(#[$about])* $field: $type),*
        }
    };
}

pub(crate) use calls;
