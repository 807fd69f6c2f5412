//! What a call answers: a value, contents, or an object that was made; known at once, or once something is read or written.

use std::{future::Future, marker::PhantomData, rc::Rc};

use serde::Serialize;

use crate::{
    Failure, Reply, Result,
    object::{Object, Scope},
    tasks::Answer,
};

/// What a call answers.
pub(crate) trait IntoReply {
    fn into_reply(self) -> Result<Reply>;
}

impl<T: Serialize> IntoReply for T {
    fn into_reply(self) -> Result<Reply> {
        Reply::json(&self)
    }
}

/// Heads as JSON, and the contents that they tell of as the bytes they are.
pub(crate) struct Packed<Heads> {
    bytes: Vec<u8>,
    heads: PhantomData<fn() -> Heads>,
}

impl<Heads> Packed<Heads> {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            heads: PhantomData,
        }
    }
}

impl<Heads> IntoReply for Packed<Heads> {
    fn into_reply(self) -> Result<Reply> {
        Ok(Reply::bytes(self.bytes))
    }
}

/// A value, and contents beside it.
pub(crate) struct Beside<T> {
    reply: Reply,
    told: PhantomData<fn() -> T>,
}

impl<T: Serialize> Beside<T> {
    pub(crate) fn new(value: &T, contents: Option<Vec<u8>>) -> Result<Self> {
        let reply = Reply {
            bytes: contents,
            ..Reply::json(value)?
        };
        Ok(Self {
            reply,
            told: PhantomData,
        })
    }
}

impl<T> IntoReply for Beside<T> {
    fn into_reply(self) -> Result<Reply> {
        Ok(self.reply)
    }
}

/// An object that was made, what is told of it, and contents.
pub(crate) struct Made<T> {
    reply: Reply,
    told: PhantomData<fn() -> T>,
}

impl<T: Serialize> Made<T> {
    pub(crate) fn new(scope: &Scope, object: Rc<dyn Object>, told: &T) -> Result<Self> {
        let reply = Reply::json(told)?;
        Ok(Self {
            reply: reply.with_handle(scope.objects.add(object)?),
            told: PhantomData,
        })
    }

    pub(crate) fn with_packed<Heads>(self, packed: Packed<Heads>) -> Self {
        Self {
            reply: self.reply.with_bytes(packed.bytes),
            ..self
        }
    }
}

impl<T> Made<Option<T>> {
    /// The same of an object that may not be there.
    pub(crate) fn optional(made: Option<Made<T>>) -> Result<Self> {
        let reply = made.map_or_else(|| Reply::json(&()), |made| Ok(made.reply))?;
        Ok(Self {
            reply,
            told: PhantomData,
        })
    }
}

impl<T> IntoReply for Made<T> {
    fn into_reply(self) -> Result<Reply> {
        Ok(self.reply)
    }
}

/// The answer to a call that answers a `T`.
pub(crate) struct Told<T> {
    pub(crate) answer: Answer,
    told: PhantomData<fn() -> T>,
}

impl<T> From<Answer> for Told<T> {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            told: PhantomData,
        }
    }
}

async fn reply<T: IntoReply, E: Into<Failure>>(
    future: impl Future<Output = std::result::Result<T, E>>,
) -> Result<Reply> {
    future.await.map_err(Into::into)?.into_reply()
}

/// What is known at once.
pub(crate) fn known<T: IntoReply, E: Into<Failure>>(value: std::result::Result<T, E>) -> Told<T> {
    Answer::known(value.map_err(Into::into).and_then(T::into_reply)).into()
}

/// The answer of a future that is no write.
pub(crate) fn wait<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Told<T> {
    Answer::wait(reply(future)).into()
}

/// What writes.
pub(crate) fn write<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Told<T> {
    Answer::write(reply(future)).into()
}
