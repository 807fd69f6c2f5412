//! [`waiting!`]: generates the methods of a blocking object from a table.

/// Generates the methods of a blocking object from a table: each row is a method of the async object, with its
/// documentation. Its errors are documented at the async method, to which a link is added.
///
/// ```text
/// waiting! {
///     Runs: crate::runs::Runs;
///
///     /// Starts a run.
///     fn start(&self, new: NewRun) -> Result<RunRecorder>;
///     /// The id of the run.
///     now fn id(&self) -> RunId;
/// }
/// ```
///
/// becomes
///
/// ```text
/// impl From<crate::runs::Runs> for Runs {
///     fn from(inner: crate::runs::Runs) -> Self { Self { inner } }
/// }
/// impl Runs {
///     /// Starts a run.
///     ///
///     /// # Errors
///     /// Those of [`start`](crate::runs::Runs::start), which says all there is to say of it.
///     pub fn start(&self, new: NewRun) -> Result<RunRecorder> {
///         block_on(self.inner.start(new)).map(Into::into)
///     }
///     /// The id of the run.
///     ///
///     /// The same as [`id`](crate::runs::Runs::id).
///     pub fn id(&self) -> RunId { self.inner.id().into() }
/// }
/// ```
///
/// `into` converts an async object to the blocking one, and leaves everything else unchanged. A row whose first
/// argument is `store: &Store` is an associated function without `self`.
macro_rules! waiting {
    ($object:ident: $inner:path; $($rows:tt)*) => {
        impl From<$inner> for $object {
            fn from(inner: $inner) -> Self {
                Self { inner }
            }
        }

        impl $object {
            waiting!(@rows $inner; $($rows)*);
        }
    };
    (@rows $inner:path;) => {};
    // Expands the first row, and recurses for the rest.
    (@rows $inner:path; $(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty; $($rest:tt)*) => {
        waiting!(@documented $inner, $name, [$(#[$doc])*]
            pub fn $name(&self $(, $arg: $type)*) -> $result {
                pollster::block_on(self.inner.$name($($arg),*)).map(Into::into)
            }
        );
        waiting!(@rows $inner; $($rest)*);
    };
    (@rows $inner:path; $(#[$doc:meta])* fn $name:ident(&mut self $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty; $($rest:tt)*) => {
        waiting!(@documented $inner, $name, [$(#[$doc])*]
            pub fn $name(&mut self $(, $arg: $type)*) -> $result {
                pollster::block_on(self.inner.$name($($arg),*)).map(Into::into)
            }
        );
        waiting!(@rows $inner; $($rest)*);
    };
    (@rows $inner:path; $(#[$doc:meta])* fn $name:ident(store: &Store $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty; $($rest:tt)*) => {
        waiting!(@documented $inner, $name, [$(#[$doc])*]
            pub fn $name(store: &Store $(, $arg: $type)*) -> $result {
                pollster::block_on(<$inner>::$name(store.as_async(), $($arg),*)).map(Into::into)
            }
        );
        waiting!(@rows $inner; $($rest)*);
    };
    (@rows $inner:path; $(#[$doc:meta])* now fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("\n\nThe same as [`", stringify!($name), "`](", stringify!($inner), "::", stringify!($name), ").")]
        pub fn $name(&self $(, $arg: $type)*) -> $result {
            self.inner.$name($($arg),*).into()
        }
        waiting!(@rows $inner; $($rest)*);
    };
    (@rows $inner:path; $(#[$doc:meta])* now fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $result:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("\n\nThe same as [`", stringify!($name), "`](", stringify!($inner), "::", stringify!($name), ").")]
        pub fn $name(&mut self $(, $arg: $type)*) -> $result {
            self.inner.$name($($arg),*).into()
        }
        waiting!(@rows $inner; $($rest)*);
    };
    (@documented $inner:path, $name:ident, [$($docs:tt)*] $($method:tt)*) => {
        $($docs)*
        #[doc = concat!("\n\n# Errors\nThose of [`", stringify!($name), "`](", stringify!($inner), "::", stringify!($name), "), which says all there is to say of it.")]
        $($method)*
    };
}
