//! [`RequestObject`]: an active request, in memory until it ends.

use std::{cell::RefCell, rc::Rc};

use runlog::{
    RawJson,
    chats::{ChatMessage, DelegateOptions, RequestBuffer, RequestDetails, RequestEnd, StepType},
};
use serde::Serialize;

use crate::{
    Failure, Host, Result,
    answers::{IntoReply, Made, Typed, known, write},
    arguments::Input,
    calls::calls,
    given::Given,
    object::{Object, Scope},
    space,
    store::{StoreObject, Unfinished},
    tasks::Answer,
};

/// An active request. Its messages and steps are in memory until its exit writes them.
pub(crate) struct RequestObject {
    of: Rc<StoreObject>,
    host: Host,
    /// `None` while its exit is being written, and afterwards.
    request: RefCell<Option<RequestBuffer>>,
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
            host: scope.host.clone(),
            request: RefCell::new(Some(request)),
        });
        object.of.begun(&(Rc::clone(&object) as Rc<dyn Unfinished>));
        Made::new(scope, object, &place)
    }

    fn with<T: IntoReply>(
        &self,
        work: impl FnOnce(&mut RequestBuffer) -> runlog::Result<T>,
    ) -> Typed<T> {
        let mut request = self.request.borrow_mut();
        known(match request.as_mut() {
            Some(request) => work(request).map_err(Failure::from),
            None => Err(ended()),
        })
    }

    fn finish(self: Rc<Self>, end: RequestEnd) -> Result<Typed<()>> {
        let mut request = self.request.take().ok_or_else(ended)?;
        Ok(write(async move {
            let finished = request.finish(end).await;
            if finished.is_err() {
                // The caller may try again.
                *self.request.borrow_mut() = Some(request);
            }
            finished.map(drop)
        }))
    }
}

impl RequestObject {
    /// The request continues while a part is written: later messages and steps belong to the next part.
    fn flush(self: Rc<Self>) -> Result<Typed<()>> {
        let next = |of: &Self| match of.request.borrow_mut().as_mut() {
            Some(request) => request.start_flush().map_err(Failure::from),
            None => Err(ended()),
        };
        let Some(first) = next(&self)? else {
            return Ok(known(Ok::<_, Failure>(())));
        };
        Ok(write(async move {
            first.write().await?;
            // It may have ended meanwhile, which writes everything.
            if let Some(request) = self.request.borrow_mut().as_mut() {
                request.flushed(&first);
            }
            Ok::<_, runlog::Error>(())
        }))
    }
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

impl Unfinished for RequestObject {
    fn leave(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(self.request.take()?))
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
        let mut request = self.request.borrow_mut();
        space::call(
            request.as_mut().ok_or_else(ended)?.space_mut(),
            scope,
            input,
        )
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
        if let Some(request) = self.request.take() {
            (self.host.offload)(Box::new(move || drop(request)));
        }
    }
}
