//! A typical request of a chat: the user's message, five steps and five messages of the assistant's.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use runlog::{
    RawJson, Result,
    blocking::Chats,
    chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd, Step, StepStatus, StepType},
};

use crate::measure::per_second;

/// Messages and steps of a typical request.
pub const RECORDS: usize = 11;
/// How many requests a chat gets before the next is made: what is measured is not how long chats grow.
const REQUESTS_PER_CHAT: u64 = 50;

const ASKED: &str = "What will the weather be in Oslo tomorrow?";
const MESSAGES: &str =
    r#"{"messages":[{"role":"user","content":"What will the weather be in Oslo tomorrow?"}]}"#;

/// The steps, each with its input, its output, and what the assistant says in it.
const STEPS: [(StepType, &str, &str, &str); 5] = [
    (StepType::HookCreate, MESSAGES, MESSAGES, "Let me look."),
    (
        StepType::Llm,
        MESSAGES,
        r#"{"content":"Let me look.","tool_calls":[{"id":"c1","name":"forecast"}]}"#,
        "Looking up Oslo.",
    ),
    (
        StepType::Tool,
        r#"{"server":"weather","tool":"forecast","args":{"city":"Oslo"}}"#,
        r#"{"result":"rain"}"#,
        "Found it.",
    ),
    (
        StepType::Llm,
        MESSAGES,
        r#"{"content":"Rain in the morning, and sun at noon."}"#,
        "Rain in the morning,",
    ),
    (
        StepType::HookNext,
        r#"{"completion":{},"tools":[]}"#,
        r#"{"data":null}"#,
        "and sun at noon.",
    ),
];

/// Records a request as it is meant to be: the user's message at its entry, all else at its exit.
///
/// # Errors
///
/// Those of the store.
pub fn in_two_writes(chats: &Chats, chat_id: &str) -> Result<()> {
    let asked = ChatMessage::text(ChatRole::User, ASKED);
    let mut request = chats.begin_request(chat_id, NewRequest::new("weather"), asked)?;
    for (step_type, input, output, said) in STEPS {
        let step = request.start_step(step_type, RawJson::parse(input)?)?;
        request.send(ChatMessage::text(ChatRole::Assistant, said))?;
        request.complete_step(&step, Some(RawJson::parse(output)?))?;
    }
    request.finish(RequestEnd::Completed)
}

/// Records the same request with a durable write for each message and each step.
///
/// # Errors
///
/// Those of the store.
pub fn in_eleven_writes(chats: &Chats, chat_id: &str) -> Result<()> {
    let request_id = fresh_id();
    let asked = ChatMessage {
        request_id: Some(request_id.clone()),
        ..ChatMessage::text(ChatRole::User, ASKED)
    };
    chats.save_messages(chat_id, vec![asked])?;
    for (step_type, input, output, said) in STEPS {
        let step = Step {
            chat_id: chat_id.to_owned(),
            status: StepStatus::Completed,
            input: Some(RawJson::parse(input)?),
            output: Some(RawJson::parse(output)?),
            ..Step::new(&request_id, "weather", &request_id, step_type)
        };
        chats.save_steps(vec![step])?;
        let message = ChatMessage {
            request_id: Some(request_id.clone()),
            assistant_id: Some("weather".to_owned()),
            ..ChatMessage::text(ChatRole::Assistant, said)
        };
        chats.save_messages(chat_id, vec![message])?;
    }
    Ok(())
}

/// An id of its own, of the length of the store's.
fn fresh_id() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{:036}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// Records requests one after another for about this long; returns how many per second.
///
/// # Errors
///
/// Those of the store.
pub fn per_second_for(
    chats: &Chats,
    budget: Duration,
    record: impl Fn(&Chats, &str) -> Result<()>,
) -> io::Result<f64> {
    let (mut requests, mut spent) = (0, Duration::ZERO);
    while spent < budget {
        let chat = chats
            .create_chat(Chat::new("weather"))
            .map_err(io::Error::other)?;
        let start = Instant::now();
        for _ in 0..REQUESTS_PER_CHAT {
            record(chats, &chat.chat_id).map_err(io::Error::other)?;
            requests += 1;
            if spent + start.elapsed() >= budget {
                break;
            }
        }
        spent += start.elapsed();
    }
    Ok(per_second(requests, spent))
}

#[cfg(test)]
mod tests {
    use runlog::{blocking::Store, chats::MessageFilter};

    use super::*;

    /// What a chat has after a request: what was said, and the steps with what they were given and gave.
    fn recorded(record: impl Fn(&Chats, &str) -> Result<()>) -> Vec<String> {
        let chats = Store::in_memory().chats();
        let chat = chats.create_chat(Chat::new("weather")).expect("a chat");
        record(&chats, &chat.chat_id).expect("a request");
        let messages = chats
            .get_messages(&chat.chat_id, &MessageFilter::default())
            .expect("messages");
        let steps = chats
            .get_steps(messages[0].request_id.as_deref().unwrap_or_default())
            .expect("steps");
        let steps = steps.iter().map(|step| {
            format!(
                "{:?} {} {:?} {:?}",
                step.step_type, step.status, step.input, step.output
            )
        });
        messages
            .iter()
            .map(|message| message.props.as_str().to_owned())
            .chain(steps)
            .collect()
    }

    #[test]
    fn both_ways_record_the_same_eleven() {
        let two = recorded(in_two_writes);
        assert_eq!(two.len(), RECORDS);
        assert_eq!(recorded(in_eleven_writes), two);
    }
}
