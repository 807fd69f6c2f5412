//! Chats: sessions as their users see them, with messages and steps.

use std::rc::Rc;

use runlog::{
    RawJson, SessionId,
    chats::{
        Chat, ChatFilter, ChatList, ChatMessage, ChatRequest, ImportOptions, ImportReport,
        ListMessages, ListRequests, ListSteps, MessageFilter, NewRequest, ResumeAction, Resumption,
        SearchMessages, StackLevel, Step, Table, UnfinishedRequest,
    },
    pages::Page,
};
use serde::Serialize;

use crate::{
    Failure, Result,
    answers::{Made, Packed, change, wait, write, write_to},
    arguments::Input,
    calls::calls,
    changes::Key,
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

    createChat(chat: Given<Chat>) -> Chat => {
        // Only an id that was given can be used before the chat is there.
        let is_named = !chat.0.chat_id.is_empty();
        let key = Key::chat(&chat.0.chat_id);
        let created = async move { chats.create_chat(chat.0).await };
        if is_named { change(key, created) } else { write(created) }
    };
    getChat { chat_id: String } -> Option<Chat> =>
        of.read(async move { chats.get_chat(&chat_id).await });
    chatSessionId { chat_id: String } -> SessionId =>
        of.read(async move { chats.session_id(&chat_id).await });
    updateChat { chat_id: String, updates: GivenUpdates<Chat> } -> Chat =>
        change(Key::chat(&chat_id), async move { chats.update_chat(&chat_id, &updates.updates).await });
    deleteChat { chat_id: String } -> () =>
        change(Key::chat(&chat_id), async move { chats.delete_chat(&chat_id).await.map(drop) });
    restoreChat { chat_id: String } -> Chat =>
        change(Key::chat(&chat_id), async move { chats.restore_chat(&chat_id).await });
    listChats(filter: ChatFilter) -> ChatList =>
        of.read(async move { chats.list_chats(&filter).await });
    saveMessages { chat_id: String, messages: Vec<Given<ChatMessage>>, after: Option<String> } -> Vec<ChatMessage> =>
        write_to(Key::chat(&chat_id), async move {
            match after {
                None => chats.save_messages(&chat_id, inner(messages)).await,
                Some(last) => chats.save_messages_after(&chat_id, inner(messages), &last).await,
            }
        });
    getChatMessages { chat_id: String, #[serde(default)] filter: MessageFilter }
        -> Packed<Vec<ChatMessage>> =>
        of.read(async move { Packed::of_json(&chats.get_messages(&chat_id, &filter).await?) });
    listChatMessages { chat_id: String, #[serde(default)] filter: ListMessages } -> Page<ChatMessage> =>
        of.read(async move { chats.list_messages(&chat_id, &filter).await });
    countChatMessages { chat_id: String, #[serde(default)] filter: MessageFilter } -> usize =>
        of.read(async move { chats.count_messages(&chat_id, &filter).await });
    searchMessages(search: SearchMessages) -> Page<ChatMessage> =>
        of.read(async move { chats.search_messages(&search).await });
    // A lookup by id only may have to search every chat.
    updateMessage { message_id: String, updates: GivenUpdates<ChatMessage> } -> ChatMessage =>
        of.change(Key::in_some_chat(&message_id), async move { chats.update_message(&message_id, &updates.updates).await });
    redactMessage { message_id: String, reason: String } -> () =>
        of.change(Key::in_some_chat(&message_id), async move { chats.redact_message(&message_id, &reason).await.map(drop) });
    deleteMessages { chat_id: String, message_ids: Vec<String> } -> () =>
        change(Key::chat(&chat_id), async move {
            let message_ids: Vec<&str> = message_ids.iter().map(String::as_str).collect();
            chats.delete_messages(&chat_id, &message_ids).await.map(drop)
        });
    saveSteps { steps: Vec<Given<Step>> } -> Vec<Step> => {
        // They are decided by what the chat has, so that one at a time is written; those of a request are of one chat.
        let chat_id = steps.first().map_or("", |step| step.0.chat_id.as_str());
        change(Key::chat(chat_id), async move { chats.save_steps(inner(steps)).await })
    };
    updateStep { step_id: String, updates: GivenUpdates<Step> } -> Step =>
        of.change(Key::in_some_chat(&step_id), async move { chats.update_step(&step_id, &updates.updates).await });
    getSteps { request_id: String } -> Vec<Step> => of.read(async move { chats.get_steps(&request_id).await });
    listSteps { #[serde(default)] filter: ListSteps } -> Page<Step> =>
        of.read(async move { chats.list_steps(&filter).await });
    listRequests(filter: ListRequests) -> Page<UnfinishedRequest> =>
        of.read(async move { chats.list_requests(&filter).await });
    getRequests { chat_id: String } -> Packed<Vec<ChatRequest>> =>
        of.read(async move { Packed::of_json(&chats.get_requests(&chat_id).await?) });
    getRequest { request_id: String } -> Option<ChatRequest> =>
        of.read(async move { chats.get_request(&request_id).await });
    getLastIncompleteStep { chat_id: String } -> Option<Step> =>
        of.read(async move { chats.get_last_incomplete_step(&chat_id).await });
    getStepsByStackId { stack_id: String } -> Vec<Step> =>
        of.read(async move { chats.get_steps_by_stack_id(&stack_id).await });
    getStackPath { stack_id: String } -> Vec<String> =>
        of.read(async move { chats.get_stack_path(&stack_id).await });
    beginRequest { chat_id: String, request: NewRequest, message: Given<ChatMessage> }
        -> Made<RequestPlace> =>
        write_to(Key::chat(&chat_id), async move {
            RequestObject::made(maker, &scope, chats.begin_request(&chat_id, request, message.0).await?)
        });
    answerAgain { chat_id: String, request: NewRequest, message_id: String } -> Made<RequestPlace> =>
        write_to(Key::chat(&chat_id), async move {
            RequestObject::made(maker, &scope, chats.answer_again(&chat_id, request, &message_id).await?)
        });
    resumeChat { chat_id: String, request_id: Option<String> } -> Made<Option<Interrupted>> => {
        let resuming = of.run_blocking(async move {
            match request_id {
                None => chats.resume(&chat_id).await,
                Some(request_id) => chats.resume_request_in(&chat_id, &request_id).await,
            }
        });
        wait(async move {
            let found = resuming.await?.map(|found| interrupted(maker, &scope, found));
            Made::optional(found.transpose()?)
        })
    };
    dismiss { request_id: String } -> Vec<Step> =>
        of.change(Key::in_some_chat(&request_id), async move { chats.dismiss(&request_id).await });
    completeDelegate { chat_id: String, stack_id: String, output: RawJson } -> Step =>
        change(Key::chat(&chat_id), async move { chats.complete_delegate(&chat_id, &stack_id, &output).await });
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
