//! Chats: sessions as their users see them, with messages and steps.

use std::rc::Rc;

use runlog::{
    Page, RawJson,
    chats::{
        Chat, ChatFilter, ChatList, ChatMessage, ChatRequest, ImportOptions, ImportReport,
        ListMessages, ListRequests, ListSteps, MessageFilter, NewRequest, ResumeAction, Resumption,
        StackLevel, Step, Table, UnfinishedRequest,
    },
};
use serde::Serialize;

use crate::{
    Failure, Result,
    answers::{Made, Packed, wait, write},
    arguments::Input,
    calls::calls,
    given::{Given, GivenUpdates},
    object::{Object, Scope},
    requests::{RequestObject, RequestPlace},
    store::StoreObject,
    tasks::Answer,
};

/// How to resume an interrupted request.
pub(crate) struct ResumptionObject {
    of: Rc<StoreObject>,
    resumption: Resumption,
}

/// An interrupted request, and how to go on with it: which assistant, with which input, in which space, at which place of
/// the call stack.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ResumptionParts"))]
struct Interrupted {
    /// The step that was cut off: its assistant goes on, with its input.
    step: Step,
    /// The space as it was when the step began.
    space: RawJson,
    /// What to do with the step.
    action: ResumeAction,
    /// Whether it isn't the root's.
    nested: bool,
    /// The call stack, from the root to the node of the step.
    stack: Vec<StackLevel>,
}

fn interrupted(
    of: Rc<StoreObject>,
    scope: &Scope,
    resumption: Resumption,
) -> Result<Made<Interrupted>> {
    let interrupted = Interrupted {
        step: resumption.step.clone(),
        space: resumption.space.snapshot(),
        action: resumption.action(),
        nested: resumption.is_nested(),
        stack: resumption.stack.clone(),
    };
    Made::new(
        scope,
        Rc::new(ResumptionObject { of, resumption }),
        &interrupted,
    )
}

fn inner<T>(given: Vec<Given<T>>) -> Vec<T> {
    given.into_iter().map(|item| item.0).collect()
}

calls! {
    (of: &Rc<StoreObject>, scope, input) {
        let chats = of.store()?.chats();
        let (maker, scope) = (Rc::clone(of), scope.clone());
    }

    createChat(chat: Given<Chat>) -> Chat => write(async move { chats.create_chat(chat.0).await });
    getChat { chat: String } -> Option<Chat> =>
        of.read(async move { chats.get_chat(&chat).await });
    updateChat { id: String, updates: GivenUpdates<Chat> } -> Chat =>
        write(async move { chats.update_chat(&id, &updates.updates).await });
    deleteChat { chat: String } -> () =>
        write(async move { chats.delete_chat(&chat).await.map(drop) });
    restoreChat { chat: String } -> Chat =>
        write(async move { chats.restore_chat(&chat).await });
    listChats(filter: ChatFilter) -> ChatList =>
        of.read(async move { chats.list_chats(&filter).await });
    saveMessages { chat: String, messages: Vec<Given<ChatMessage>> } -> Vec<ChatMessage> =>
        write(async move { chats.save_messages(&chat, inner(messages)).await });
    getChatMessages { chat: String, #[serde(default)] filter: MessageFilter }
        -> Packed<Vec<ChatMessage>> =>
        of.read(async move { Packed::of_json(&chats.get_messages(&chat, &filter).await?) });
    listChatMessages { chat: String, #[serde(default)] filter: ListMessages } -> Page<ChatMessage> =>
        of.read(async move { chats.list_messages(&chat, &filter).await });
    countChatMessages { chat: String, #[serde(default)] filter: MessageFilter } -> usize =>
        of.read(async move { chats.count_messages(&chat, &filter).await });
    // A lookup by id only may have to search every chat.
    updateMessage { id: String, updates: GivenUpdates<ChatMessage> } -> ChatMessage =>
        of.read(async move { chats.update_message(&id, &updates.updates).await });
    redactMessage { id: String, reason: String } -> () =>
        of.read(async move { chats.redact_message(&id, &reason).await.map(drop) });
    deleteMessages { chat: String, ids: Vec<String> } -> () =>
        write(async move {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            chats.delete_messages(&chat, &ids).await.map(drop)
        });
    saveSteps { steps: Vec<Given<Step>> } -> Vec<Step> =>
        write(async move { chats.save_steps(inner(steps)).await });
    updateStep { id: String, updates: GivenUpdates<Step> } -> Step =>
        of.read(async move { chats.update_step(&id, &updates.updates).await });
    getSteps { id: String } -> Vec<Step> => of.read(async move { chats.get_steps(&id).await });
    listSteps { #[serde(default)] filter: ListSteps } -> Page<Step> =>
        of.read(async move { chats.list_steps(&filter).await });
    listRequests(filter: ListRequests) -> Page<UnfinishedRequest> =>
        of.read(async move { chats.list_requests(&filter).await });
    getRequest { id: String } -> Option<ChatRequest> =>
        of.read(async move { chats.get_request(&id).await });
    getLastIncompleteStep { chat: String } -> Option<Step> =>
        of.read(async move { chats.get_last_incomplete_step(&chat).await });
    getStepsByStackId { id: String } -> Vec<Step> =>
        of.read(async move { chats.get_steps_by_stack_id(&id).await });
    getStackPath { id: String } -> Vec<String> =>
        of.read(async move { chats.get_stack_path(&id).await });
    beginRequest { chat: String, request: NewRequest, message: Given<ChatMessage> }
        -> Made<RequestPlace> =>
        write(async move {
            RequestObject::made(maker, &scope, chats.begin_request(&chat, request, message.0).await?)
        });
    resumeChat { chat: String, request_id: Option<String> } -> Made<Option<Interrupted>> => {
        let resuming = of.run_blocking(async move {
            match request_id {
                None => chats.resume(&chat).await,
                Some(request_id) => chats.resume_request_in(&chat, &request_id).await,
            }
        });
        wait(async move {
            let found = resuming.await?.map(|found| interrupted(maker, &scope, found));
            Made::optional(found.transpose()?)
        })
    };
    dismiss { id: String } -> Vec<Step> => of.read(async move { chats.dismiss(&id).await });
    completeDelegate { chat: String, stack: String, output: RawJson } -> Step =>
        write(async move { chats.complete_delegate(&chat, &stack, &output).await });
    importAgentChat { lines: String } -> ImportReport =>
        of.read(async move { chats.import_table(Table::Chat, &lines, ImportOptions::default()).await });
    importAgentMessage { lines: String } -> ImportReport =>
        of.read(async move { chats.import_table(Table::Message, &lines, ImportOptions::default()).await });
    importAgentStep { lines: String } -> ImportReport =>
        of.read(async move { chats.import_table(Table::Step, &lines, ImportOptions::default()).await });
    importAgentHistory { lines: String } -> ImportReport =>
        of.read(async move { chats.import_table(Table::History, &lines, ImportOptions::default()).await });
}

impl Object for ResumptionObject {
    fn name(&self) -> &'static str {
        "an interrupted request"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        calls_of_resumption::call(&self, scope, input)
    }
}

pub(crate) mod calls_of_resumption {
    use super::*;

    calls! {
        (of: &Rc<ResumptionObject>, scope, input) {
            let chats = of.of.store()?.chats();
            let (of, scope) = (Rc::clone(of), scope.clone());
        }

        goOn {} -> Made<RequestPlace> =>
            write(async move {
                let request = chats.go_on(&of.resumption).await?;
                RequestObject::made(Rc::clone(&of.of), &scope, request)
            });
        complete { output: RawJson } -> Vec<Step> =>
            write(async move {
                let done = chats.complete_resumed(&of.resumption, &output).await;
                done.map_err(Failure::from)
            });
    }
}
