//! The buffered messages and steps of a request, and how much of each is written.

use runlog_model::{ChatEvent, ChatMessage, ContentEnd, RawJson, Step, StepTexts, Updates};

use super::sizes::{message_bytes, step_bytes};
use crate::Result;

const IS_TEXT: &str = "its content was checked before text was appended";

/// How much of a message or step is in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// Nothing.
    No,
    /// An earlier version of it.
    Before,
    /// All but the text that was appended since.
    Extended,
    /// All of it.
    All,
}

impl Written {
    /// After a change.
    fn changed(self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Before | Self::Extended | Self::All => Self::Before,
        }
    }
}

pub(super) struct BufferedMessage {
    pub(super) message: ChatMessage,
    /// An upper bound of its size as JSON.
    pub(super) bytes: usize,
    /// The text that was appended to its content since.
    appended: String,
    /// Where it is appended.
    end: ContentEnd,
    written: Written,
    /// Whether its text is in the store in pieces.
    is_in_pieces: bool,
    /// Where it is in the store, if that is known.
    pub(super) position: Option<u64>,
}

/// What tells a message that a request wrote from one that has its id by now.
#[derive(Clone)]
pub(super) struct Own {
    position: Option<u64>,
    request_id: Option<String>,
}

impl Own {
    /// Whether it is this message.
    pub(super) fn is(&self, message: &ChatMessage) -> bool {
        match self.position {
            Some(position) => message.id == Some(position),
            // Nobody was told where a batch stands whose outcome wasn't known at first.
            None => message.request_id == self.request_id,
        }
    }
}

/// A message that text is appended to.
#[derive(Clone)]
pub(super) struct Extended {
    /// As the request wrote it last.
    pub(super) before: ChatMessage,
    /// An upper bound of its size as JSON with the text.
    pub(super) bytes: usize,
}

pub(super) struct BufferedStep {
    /// Without its input and its space.
    pub(super) step: Step,
    texts: StepTexts,
    /// An upper bound of its size as JSON.
    bytes: usize,
    written: Written,
}

impl BufferedMessage {
    pub(super) fn new(message: ChatMessage, bytes: usize) -> Self {
        Self {
            message,
            bytes,
            appended: String::new(),
            end: ContentEnd::default(),
            written: Written::No,
            is_in_pieces: false,
            position: None,
        }
    }

    /// One that is in the store already.
    pub(super) fn saved(message: ChatMessage, is_in_pieces: bool) -> Self {
        Self {
            written: Written::All,
            is_in_pieces,
            position: message.id,
            bytes: message_bytes(&message),
            ..Self::new(message, 0)
        }
    }

    /// How many bytes of it aren't written yet.
    pub(super) fn unwritten_bytes(&self) -> usize {
        unwritten_bytes(self.written, self.bytes)
    }

    /// Whether its event changes what was written of it before.
    pub(super) fn changes_saved(&self) -> bool {
        self.is_in_pieces || matches!(self.written, Written::Before | Written::Extended)
    }

    pub(super) fn rename(&mut self, id: &str) {
        id.clone_into(&mut self.message.message_id);
        self.bytes += id.len();
    }

    /// Refuses to append to a content that isn't text.
    pub(super) fn check_is_text(&self) -> Result<()> {
        if self.appended.is_empty() && !self.end.is_known() {
            self.message.appended("", 0)?;
        }
        Ok(())
    }

    pub(super) fn append(&mut self, text: &str, bytes: usize) {
        self.appended.push_str(text);
        self.bytes = bytes;
        if self.written == Written::All {
            self.written = Written::Extended;
        }
    }

    pub(super) fn replace(&mut self, message: ChatMessage, bytes: usize) {
        *self = Self {
            written: self.written.changed(),
            position: self.position,
            ..Self::new(message, bytes)
        };
    }

    /// The event that writes its current version; `None` if that is written already.
    pub(super) fn event(&self) -> Option<ChatEvent> {
        match self.written {
            Written::No => Some(ChatEvent::MessageSaved(Box::new(self.finished()))),
            Written::All => None,
            Written::Extended => Some(ChatEvent::MessageUpdated {
                message_id: self.message.message_id.clone(),
                at_ms: self.message.updated_at_ms,
                updates: Updates::new(),
                appended: self.appended.clone(),
            }),
            Written::Before => Some(replaced(self.finished())),
        }
    }

    /// As [`event`](Self::event), where it is the last: a message whose text was written in pieces is written once more, whole, if there is
    /// `room` for that. A search of the log looks at records.
    pub(super) fn last_event(&self, room: &mut usize) -> Option<ChatEvent> {
        let is_left_in_pieces = self.is_in_pieces && self.written == Written::All;
        if !is_left_in_pieces || self.bytes > *room {
            return self.event();
        }
        *room -= self.bytes;
        Some(ChatEvent::MessageUpdated {
            message_id: self.message.message_id.clone(),
            at_ms: self.message.updated_at_ms,
            updates: Updates::new(),
            appended: String::new(),
        })
    }

    /// What its event extends, or its [last one](Self::last_event), by its id; `None` if that doesn't.
    pub(super) fn extended(&self) -> Option<(String, Extended)> {
        let is_left_in_pieces = self.is_in_pieces && self.written == Written::All;
        (self.written == Written::Extended || is_left_in_pieces).then(|| {
            let extended = Extended {
                before: self.message.clone(),
                bytes: self.bytes,
            };
            (self.message.message_id.clone(), extended)
        })
    }

    /// What tells it from others, by its id; `None` if it isn't in the store.
    pub(super) fn own(&self) -> Option<(String, Own)> {
        (self.written != Written::No).then(|| {
            let own = Own {
                position: self.position,
                request_id: self.message.request_id.clone(),
            };
            (self.message.message_id.clone(), own)
        })
    }

    pub(super) fn mark_written(&mut self) {
        if !self.appended.is_empty() {
            let at_ms = self.message.updated_at_ms;
            let appended = self.message.append(&self.appended, at_ms, &mut self.end);
            appended.expect(IS_TEXT);
        }
        self.is_in_pieces |= self.written == Written::Extended;
        self.appended.clear();
        self.written = Written::All;
    }

    /// The message with the appended text.
    fn finished(&self) -> ChatMessage {
        let message = &self.message;
        if self.appended.is_empty() {
            return message.clone();
        }
        let appended = message.appended(&self.appended, message.updated_at_ms);
        appended.expect(IS_TEXT)
    }
}

impl BufferedStep {
    /// A step with the texts that are to be saved in place of its own.
    pub(super) fn new(mut step: Step, texts: StepTexts) -> Self {
        (step.input, step.space_snapshot) = (None, None);
        Self {
            bytes: step_bytes(&step) + texts.json_bytes(),
            step,
            texts,
            written: Written::No,
        }
    }

    /// How many bytes of it aren't written yet.
    pub(super) fn unwritten_bytes(&self) -> usize {
        unwritten_bytes(self.written, self.bytes)
    }

    /// How many bytes it has as JSON with another version of the step.
    pub(super) fn bytes_with(&self, step: &Step) -> usize {
        step_bytes(step) + self.texts.json_bytes()
    }

    pub(super) fn change(&mut self, step: Step) {
        self.bytes = self.bytes_with(&step);
        self.step = step;
        self.written = self.written.changed();
    }

    /// The event that writes its current version.
    pub(super) fn event(&self) -> Option<ChatEvent> {
        self.event_as(self.step.clone())
    }

    /// The event that writes it with another outcome.
    pub(super) fn event_as(&self, settled: Step) -> Option<ChatEvent> {
        match self.written {
            Written::No => Some(self.texts.clone().event(settled)),
            Written::All if settled.status == self.step.status => None,
            Written::Before | Written::Extended | Written::All => {
                let status = RawJson::string(settled.status.name());
                let mut updates = Updates::new().with("status", status);
                if let Some(output) = settled.output {
                    updates = updates.with("output", output);
                }
                if let Some(error) = settled.error {
                    updates = updates.with("error", RawJson::string(&error));
                }
                Some(ChatEvent::StepUpdated {
                    step_id: settled.step_id,
                    at_ms: settled.updated_at_ms,
                    updates,
                })
            }
        }
    }

    /// Drops the parts that aren't needed for its end.
    pub(super) fn mark_written(&mut self) {
        self.step.output = None;
        self.texts = StepTexts::default();
        self.bytes = step_bytes(&self.step);
        self.written = Written::All;
    }
}

fn unwritten_bytes(written: Written, bytes: usize) -> usize {
    if written == Written::All { 0 } else { bytes }
}

/// The event that writes a message over what is there.
pub(super) fn replaced(message: ChatMessage) -> ChatEvent {
    ChatEvent::MessageUpdated {
        message_id: message.message_id,
        at_ms: message.updated_at_ms,
        updates: Updates::new()
            .with("type", RawJson::string(&message.message_type))
            .with("props", message.props),
        appended: String::new(),
    }
}
