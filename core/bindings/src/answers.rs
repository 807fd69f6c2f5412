//! The answer of a call: a value, contents, or a new object; known at once, or after a read or a write.

use std::{future::Future, marker::PhantomData, rc::Rc};

use serde::Serialize;

use crate::{
    Failure, Reply, Result,
    changes::Key,
    object::{Object, Scope},
    reads::Reads,
    tasks::{Answer, Lane},
    written::to_javascript,
};

/// Something that a call can return.
pub(crate) trait IntoReply {
    fn into_reply(self) -> Result<Reply>;
}

impl<T: Serialize> IntoReply for T {
    fn into_reply(self) -> Result<Reply> {
        Reply::json(&self)
    }
}

/// Heads as JSON, followed by the contents that they describe as raw bytes.
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

impl<Heads: Serialize> Packed<Heads> {
    /// A value as JSON without contents, which JavaScript reads in pieces where it is long.
    pub(crate) fn of_json(value: &Heads) -> Result<Self> {
        to_javascript(value).map(|json| Self::new(json.into_bytes()))
    }
}

impl<Heads> IntoReply for Packed<Heads> {
    fn into_reply(self) -> Result<Reply> {
        Ok(Reply::bytes(self.bytes))
    }
}

/// A value, with separate contents.
pub(crate) struct WithContents<T> {
    reply: Reply,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize> WithContents<T> {
    pub(crate) fn new(value: &T, contents: Option<Vec<u8>>) -> Result<Self> {
        let reply = Reply {
            bytes: contents,
            ..Reply::json(value)?
        };
        Ok(Self {
            reply,
            value: PhantomData,
        })
    }
}

impl<T> IntoReply for WithContents<T> {
    fn into_reply(self) -> Result<Reply> {
        Ok(self.reply)
    }
}

/// A new object, with a value that describes it, and contents.
pub(crate) struct Made<T> {
    reply: Reply,
    value: PhantomData<fn() -> T>,
}

impl<T: Serialize> Made<T> {
    pub(crate) fn new(scope: &Scope, object: Rc<dyn Object>, value: &T) -> Result<Self> {
        let reply = Reply::json(value)?;
        Ok(Self {
            reply: reply.with_handle(scope.objects.add(object)?),
            value: PhantomData,
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
    /// The same for an object that may not exist.
    pub(crate) fn optional(made: Option<Made<T>>) -> Result<Self> {
        let reply = made.map_or_else(|| Reply::json(&()), |made| Ok(made.reply))?;
        Ok(Self {
            reply,
            value: PhantomData,
        })
    }
}

impl<T> IntoReply for Made<T> {
    fn into_reply(self) -> Result<Reply> {
        Ok(self.reply)
    }
}

/// An [`Answer`] whose value is a `T`.
pub(crate) struct Typed<T> {
    pub(crate) answer: Answer,
    value: PhantomData<fn() -> T>,
}

impl<T> From<Answer> for Typed<T> {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            value: PhantomData,
        }
    }
}

async fn reply<T: IntoReply, E: Into<Failure>>(
    future: impl Future<Output = std::result::Result<T, E>>,
) -> Result<Reply> {
    future.await.map_err(Into::into)?.into_reply()
}

/// An answer that is known at once.
pub(crate) fn known<T: IntoReply, E: Into<Failure>>(value: std::result::Result<T, E>) -> Typed<T> {
    Answer::known(value.map_err(Into::into).and_then(T::into_reply)).into()
}

/// The answer of a read, which may block, from where reads run.
pub(crate) fn read<T: IntoReply, E: Into<Failure>>(
    reads: &Reads,
    future: impl Future<Output = std::result::Result<T, E>> + Send + 'static,
) -> Typed<T> {
    let future = Box::pin(async move { future.await.map_err(Into::into)?.into_reply() });
    Answer {
        lane: Lane::Own,
        key: None,
        future: reads.run(future),
    }
    .into()
}

/// The answer of a future that doesn't write.
pub(crate) fn wait<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Typed<T> {
    Answer::wait(reply(future)).into()
}

/// The answer of a future that writes.
pub(crate) fn write<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Typed<T> {
    Answer::write(reply(future)).into()
}

/// The answer of a future that adds to a thing.
pub(crate) fn write_to<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    key: Key,
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Typed<T> {
    let answer = Answer::write(reply(future));
    Answer {
        key: Some(key),
        ..answer
    }
    .into()
}

/// The answer of a future that begins once what was called before it is written, and holds up nothing that is called later.
pub(crate) fn after_writes<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Typed<T> {
    Answer {
        lane: Lane::AfterWrites,
        key: None,
        future: Box::pin(reply(future)),
    }
    .into()
}

/// The answer of a future that looks at a thing and changes it.
pub(crate) fn change<T: IntoReply + 'static, E: Into<Failure> + 'static>(
    key: Key,
    future: impl Future<Output = std::result::Result<T, E>> + 'static,
) -> Typed<T> {
    Answer::change(key, reply(future)).into()
}
