//! [`Beside`]: what others wrote to a chat while a request was gathered.

use std::collections::{HashMap, HashSet};

use runlog_model::{ChatEvent, ChatMessage, SessionId, Updates, json::slices::string};

use super::{
    buffered::{Extended, Own, replaced},
    sizes::{CONTENT_BYTES_MAX, message_bytes},
    write::{Of, SavedAt},
};
use crate::{Result, Store};

/// What the events of a request were made for; others may have changed it by the time they are written.
#[derive(Clone, Default)]
pub(super) struct Beside {
    /// The messages that they replace.
    pub(super) replaced: Vec<SavedAt>,
    /// The messages that they change, by their ids.
    pub(super) own: HashMap<String, Own>,
    /// Of these the ones that they append text to.
    pub(super) extended: HashMap<String, Extended>,
    /// Whether it is the end of the request, which writes messages whole that were written in pieces.
    pub(super) is_end: bool,
}

impl Beside {
    /// The events as the chat is now, for a batch that is written on condition that it stays so:
    ///
    /// - without changes of messages that were deleted or redacted meanwhile, whose text would be in the log again, also where others
    ///   have their ids by now;
    /// - with the whole message where text was to follow a content that isn't there any more;
    /// - of the messages that are replaced, those are deleted that are there still: one that was saved since under an id of theirs
    ///   is another message.
    pub(super) async fn adjust(
        &self,
        store: &Store,
        session: SessionId,
        mut events: Vec<ChatEvent>,
    ) -> Result<Vec<ChatEvent>> {
        if !self.replaced.is_empty() {
            let ids: Vec<&str> = self.replaced.iter().map(|(id, _)| id.as_str()).collect();
            let fold = store.chats().fold_of(session, Of::Messages(&ids)).await?;
            let fold = fold.read();
            let is_there =
                |id: &String, position: u64| fold.message(id)?.id.map(|id| id == position);
            let there = self.replaced.iter();
            let there = there.filter(|(id, position)| is_there(id, *position) == Some(true));
            let there: HashSet<&str> = there.map(|(id, _)| id.as_str()).collect();
            events.retain_mut(|event| match event {
                ChatEvent::MessagesDeleted { message_ids, .. } => {
                    message_ids.retain(|id| there.contains(id.as_str()));
                    !message_ids.is_empty()
                }
                _ => true,
            });
        }
        let mut adjusted = Vec::with_capacity(events.len());
        for event in events {
            let ChatEvent::MessageUpdated { message_id, .. } = &event else {
                adjusted.push(event);
                continue;
            };
            let ids = [message_id.as_str()];
            let fold = store.chats().fold_of(session, Of::Messages(&ids)).await?;
            let fold = fold.read();
            let is_own = |now: &&ChatMessage| {
                let own = self.own.get(message_id);
                own.is_none_or(|own| own.is(now))
            };
            if let Some(now) = fold.message(message_id).filter(is_own) {
                adjusted.extend(self.follow(now, event)?);
            }
        }
        Ok(adjusted)
    }

    /// The event, or the one with the whole message: at the end, or if its text can't follow the message as it is now.
    fn follow(&self, now: &ChatMessage, event: ChatEvent) -> Result<Option<ChatEvent>> {
        let (
            Some(extended),
            ChatEvent::MessageUpdated {
                appended, at_ms, ..
            },
        ) = (self.of(&event), &event)
        else {
            return Ok(Some(event));
        };
        if !extended.is_followed_in(now) {
            // What others made of a text that was all written stays.
            let is_all_written = appended.is_empty();
            return (!is_all_written).then(|| extended.whole(event)).transpose();
        }
        if !self.is_end {
            return Ok(Some(event));
        }
        let props = now.appended(appended, *at_ms)?.props;
        Ok(Some(ChatEvent::MessageUpdated {
            message_id: now.message_id.clone(),
            at_ms: now.updated_at_ms.max(*at_ms),
            updates: Updates::new().with("props", props),
            appended: String::new(),
        }))
    }

    /// The message that an event appends text to.
    fn of(&self, event: &ChatEvent) -> Option<&Extended> {
        match event {
            ChatEvent::MessageUpdated { message_id, .. } => self.extended.get(message_id),
            _ => None,
        }
    }
}

impl Extended {
    /// Whether the text may follow the message as it is now: what it follows is there still, and with what others added to it
    /// the message isn't too large.
    fn is_followed_in(&self, now: &ChatMessage) -> bool {
        let others = message_bytes(now).saturating_sub(message_bytes(&self.before));
        // Mostly nobody has changed anything, which is seen without reading the JSON.
        (now.props == self.before.props || is_same_text(now.content(), self.before.content()))
            && self.bytes + others <= CONTENT_BYTES_MAX
    }

    /// The event that writes the whole message instead.
    fn whole(&self, event: ChatEvent) -> Result<ChatEvent> {
        let ChatEvent::MessageUpdated {
            appended, at_ms, ..
        } = event
        else {
            return Ok(event);
        };
        let updates = Updates::new();
        Ok(replaced(self.before.changed(&updates, &appended, at_ms)?))
    }
}

/// Whether two contents are one text, however it is spelt in JSON.
fn is_same_text(one: Option<&str>, other: Option<&str>) -> bool {
    let text = |json: Option<&str>| json.and_then(string);
    one == other || text(one).is_some_and(|one| text(other) == Some(one))
}
