//! [`Reply`]: the answer of a call to JavaScript.

use serde::Serialize;

use crate::{Result, written::to_javascript};

/// The answer of a call to JavaScript: at most one of each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// The handle of a new object.
    pub handle: Option<u32>,
    /// A value as JSON text.
    pub json: Option<String>,
    /// Contents, in the layout of the method's documentation.
    pub bytes: Option<Vec<u8>>,
}

impl Reply {
    /// An empty reply.
    pub const DONE: Self = Self {
        handle: None,
        json: None,
        bytes: None,
    };

    /// A value.
    ///
    /// # Errors
    /// `invalid_input` when the value has no JSON form.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        to_javascript(value).map(Self::text)
    }

    /// A value that is JSON text already.
    pub fn text(json: String) -> Self {
        Self {
            json: Some(json),
            ..Self::DONE
        }
    }

    /// Contents.
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Some(bytes),
            ..Self::DONE
        }
    }

    /// The same reply, with the handle of an object.
    #[must_use]
    pub fn with_handle(self, handle: u32) -> Self {
        Self {
            handle: Some(handle),
            ..self
        }
    }

    /// The same reply, with contents.
    #[must_use]
    pub fn with_bytes(self, bytes: Vec<u8>) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }
}
