//! The encoding of events: [`EncodedEvent`], the parts of a record, and `events!`, which declares an event type with
//! its encoding.
//!
//! The metadata of a record is one byte, the version of its JSON; the payload is the JSON. **To change the shape of an event:**
//! a new field that is optional needs nothing, where readers that don't know it lose nothing that is said. Any other change raises the type's
//! [`VERSION`](Event::VERSION) and adds a step to its [`upcast`](Event::upcast), which brings the JSON of one version to the
//! next. Steps are chained, so that a record of version 1 is read by every later build as if that had written it, and folds
//! know the newest shape only. The log is never rewritten. A record of a version from the future is refused by name.

use std::borrow::Cow;

use bytes::Bytes;
use runlog_log::{Kind, Label, NewRecord};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result, json::read_bytes};

/// An event as the parts of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedEvent {
    /// Its kind byte, one of [`kinds`](crate::kinds).
    pub kind: u8,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload: JSON.
    pub payload: Bytes,
    /// The labels of its record.
    pub labels: Vec<Label>,
}

impl EncodedEvent {
    /// The record to append.
    pub fn record(&self) -> NewRecord<'_> {
        NewRecord {
            labels: &self.labels,
            kind: Kind(self.kind),
            meta: &self.meta,
            payload: &self.payload,
        }
    }
}

/// What each event type defines.
pub(crate) trait Event: Sized {
    /// The name of an event of the type in messages, with its article.
    const NAME: &'static str;
    /// The newest version of its JSON.
    const VERSION: u8 = 1;
    /// The most bytes of JSON.
    const BYTES_MAX: usize = usize::MAX;

    /// Checks the event before it is written.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Brings the JSON of `version` to the version after it.
    fn upcast(_version: u8, json: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
        json
    }

    /// The version that its JSON is written in: an older one where that says all of it, so that older builds read it.
    fn version(&self) -> u8 {
        Self::VERSION
    }

    /// The parts of a record with its JSON.
    fn encode_json(&self, kind: u8, json: &impl Serialize) -> Result<EncodedEvent> {
        let payload = serde_json::to_vec(json).map_err(|source| {
            Error::invalid(format!("{} has no JSON form: {source}", Self::NAME))
        })?;
        Self::check_length(payload.len())?;
        Ok(EncodedEvent {
            kind,
            meta: vec![self.version()],
            payload: payload.into(),
            labels: Vec::new(),
        })
    }

    /// Refuses JSON of more bytes than such an event may have.
    fn check_length(bytes: usize) -> Result<()> {
        if bytes <= Self::BYTES_MAX {
            return Ok(());
        }
        Err(Error::too_large(format!(
            "{} has {bytes} bytes of JSON, at most {} are allowed; keep large content elsewhere",
            Self::NAME,
            Self::BYTES_MAX
        )))
    }

    /// The JSON of a record, in the newest version.
    fn open<'a>(meta: &[u8], payload: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let (name, newest) = (Self::NAME, Self::VERSION);
        match meta {
            [version] if (1..=newest).contains(version) => {
                let payload = Cow::Borrowed(payload);
                Ok((*version..newest).fold(payload, |json, version| Self::upcast(version, json)))
            }
            [version] => Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!(
                    "{name} has version {version}, this build reads versions 1 to {newest}; use a newer build"
                ),
            )),
            _ => Err(Error::damaged(format!(
                "the metadata of {name} should be 1 byte, but has {}",
                meta.len()
            ))),
        }
    }

    /// What the JSON of a record says.
    fn decode_json<T: DeserializeOwned>(kind: u8, json: &[u8]) -> Result<T> {
        read_bytes(json).map_err(|source| unreadable(Self::NAME, kind, &source))
    }

    /// The error of a record whose kind the type doesn't have.
    fn unknown_kind(kind: u8) -> Error {
        Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "{} of kind {kind} is not known to this build; use a newer one",
                Self::NAME
            ),
        )
    }
}

fn unreadable(name: &str, kind: u8, source: &serde_json::Error) -> Error {
    Error::damaged(format!("{name} of kind {kind} can't be read: {source}"))
}

/// Declares an event type with its encoding: an enum whose variants have a kind byte of [`kinds`](crate::kinds) each, or a
/// struct that is the only event of its kind. The type also needs an `impl Event`, with its name.
///
/// ```text
/// events! {                                           enum Fruit { Picked(Box<Apple>), Eaten { by: String } }
///     pub enum Fruit {                                impl Fruit {
///         PICKED => Picked(apple: Box<Apple>),            pub const KINDS: &[u8] = &[kinds::PICKED, kinds::EATEN];
///         EATEN => Eaten { by: String },         ->       pub fn encode(&self) -> Result<EncodedEvent> {…}
///     }                                                   pub fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<Self> {…}
/// }                                                   }
/// ```
///
/// The payload of `Picked` is the JSON of the apple, that of `Eaten` is `{"by":…}`: `encode` and `decode` have a struct of
/// the variant's fields that serde derives both from.
macro_rules! events {
    (
        $(#[$attribute:meta])*
        pub enum $Type:ident {$(
            $(#[$of_variant:meta])*
            $KIND:ident => $Variant:ident
            $(($payload:ident: $Payload:ty))?
            $({$($(#[doc = $doc:literal])* $(#[serde($($serde:tt)*)])? $field:ident: $Field:ty,)*})?,
        )*}
    ) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum $Type {$(
            $(#[$of_variant])*
            $Variant $(($Payload))? $({$($(#[doc = $doc])* $field: $Field,)*})?,
        )*}

        impl $Type {
            /// The kind bytes of its events.
            pub const KINDS: &'static [u8] = &[$($crate::kinds::$KIND),*];

            $crate::encoding::events! { @encode fn(self) { match self {$(
                Self::$Variant $(($payload))? $({$($field),*})? => {
                    $(let json = $payload;)?
                    $(
                        #[derive(serde::Serialize)]
                        struct Fields<'a> {$($(#[serde($($serde)*)])? $field: &'a $Field),*}
                        let json = &Fields {$($field),*};
                    )?
                    self.encode_json($crate::kinds::$KIND, json)
                }
            )*}}}

            $crate::encoding::events! { @decode fn(kind, json) { match kind {
                $($crate::kinds::$KIND => {
                    $(
                        let $payload: $Payload = Self::decode_json(kind, json)?;
                        Ok(Self::$Variant($payload))
                    )?
                    $(
                        #[derive(serde::Deserialize)]
                        struct Fields {$($(#[serde($($serde)*)])? $field: $Field),*}
                        let Fields {$($field),*} = Self::decode_json(kind, json)?;
                        Ok(Self::$Variant {$($field),*})
                    )?
                })*
                _ => Err(Self::unknown_kind(kind)),
            }}}
        }
    };

    ($KIND:ident => $Type:ident) => {
        impl $Type {
            $crate::encoding::events! { @encode fn(self) {
                self.encode_json($crate::kinds::$KIND, self)
            }}

            $crate::encoding::events! { @decode fn(kind, json) {
                if kind != $crate::kinds::$KIND {
                    return Err(Self::unknown_kind(kind));
                }
                Self::decode_json(kind, json)
            }}
        }
    };

    (@encode fn($self:ident) $body:block) => {
        /// The event as the parts of a record.
        ///
        /// # Errors
        /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) when a field is refused.
        pub fn encode(&$self) -> $crate::Result<$crate::EncodedEvent> {
            use $crate::encoding::Event;
            $self.check()?;
            $body
        }
    };

    (@decode fn($kind:ident, $json:ident) $body:block) => {
        /// Reads an event from the parts of a record, of this version or an older one.
        ///
        /// # Errors
        /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for a kind or a version that this build doesn't know,
        /// [`Damaged`](crate::ErrorKind::Damaged) for a payload of another shape.
        pub fn decode($kind: u8, meta: &[u8], payload: &[u8]) -> $crate::Result<Self> {
            use $crate::encoding::Event;
            let $json = &*Self::open(meta, payload)?;
            $body
        }
    };
}
pub(crate) use events;

#[cfg(test)]
mod tests {
    use super::*;

    struct Third;

    impl Event for Third {
        const NAME: &'static str = "a test event";
        const VERSION: u8 = 3;

        fn upcast(version: u8, json: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
            Cow::Owned([&json, &[b'0' + version][..]].concat())
        }
    }

    #[test]
    fn an_older_payload_is_upcast_step_by_step() {
        assert_eq!(&*Third::open(&[1], b"v").unwrap(), b"v12");
        assert_eq!(&*Third::open(&[3], b"v").unwrap(), b"v");
    }

    #[test]
    fn a_version_that_is_not_known_is_refused_by_name() {
        for meta in [[0], [4]] {
            let error = Third::open(&meta, b"{}").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
            assert!(error.to_string().contains("test event"), "{error}");
        }
        for meta in [&b""[..], &[1, 1]] {
            let error = Third::open(meta, b"{}").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
    }
}
