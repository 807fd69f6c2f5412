//! [`RequestObject`]: an active request, in memory until it ends.

use std::{
    rc::Rc,
    sync::{self, Arc, MutexGuard},
};

use runlog::{
    Error, ErrorKind, RawJson,
    chats::{
        ChatMessage, DelegateOptions, RequestBuffer, RequestDetails, RequestEnd, RequestFlush,
        StepType,
    },
};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::{
    Failure, Result,
    answers::{IntoReply, Made, Typed, change, known, write_to},
    arguments::Input,
    calls::calls,
    changes::Key,
    given::Given,
    host::Movable,
    object::{Object, Scope},
    space,
    store::{StoreObject, Unfinished, lock},
    tasks::Answer,
};

/// An active request. Its messages and steps are in memory until its exit writes them.
pub(crate) struct RequestObject {
    of: Rc<StoreObject>,
    buffer: Arc<Buffer>,
    /// Held by the flush or the exit that is writing. Two at once would write the same part, and the second would find the ids of the
    /// first taken.
    turn: Mutex<()>,
}

/// What a request holds. It may be taken by another thread, which closes the store.
struct Buffer(sync::Mutex<Held>);

struct Held {
    /// `None` while its exit is being written, and afterwards.
    request: Option<RequestBuffer>,
    /// Whether its exit was called: it takes nothing any more, though the exit may wait for its turn.
    is_ending: bool,
    /// Whether it was taken as its store was closed.
    is_left: bool,
}

impl Held {
    /// What is said where there is none.
    fn missing(&self) -> Failure {
        if self.is_left {
            Failure::closed("the store")
        } else {
            ended()
        }
    }
}

/// Where a request is.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct RequestPlace {
    /// The chat.
    chat_id: String,
    /// The request.
    request_id: String,
    /// The node of the call stack at which it is.
    stack_id: String,
    /// The assistant of that node.
    assistant_id: String,
}

impl RequestObject {
    /// The handle of a request, and its current place.
    pub(crate) fn made(
        of: Rc<StoreObject>,
        scope: &Scope,
        request: RequestBuffer,
    ) -> Result<Made<RequestPlace>> {
        let place = place(&request);
        let object = Rc::new(Self {
            of,
            buffer: Arc::new(Buffer(sync::Mutex::new(Held {
                request: Some(request),
                is_ending: false,
                is_left: false,
            }))),
            turn: Mutex::new(()),
        });
        let buffer = Arc::downgrade(&object.buffer);
        object.of.begun(buffer);
        Made::new(scope, object, &place)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.buffer.0)
    }

    fn with<T: IntoReply>(
        &self,
        work: impl FnOnce(&mut RequestBuffer) -> runlog::Result<T>,
    ) -> Typed<T> {
        known(self.active(|request| work(request).map_err(Failure::from)))
    }

    /// Does something with the request, unless its exit was called.
    fn active<T>(&self, work: impl FnOnce(&mut RequestBuffer) -> Result<T>) -> Result<T> {
        let mut held = self.held();
        if held.is_ending || held.request.is_none() {
            return Err(held.missing());
        }
        held.request.as_mut().map_or_else(|| Err(ended()), work)
    }

    fn finish(self: Rc<Self>, end: RequestEnd) -> Result<Typed<()>> {
        let key = self.active(|request| Ok(key_of(request)))?;
        self.held().is_ending = true;
        Ok(self.writing(key, |of| async move {
            let _turn = of.turn.lock().await;
            let mut request = {
                let mut held = of.held();
                let taken = held.request.take();
                taken.ok_or_else(|| held.missing())?
            };
            let finished = request.finish(end).await;
            if finished.is_err() {
                // The caller may try again.
                let mut held = of.held();
                held.request = Some(request);
                held.is_ending = false;
            }
            finished.map(drop).map_err(Failure::from)
        }))
    }

    /// Writes what there is, in as many parts as it takes. The request continues meanwhile: what it gathers then belongs to the next
    /// part.
    fn flush(self: Rc<Self>) -> Result<Typed<()>> {
        let (key, part) = self.active(|request| Ok((key_of(request), next_part(request)?)))?;
        let Some(mut part) = part else {
            return Ok(known(Ok::<_, Failure>(())));
        };
        Ok(self.writing(key, |of| async move {
            let _turn = of.turn.lock().await;
            loop {
                let (flush, is_last) = part;
                flush.write().await?;
                let mut held = of.held();
                // If it has ended meanwhile, that wrote everything.
                let Some(request) = held.request.as_mut() else {
                    return Ok(());
                };
                request.flushed(&flush);
                let next = if is_last { None } else { next_part(request)? };
                let Some(next) = next else {
                    return Ok::<_, Failure>(());
                };
                part = next;
            }
        }))
    }

    /// The answer of a write. One that changes messages looks at what there is of them: it waits for changes that were called before it.
    fn writing<F>(
        self: Rc<Self>,
        (key, is_change): (Key, bool),
        work: impl FnOnce(Rc<Self>) -> F,
    ) -> Typed<()>
    where
        F: Future<Output = Result<()>> + 'static,
    {
        let work = work(self);
        match is_change {
            true => change(key, work),
            false => write_to(key, work),
        }
    }
}

/// Writes a request whose store is closed before it has ended.
async fn interrupt(mut request: RequestBuffer) -> Result<()> {
    for _ in 0..RENAMES_MAX {
        let Err(error) = request.finish(RequestEnd::Interrupted).await else {
            return Ok(());
        };
        match error.kind() {
            // The messages have fresh ids by now.
            ErrorKind::AlreadyExists => {}
            // It goes with its chat.
            ErrorKind::NotFound => return Ok(()),
            kind => {
                let (id, chat) = (request.request_id(), request.chat_id());
                let message =
                    format!("request {id:?} of chat {chat:?} could not be written: {error}");
                return Err(Error::new(kind, message).into());
            }
        }
    }
    // Dropped, it is written without looking any further.
    Ok(())
}

/// How often messages whose ids are taken get fresh ones.
const RENAMES_MAX: u32 = 100;

/// The part that a flush writes next, which may be under way already, and whether all that was gathered is in it.
fn next_part(request: &mut RequestBuffer) -> Result<Option<(RequestFlush, bool)>> {
    let part = request.start_flush()?;
    Ok(part.map(|part| (part, !request.has_unwritten())))
}

/// What a flush or an exit writes to, and whether it changes messages there.
fn key_of(request: &RequestBuffer) -> (Key, bool) {
    (Key::chat(request.chat_id()), request.changes_saved())
}

fn ended() -> Failure {
    Failure::invalid("the request has ended already; begin another")
}

fn place(request: &RequestBuffer) -> RequestPlace {
    RequestPlace {
        chat_id: request.chat_id().to_owned(),
        request_id: request.request_id().to_owned(),
        stack_id: request.stack_id().to_owned(),
        assistant_id: request.assistant_id().to_owned(),
    }
}

impl Unfinished for Buffer {
    fn leave(&self) -> Option<Movable<()>> {
        let mut held = lock(&self.0);
        // One that is ending is written by its exit.
        if held.is_ending {
            return None;
        }
        held.is_left = true;
        Some(Box::pin(interrupt(held.request.take()?)))
    }
}

impl Object for RequestObject {
    fn name(&self) -> &'static str {
        "a request"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        if let Some(answer) = call(&self, scope, input)? {
            return Ok(Some(answer));
        }
        self.active(|request| space::call(request.space_mut(), scope, input))
    }
}

calls! {
    (of: &Rc<RequestObject>, _scope, input) {}

    finish { end: RequestEnd } -> () => Rc::clone(of).finish(end)?;
    flush {} -> () => Rc::clone(of).flush()?;
    send(message: Given<ChatMessage>) -> String => of.with(|request| request.send(message.0));
    describe(details: RequestDetails) -> () =>
        of.with(|request| request.describe(details).map(drop));
    append { message_id: String, value: String } -> () =>
        of.with(|request| request.append(&message_id, &value).map(drop));
    replace { message_id: String, value: RawJson, #[serde(rename = "type")] message_type: Option<String> } -> () =>
        of.with(|request| {
            match message_type {
                Some(message_type) => request.replace_as(&message_id, message_type, value),
                None => request.replace(&message_id, value),
            }
        });
    startStep { #[serde(rename = "type")] step_type: StepType, input: RawJson, stack_id: Option<String> } -> String =>
        of.with(|request| {
            match stack_id {
                Some(stack_id) => request.start_step_in(&stack_id, step_type, input),
                None => request.start_step(step_type, input),
            }
        });
    delegate { assistant_id: String, #[serde(default)] options: DelegateOptions } -> String =>
        of.with(|request| request.delegate(assistant_id, options));
    completeStep { step_id: String, output: Option<RawJson> } -> () =>
        of.with(|request| request.complete_step(&step_id, output).map(drop));
    failStep { step_id: String, error: String } -> () =>
        of.with(|request| request.fail_step(&step_id, &error).map(drop));
    enter { assistant_id: String, stack_id: Option<String> } -> RequestPlace =>
        of.with(|request| {
            match stack_id {
                Some(stack_id) => drop(request.enter_as(assistant_id, stack_id)?),
                None => drop(request.enter(assistant_id)?),
            }
            Ok(place(request))
        });
    leave {} -> RequestPlace =>
        of.with(|request| {
            request.leave()?;
            Ok(place(request))
        });
}

impl Drop for RequestObject {
    fn drop(&mut self) {
        // A request that was never ended is written as interrupted, which waits for the storage.
        let request = self.held().request.take();
        if let Some(request) = request {
            self.of.leave(move || drop(request));
        }
    }
}
