//! [`RequestObject`]: a request under way, in memory until it ends.

use std::{cell::RefCell, rc::Rc};

use runlog::{
    RawJson,
    chats::{ChatMessage, RequestBuffer, RequestEnd, StepType},
};
use serde::{Deserialize, Serialize};

use crate::{
    Failure, Host, Reply, Result,
    arguments::Input,
    object::{Object, Scope},
    space,
    store::StoreObject,
    tasks::Answer,
};

/// A request under way. What happens in it is in memory, until its exit writes it.
pub(crate) struct RequestObject {
    of: Rc<StoreObject>,
    host: Host,
    /// Not here while its exit is written, or once that was.
    request: RefCell<Option<RequestBuffer>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMessage<T> {
    id: String,
    value: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartStep {
    #[serde(rename = "type")]
    step_type: StepType,
    input: RawJson,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndStep {
    id: String,
    output: Option<RawJson>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Enter {
    assistant_id: String,
    stack_id: Option<String>,
}

/// `"completed"`, `"interrupted"`, or `{"failed": "why"}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum EndArgument {
    Completed,
    Interrupted,
    Failed(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finish {
    end: EndArgument,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlaceReply<'a> {
    chat_id: &'a str,
    request_id: &'a str,
    stack_id: &'a str,
    assistant_id: &'a str,
}

impl RequestObject {
    /// The handle of a request, and where it is.
    pub(crate) fn reply(
        of: Rc<StoreObject>,
        scope: &Scope,
        request: RequestBuffer,
    ) -> Result<Reply> {
        let reply = place(&request)?;
        let object = Rc::new(Self {
            of,
            host: scope.host.clone(),
            request: RefCell::new(Some(request)),
        });
        object.of.begun(&object);
        Ok(reply.with_handle(scope.objects.add(object)?))
    }

    /// Takes the request out, where it hasn't ended.
    pub(crate) fn leave(&self) -> Option<RequestBuffer> {
        self.request.take()
    }

    fn with(&self, work: impl FnOnce(&mut RequestBuffer) -> Result<Reply>) -> Result<Reply> {
        let mut request = self.request.borrow_mut();
        work(request.as_mut().ok_or_else(ended)?)
    }

    fn finish(self: Rc<Self>, end: RequestEnd) -> Result<Answer> {
        let mut request = self.request.take().ok_or_else(ended)?;
        Ok(Answer::write(async move {
            let finished = request.finish(end).await;
            if finished.is_err() {
                // It may be tried again.
                *self.request.borrow_mut() = Some(request);
            }
            finished?;
            Ok(Reply::DONE)
        }))
    }
}

fn ended() -> Failure {
    Failure::invalid("the request has ended already; begin another")
}

fn place(request: &RequestBuffer) -> Result<Reply> {
    Reply::json(&PlaceReply {
        chat_id: request.chat_id(),
        request_id: request.request_id(),
        stack_id: request.stack_id(),
        assistant_id: request.assistant_id(),
    })
}

impl Object for RequestObject {
    fn name(&self) -> &'static str {
        "a request"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        let done = match input.method {
            "finish" => {
                let Finish { end } = input.read()?;
                let end = match end {
                    EndArgument::Completed => RequestEnd::Completed,
                    EndArgument::Interrupted => RequestEnd::Interrupted,
                    EndArgument::Failed(error) => RequestEnd::Failed(error),
                };
                return self.finish(end).map(Some);
            }
            "send" => {
                let message: ChatMessage = input.read()?;
                self.with(|request| Reply::json(&request.send(message)?))?
            }
            "append" => {
                let OfMessage::<String> { id, value } = input.read()?;
                self.with(|request| {
                    request.append(&id, &value)?;
                    Ok(Reply::DONE)
                })?
            }
            "replace" => {
                let OfMessage::<RawJson> { id, value } = input.read()?;
                self.with(|request| {
                    request.replace(&id, value)?;
                    Ok(Reply::DONE)
                })?
            }
            "startStep" => {
                let StartStep {
                    step_type,
                    input: given,
                } = input.read()?;
                self.with(|request| Reply::json(&request.start_step(step_type, given)?))?
            }
            "completeStep" => {
                let EndStep { id, output, .. } = input.read()?;
                self.with(|request| {
                    request.complete_step(&id, output)?;
                    Ok(Reply::DONE)
                })?
            }
            "failStep" => {
                let EndStep { id, error, .. } = input.read()?;
                self.with(|request| {
                    request.fail_step(&id, error.as_deref().unwrap_or_default())?;
                    Ok(Reply::DONE)
                })?
            }
            "enter" => {
                let Enter {
                    assistant_id,
                    stack_id,
                } = input.read()?;
                self.with(|request| {
                    match stack_id {
                        Some(stack_id) => request.enter_as(assistant_id, stack_id)?,
                        None => request.enter(assistant_id)?,
                    };
                    place(request)
                })?
            }
            "leave" => self.with(|request| {
                request.leave()?;
                place(request)
            })?,
            _ => {
                let mut request = self.request.borrow_mut();
                match space::call(request.as_mut().ok_or_else(ended)?.space_mut(), input)? {
                    Some(reply) => reply,
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(Answer::known(Ok(done))))
    }
}

impl Drop for RequestObject {
    fn drop(&mut self) {
        // One that was never ended is written as interrupted, which waits for the storage.
        if let Some(request) = self.request.take() {
            (self.host.offload)(Box::new(move || drop(request)));
        }
    }
}
