//! Lookups by id only: the chat that has the id, and the records about it, found by the records' labels.

use std::collections::BTreeSet;

use runlog_log::{Direction, FindOptions, Label, Position, Record};
use runlog_model::{Catalog, ChatEvent, ChatFold, ChatIdOf, SessionId};

use super::cache::apply;
use crate::{
    Error, ErrorKind, Result, Store,
    kernel::{chats::Reserved, often::OFTEN, records::chat_stream, shared_fold::SharedFold},
};

/// The most records of steps that are read without folding the chat.
const STEP_RECORDS_MAX: usize = 256;

impl Store {
    /// The chat that has this id.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when none has, [`Ambiguous`](ErrorKind::Ambiguous) when several have.
    pub(crate) async fn chat_with(&self, of: ChatIdOf, id: &str) -> Result<SessionId> {
        let mut found = self.live_chats_with(of, id).await?.into_iter();
        match (found.next(), found.next()) {
            (Some(session), None) => Ok(session),
            (None, _) => Err(Error::not_found(format!(
                "no chat has a {} {id:?}",
                of.name()
            ))),
            (Some(one), Some(other)) => Err(Error::new(
                ErrorKind::Ambiguous,
                format!(
                    "the {} {id:?} is in chat {:?} and in chat {:?}; give ids that are unique",
                    of.name(),
                    self.chat_name(one),
                    self.chat_name(other)
                ),
            )),
        }
    }

    /// An error if another chat has this id.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when another chat has it.
    pub(crate) async fn check_id_elsewhere(
        &self,
        session: SessionId,
        of: ChatIdOf,
        id: &str,
    ) -> Result<()> {
        let found = self.live_chats_with(of, id).await?;
        match found.into_iter().find(|other| *other != session) {
            None => Ok(()),
            Some(other) => Err(self.id_of_another(other, of, id)),
        }
    }

    /// Reserves ids that a chat is about to save, until the guard is dropped.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when another chat is saving something with one of them.
    pub(crate) fn reserve_ids(
        &self,
        session: SessionId,
        of: ChatIdOf,
        ids: &[String],
    ) -> Result<Reserved> {
        let reserved = self.chat_cache().reserve(session, of, ids);
        reserved.map_err(|(id, other)| self.id_of_another(other, of, &id))
    }

    /// The same, after which no other chat has one of them.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when another chat has one of them, or is saving it.
    pub(crate) async fn reserve_own_ids(
        &self,
        session: SessionId,
        of: ChatIdOf,
        ids: &[String],
    ) -> Result<Reserved> {
        let reserved = self.reserve_ids(session, of, ids)?;
        for id in ids {
            // What the chat has already was looked for when it was new; a request may have any number of records.
            if !self.has_labelled(session, of.label(id)).await? {
                self.check_id_elsewhere(session, of, id).await?;
            }
        }
        Ok(reserved)
    }

    /// Whether a chat has a record of a label.
    pub(super) async fn has_labelled(&self, session: SessionId, label: Label) -> Result<bool> {
        let options = FindOptions {
            stream: Some(chat_stream(session)),
            limit: 1,
            ..FindOptions::default()
        };
        let mut has = false;
        self.each_labelled(label, options, &mut |_| {
            has = true;
            Ok(false)
        })
        .await?;
        Ok(has)
    }

    fn id_of_another(&self, other: SessionId, of: ChatIdOf, id: &str) -> Error {
        Error::new(
            ErrorKind::AlreadyExists,
            format!(
                "chat {:?} has a {} {id:?}; ids are unique in a store",
                self.chat_name(other),
                of.name()
            ),
        )
    }

    fn chat_name(&self, session: SessionId) -> String {
        let chat = self
            .shared
            .catalog
            .with_state(|catalog| catalog.chat(session));
        chat.map_or_else(|| session.to_string(), |chat| chat.chat_id)
    }

    /// The chats that have an id and aren't deleted: chats with records of it, and copies, because copied records have
    /// other ids in a copy than in the log.
    async fn live_chats_with(&self, of: ChatIdOf, id: &str) -> Result<Vec<SessionId>> {
        let mut candidates = self.chats_labelled(of, id).await?;
        // If two messages were saved with one id at the same moment, the second got the suffix `~` and its place: look
        // up the part before that too.
        if let Some((before, _)) = id.rsplit_once('~') {
            candidates.extend(self.chats_labelled(of, before).await?);
        }
        let live = |catalog: &Catalog| {
            let is_live = |session: &SessionId| {
                catalog
                    .session(*session)
                    .filter(|session| session.deleted_at_ms.is_none())
                    .map(|found| (*session, found.copied_from.is_some()))
            };
            let mut live: Vec<_> = candidates.iter().filter_map(is_live).collect();
            live.extend(
                catalog
                    .copies_that_may_have(id)
                    .into_iter()
                    .map(|copy| (copy, true)),
            );
            live
        };
        let mut found: Vec<SessionId> = Vec::new();
        for (session, is_copy) in self.shared.catalog.read(live).await? {
            if found.contains(&session) {
                continue;
            }
            // The records that a copy shares have the ids of the original chat.
            if !is_copy || has(&self.chat_fold(session).await?.read(), of, id) {
                found.push(session);
            }
        }
        Ok(found)
    }

    /// The sessions with a record about an id.
    async fn chats_labelled(&self, of: ChatIdOf, id: &str) -> Result<Vec<SessionId>> {
        let label = of.label(id);
        let mut found = self.often().found(label, self.backend().redactions());
        // What was truncated since isn't there any more.
        for session in std::mem::take(&mut found.sessions) {
            if self.has_labelled(session, label).await? {
                found.sessions.push(session);
            }
        }
        let options = FindOptions {
            direction: Direction::Forward,
            first: found.read_to.next(),
            ..FindOptions::default()
        };
        let is_kept = found.read_to > Position::ZERO;
        let mut count = 0;
        self.each_labelled(label, options, &mut |record| {
            let session = SessionId(record.stream.0);
            if !found.sessions.contains(&session) && is_about(record, of, id) {
                found.sessions.push(session);
            }
            found.read_to = record.position;
            count += 1;
            Ok(true)
        })
        .await?;
        if count >= OFTEN || (is_kept && count > 0) {
            self.often().keep_found(label, found.clone());
        }
        Ok(found.sessions)
    }

    /// Passes each record that has a label to `take`, until that returns `false`.
    pub(super) async fn each_labelled(
        &self,
        label: Label,
        options: FindOptions,
        take: &mut (dyn FnMut(&Record) -> Result<bool> + Send),
    ) -> Result<()> {
        let (mut options, forward) = (options.clone(), options.direction == Direction::Forward);
        loop {
            let page = match self.backend().find(label, options.clone()).await {
                // A chat has no stream before its first event.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                page => page?,
            };
            for record in &page.records {
                if !take(record)? {
                    return Ok(());
                }
            }
            match page.next {
                None => return Ok(()),
                Some(next) if forward => options.first = next,
                Some(next) => options.last = next,
            }
        }
    }

    /// The records of a chat that have a label, the oldest first.
    pub(super) async fn labelled_in(
        &self,
        session: SessionId,
        label: Label,
    ) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        self.each_labelled(label, in_order_of(session), &mut |record| {
            records.push(record.clone());
            Ok(true)
        })
        .await?;
        Ok(records)
    }

    /// A fold with the steps of a request or of a node of the call stack, and the request's own record: the chat's fold
    /// if it is cached, otherwise one of only their records.
    pub(super) async fn steps_fold(
        &self,
        session: SessionId,
        of: ChatIdOf,
        id: &str,
    ) -> Result<SharedFold> {
        if let Some(fold) = self.kept_chat_fold(session).await? {
            return Ok(fold);
        }
        let is_copy = |catalog: &Catalog| {
            catalog
                .session(session)
                .is_some_and(|session| session.copied_from.is_some())
        };
        if self.shared.catalog.read(is_copy).await? {
            return self.chat_fold(session).await;
        }
        let redactions = self.backend().redactions();
        let info = self.backend().stream(chat_stream(session)).await?;
        let last = info.map_or(0, |info| info.last_sequence.0);
        let read_at = info
            .filter(|_| of == ChatIdOf::Request)
            .map(|info| (info, redactions));
        if let Some(read_at) = read_at
            && let Some(known) = self.chat_cache().steps.known(session, id, read_at)
        {
            return Ok(known);
        }
        let Some(requests) = self.requests_of(session, of, id).await? else {
            return self.chat_fold(session).await;
        };
        let mut records = Vec::new();
        for request in requests {
            let of_request = self
                .labelled_in(session, ChatIdOf::Request.label(&request))
                .await?;
            for record in &of_request {
                let event = event_of(record)?;
                if let Some(step) = event.saved_step() {
                    let label = ChatIdOf::Step.label(&step.step_id);
                    records.extend(self.labelled_in(session, label).await?);
                }
                // A step that was moved from another request has its sequence from there.
                if matches!(event, ChatEvent::StepUpdated { .. }) {
                    return self.chat_fold(session).await;
                }
            }
            records.extend(of_request);
            // The chat's fold is kept, so that steps that are changed again and again cost the changes.
            if records.len() > STEP_RECORDS_MAX {
                return self.chat_fold(session).await;
            }
        }
        records.retain(|record| record.sequence.0 <= last);
        let mut fold = folded(ChatFold::new(), records)?;
        fold.skip(last);
        let fold = SharedFold::of(fold);
        if let Some(read_at) = read_at {
            self.chat_cache().steps.keep(session, id, read_at, &fold);
        }
        Ok(fold)
    }

    /// A fold with a step and the other steps of its request.
    pub(super) async fn step_fold(&self, session: SessionId, id: &str) -> Result<SharedFold> {
        let mut request = None;
        let label = ChatIdOf::Step.label(id);
        self.each_labelled(label, in_order_of(session), &mut |record| {
            let event = event_of(record)?;
            let step = event.saved_step().filter(|step| step.step_id == id);
            request = step.map(|step| step.request_id.clone());
            Ok(request.is_none())
        })
        .await?;
        match request {
            Some(request) => self.steps_fold(session, ChatIdOf::Request, &request).await,
            None => self.chat_fold(session).await,
        }
    }
}

impl Store {
    /// The requests of the steps that belong to a request or a node of the stack; `None` if one of the steps was moved
    /// from another.
    async fn requests_of(
        &self,
        session: SessionId,
        of: ChatIdOf,
        id: &str,
    ) -> Result<Option<BTreeSet<String>>> {
        if of == ChatIdOf::Request {
            return Ok(Some(BTreeSet::from([id.to_owned()])));
        }
        let mut requests = BTreeSet::new();
        for record in self.labelled_in(session, of.label(id)).await? {
            match event_of(&record)?.saved_step() {
                Some(step) => requests.insert(step.request_id.clone()),
                None => return Ok(None),
            };
        }
        Ok(Some(requests))
    }
}

/// Applies records of one chat to a fold, in their order, each once.
pub(super) fn folded(mut fold: ChatFold, mut records: Vec<Record>) -> Result<ChatFold> {
    runlog_log::order::sort_by_key(&mut records, |record| record.position);
    records.dedup_by_key(|record| record.position);
    records
        .iter()
        .try_for_each(|record| apply(&mut fold, record.stream, record))?;
    Ok(fold)
}

/// Options that search one chat, from its beginning.
pub(super) fn in_order_of(session: SessionId) -> FindOptions {
    FindOptions {
        stream: Some(chat_stream(session)),
        direction: Direction::Forward,
        ..FindOptions::default()
    }
}

/// Decodes the event of a chat's record.
pub(super) fn event_of(record: &Record) -> Result<ChatEvent> {
    ChatEvent::decode(record.kind.0, &record.meta, &record.payload)
}

/// Whether a record is really about an id: two ids may have the same label.
pub(super) fn is_about(record: &Record, of: ChatIdOf, id: &str) -> bool {
    ChatEvent::KINDS.contains(&record.kind.0)
        && event_of(record).is_ok_and(|event| event.is_of(of, id))
}

fn has(fold: &ChatFold, of: ChatIdOf, id: &str) -> bool {
    match of {
        ChatIdOf::Message => fold.had_message(id),
        ChatIdOf::Step => fold.step(id).is_some(),
        ChatIdOf::Request => fold.request(id).is_some() || !fold.steps_of_request(id).is_empty(),
        ChatIdOf::Stack => !fold.steps_of_stack(id).is_empty(),
    }
}
