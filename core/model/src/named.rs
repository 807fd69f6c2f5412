//! `named!`: the names of an enum's variants, which are the same in JSON, in messages and on the command line.

/// Gives an enum `ALL`, `name` and `Display`; with words for what it is, also `FromStr`, whose error lists the names.
///
/// ```text
/// named! { Status: "run status" { Running = "running", Paused = "paused" } }
/// ```
macro_rules! named {
    ($Type:ident: $what:literal {$($Variant:ident = $name:literal,)*}) => {
        $crate::named::named! { $Type {$($Variant = $name,)*} }

        impl std::str::FromStr for $Type {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                Self::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    $crate::Error::invalid(format!(
                        concat!("unknown ", $what, " {:?}; it is one of {}"),
                        name, names
                    ))
                })
            }
        }
    };
    ($Type:ident {$($Variant:ident = $name:literal,)*}) => {
        impl $Type {
            /// Every one of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$Variant),*];

            /// Its name in snake_case.
            pub const fn name(self) -> &'static str {
                match self {$(
                    Self::$Variant => $name,
                )*}
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
pub(crate) use named;
