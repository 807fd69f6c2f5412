//! Identifiers: [`SessionId`], [`InstanceId`], [`RunId`]. All are UUIDs, written in the hyphenated form.

use std::{fmt, str::FromStr};

use bincode::{
    Decode, Encode,
    de::Decoder,
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Error, Result};

macro_rules! id {
    ($name:ident, $what:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "schema", schemars(extend("format" = "uuid")))]
        #[serde(transparent)]
        pub struct $name(#[cfg_attr(feature = "schema", schemars(with = "String"))] pub Uuid);

        impl $name {
            /// The same id as a UUID.
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        // As the 16 bytes of the UUID.
        impl Encode for $name {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> std::result::Result<(), EncodeError> {
                self.0.as_bytes().encode(encoder)
            }
        }

        impl<Context> Decode<Context> for $name {
            fn decode<D: Decoder<Context = Context>>(
                decoder: &mut D,
            ) -> std::result::Result<Self, DecodeError> {
                Decode::decode(decoder).map(|bytes| Self(Uuid::from_bytes(bytes)))
            }
        }

        bincode::impl_borrow_decode!($name);

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Uuid::parse_str(text).map(Self).map_err(|source| {
                    Error::invalid(format!(
                        concat!("{:?} is not ", $what, " id (a UUID): {}"),
                        text, source
                    ))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id!(SessionId, "a session", "Names one session.");
id!(
    InstanceId,
    "an instance",
    "Names one agent instance, and the stream that its context is kept in."
);
id!(RunId, "a run", "Names one run of an agent.");
