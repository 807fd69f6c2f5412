//! Chats: sessions as their users see them, with messages and steps. Their JSON has the names of the model.

use std::rc::Rc;

use runlog::{
    RawJson,
    chats::{
        Chat, ChatFilter, ChatMessage, ImportReport, ListSteps, MessageFilter, NewRequest,
        ResumeAction, Resumption, Step, StepStatus, StepType, Updates,
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    Reply, Result,
    arguments::Input,
    object::{Object, Scope},
    requests::RequestObject,
    store::StoreObject,
    tasks::Answer,
};

/// How an interrupted request goes on.
struct ResumptionObject {
    of: Rc<StoreObject>,
    resumption: Resumption,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfChat {
    chat: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResumeChat {
    chat: String,
    request_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ById {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    id: String,
    updates: Updates,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Save<T> {
    chat: String,
    messages: Vec<T>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveSteps {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    chat: String,
    #[serde(default)]
    filter: MessageFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    chat: String,
    #[serde(default)]
    filter: StepsArgument,
}

/// Which steps of a chat to list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepsArgument {
    request_id: Option<String>,
    stack_id: Option<String>,
    #[serde(rename = "type")]
    step_type: Option<StepType>,
    status: Option<StepStatus>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl StepsArgument {
    fn options(self) -> ListSteps {
        let Self {
            request_id,
            stack_id,
            step_type,
            status,
            limit,
            cursor,
        } = self;
        let limit = limit.unwrap_or(ListSteps::default().limit);
        ListSteps {
            request_id,
            stack_id,
            step_type,
            status,
            limit,
            cursor,
        }
    }
}

#[derive(Serialize)]
struct StepsReply<'a> {
    steps: &'a [Step],
    next: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Redact {
    id: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    chat: String,
    ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Begin {
    chat: String,
    assistant_id: String,
    request_id: Option<String>,
    stack_id: Option<String>,
    message: ChatMessage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteDelegate {
    chat: String,
    stack: String,
    output: RawJson,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Complete {
    output: RawJson,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Import {
    lines: String,
}

/// How an interrupted request goes on.
#[derive(Serialize)]
struct ResumptionReply<'a> {
    step: &'a Step,
    space: RawJson,
    action: &'static str,
    nested: bool,
    stack: Vec<LevelReply<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LevelReply<'a> {
    stack_id: &'a str,
    assistant_id: &'a str,
    steps: &'a [Step],
    waiting: Option<&'a Step>,
}

#[derive(Serialize)]
struct ImportReply {
    imported: usize,
    chats: usize,
    skipped: usize,
    issues: Vec<IssueReply>,
}

#[derive(Serialize)]
struct IssueReply {
    line: usize,
    what: String,
}

impl From<ImportReport> for ImportReply {
    fn from(report: ImportReport) -> Self {
        let ImportReport {
            imported,
            chats,
            skipped,
            issues,
        } = report;
        let issues = issues.into_iter().map(|issue| IssueReply {
            line: issue.line,
            what: issue.what,
        });
        Self {
            imported,
            chats,
            skipped,
            issues: issues.collect(),
        }
    }
}

fn action_name(action: ResumeAction) -> &'static str {
    match action {
        ResumeAction::Start => "start",
        ResumeAction::Restart => "restart",
        ResumeAction::Retry => "retry",
        ResumeAction::Continue => "continue",
    }
}

fn resumption_reply(
    of: Rc<StoreObject>,
    scope: &Scope,
    resumption: Option<Resumption>,
) -> Result<Reply> {
    let Some(resumption) = resumption else {
        return Reply::json(&());
    };
    let levels = resumption.stack.iter().map(|level| LevelReply {
        stack_id: &level.stack_id,
        assistant_id: &level.assistant_id,
        steps: &level.steps,
        waiting: level.waiting.as_ref(),
    });
    let reply = Reply::json(&ResumptionReply {
        step: &resumption.step,
        space: resumption.space.snapshot(),
        action: action_name(resumption.action()),
        nested: resumption.is_nested(),
        stack: levels.collect(),
    })?;
    Ok(reply.with_handle(
        scope
            .objects
            .add(Rc::new(ResumptionObject { of, resumption }))?,
    ))
}

/// Answers a call about chats.
pub(crate) fn call(
    of: &Rc<StoreObject>,
    scope: &Scope,
    input: Input<'_>,
) -> Result<Option<Answer>> {
    let chats = of.store()?.chats();
    Ok(Some(match input.method {
        "createChat" => {
            let chat: Chat = input.read()?;
            Answer::write(async move { Reply::json(&chats.create_chat(chat).await?) })
        }
        "getChat" => {
            let OfChat { chat } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_chat(&chat).await?) })
        }
        "updateChat" => {
            let Update { id, updates } = input.read()?;
            Answer::write(async move { Reply::json(&chats.update_chat(&id, &updates).await?) })
        }
        "deleteChat" => {
            let OfChat { chat } = input.read()?;
            Answer::write(async move {
                chats.delete_chat(&chat).await?;
                Ok(Reply::DONE)
            })
        }
        "listChats" => {
            let filter: ChatFilter = input.read()?;
            of.offload(async move { Reply::json(&chats.list_chats(&filter).await?) })
        }
        "saveMessages" => {
            let Save::<ChatMessage> { chat, messages } = input.read()?;
            Answer::write(async move { Reply::json(&chats.save_messages(&chat, messages).await?) })
        }
        "getChatMessages" => {
            let Get { chat, filter } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_messages(&chat, &filter).await?) })
        }
        // What is found by its id alone may have to be looked for in every chat.
        "updateMessage" => {
            let Update { id, updates } = input.read()?;
            of.offload(async move { Reply::json(&chats.update_message(&id, &updates).await?) })
        }
        "redactMessage" => {
            let Redact { id, reason } = input.read()?;
            of.offload(async move {
                chats.redact_message(&id, &reason).await?;
                Ok(Reply::DONE)
            })
        }
        "deleteMessages" => {
            let Delete { chat, ids } = input.read()?;
            Answer::write(async move {
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                chats.delete_messages(&chat, &ids).await?;
                Ok(Reply::DONE)
            })
        }
        "saveSteps" => {
            let SaveSteps { steps } = input.read()?;
            Answer::write(async move { Reply::json(&chats.save_steps(steps).await?) })
        }
        "updateStep" => {
            let Update { id, updates } = input.read()?;
            of.offload(async move { Reply::json(&chats.update_step(&id, &updates).await?) })
        }
        "getSteps" => {
            let ById { id } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_steps(&id).await?) })
        }
        "listSteps" => {
            let List { chat, filter } = input.read()?;
            let options = filter.options();
            of.offload(async move {
                let page = chats.list_steps(&chat, &options).await?;
                Reply::json(&StepsReply {
                    steps: &page.items,
                    next: page.next.as_deref(),
                })
            })
        }
        "getLastIncompleteStep" => {
            let OfChat { chat } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_last_incomplete_step(&chat).await?) })
        }
        "getStepsByStackId" => {
            let ById { id } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_steps_by_stack_id(&id).await?) })
        }
        "getStackPath" => {
            let ById { id } = input.read()?;
            of.offload(async move { Reply::json(&chats.get_stack_path(&id).await?) })
        }
        "beginRequest" => {
            let Begin {
                chat,
                assistant_id,
                request_id,
                stack_id,
                message,
            } = input.read()?;
            let new = NewRequest {
                request_id,
                assistant_id,
                stack_id,
            };
            let (of, scope) = (Rc::clone(of), scope.clone());
            Answer::write(async move {
                RequestObject::reply(of, &scope, chats.begin_request(&chat, new, message).await?)
            })
        }
        "resumeChat" => {
            let ResumeChat { chat, request_id } = input.read()?;
            let (of, scope) = (Rc::clone(of), scope.clone());
            let resuming = of.run_blocking(async move {
                Ok(match request_id {
                    None => chats.resume(&chat).await?,
                    Some(request_id) => chats
                        .resume_request(&request_id)
                        .await?
                        .filter(|it| it.step.chat_id == chat),
                })
            });
            Answer::wait(async move { resumption_reply(of, &scope, resuming.await?) })
        }
        "dismiss" => {
            let ById { id } = input.read()?;
            of.offload(async move { Reply::json(&chats.dismiss(&id).await?) })
        }
        "completeDelegate" => {
            let CompleteDelegate {
                chat,
                stack,
                output,
            } = input.read()?;
            Answer::write(async move {
                Reply::json(&chats.complete_delegate(&chat, &stack, &output).await?)
            })
        }
        "importAgentChat" => {
            let Import { lines } = input.read()?;
            of.offload(async move {
                Reply::json(&ImportReply::from(chats.import_agent_chat(&lines).await?))
            })
        }
        "importAgentMessage" => {
            let Import { lines } = input.read()?;
            of.offload(async move {
                Reply::json(&ImportReply::from(
                    chats.import_agent_message(&lines).await?,
                ))
            })
        }
        "importAgentStep" => {
            let Import { lines } = input.read()?;
            of.offload(async move {
                Reply::json(&ImportReply::from(chats.import_agent_step(&lines).await?))
            })
        }
        "importAgentHistory" => {
            let Import { lines } = input.read()?;
            of.offload(async move {
                Reply::json(&ImportReply::from(
                    chats.import_agent_history(&lines).await?,
                ))
            })
        }
        _ => return Ok(None),
    }))
}

impl Object for ResumptionObject {
    fn name(&self) -> &'static str {
        "an interrupted request"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        let chats = self.of.store()?.chats();
        let scope = scope.clone();
        Ok(Some(match input.method {
            "goOn" => Answer::write(async move {
                let request = chats.go_on(&self.resumption).await?;
                RequestObject::reply(Rc::clone(&self.of), &scope, request)
            }),
            "complete" => {
                let Complete { output } = input.read()?;
                Answer::write(async move {
                    Reply::json(&chats.complete_resumed(&self.resumption, &output).await?)
                })
            }
            _ => return Ok(None),
        }))
    }
}
