//! `Store::erase`: removes content from every read and from the disk.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
};

use runlog_log::{
    Batch, CompactOptions, CompactProgress, Compaction, Op, Position, Record, StreamId,
    if_supported,
};
use runlog_model::{
    Catalog, CatalogEvent, EncodedEvent, OpenRequest, RunId, RunStatus, SessionId, kinds,
};
use serde::{Deserialize, Serialize};

use super::{dismissed::dismissals, erased_content::COURSE, erased_requests::ErasedRequests};
use crate::{
    Error, ErrorKind, Result, Store,
    chats::Version,
    kernel::{
        catalog::CATALOG_STREAM,
        descriptions::ErasedDescriptions,
        lookup,
        records::{append, chat_stream},
    },
};

#[cfg(not(target_family = "wasm"))]
use crate::kernel::writer_requests::withdraw_requests;

/// How many records are redacted in one batch.
const BATCH: usize = 10_000;

/// What is to be erased.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Erase {
    /// Everything that was said in these sessions and about them: contexts, chats, what was kept with them where they were imported,
    /// titles and metadata, who made and changed them; of their runs the details, spaces, flows, and how they ended in words.
    pub sessions: Vec<SessionId>,
    /// The same of these chats, by their ids; also of each that was deleted and had one of them.
    pub chats: Vec<String>,
    /// The same of all chats that these users made, also deleted ones; nothing of a user who made none, or whose chats are erased: what is
    /// written to these afterwards is erased by their ids. What a user said in the chats of others isn't told by who made it.
    pub users: Vec<String>,
    /// Everything that these flows recorded and saved: those of runs, by the ids of these, and those of no run.
    pub flows: Vec<RunId>,
    /// These messages of chats, by their ids.
    pub messages: Vec<String>,
    /// The records at these positions of the log; of a version of a chat's message all versions, and of a title or metadata of a
    /// session all that it ever had. Other entries of the store's lists, and
    /// what says how a run went, are refused: without them what they are of couldn't be found, or read. So are deletions of a
    /// chat's messages, which would be there again.
    pub positions: Vec<u64>,
    /// Why, for readers that find the records empty. It must not say what was erased.
    pub reason: String,
}

impl Erase {
    /// Whether these users are all that is named.
    fn is_of_users(&self, users: &[String]) -> bool {
        let is_more = !self.sessions.is_empty() || !self.chats.is_empty();
        let is_more = is_more || !self.flows.is_empty() || !self.messages.is_empty();
        !is_more && self.positions.is_empty() && self.users.iter().all(|user| users.contains(user))
    }
}

/// What was erased.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Erased {
    /// How many records were taken out of every read by this call.
    pub records: u64,
    /// Whether their bytes are gone from the files of the store. They aren't where the compaction had to leave segments as
    /// they are.
    pub is_gone: bool,
    /// The users of whom no chat was found: their names are misspelt, they made none, or what they made was erased before.
    pub unknown_users: Vec<String>,
    /// What the compaction did.
    pub compaction: Compaction,
}

impl Store {
    /// Removes content from every read, then compacts the store to remove its bytes from the disk, and returns whether
    /// they are gone. The records keep their places, empty, and the sessions are kept. This can't be undone.
    ///
    /// **Copies lose it, too**: what was written to a session is erased wherever its copies have it, also what the session itself was
    /// truncated before; so are titles and metadata that they took over, and what they made of its messages
    /// and requests: the steps with which they went on have the space of the request. What a session was copied
    /// **from** keeps what they share: that was written there, and goes with that one, or with its messages.
    /// Not erased are names of sessions and ids of chats, requests, agents, projects, teams and tenants, by which they are found;
    /// the `mode` of a chat, the node of a run, the `status` of a flow, keys of idempotency, backups, exports, and data of deleted files that the device itself still holds.
    ///
    /// What can't be read, because it is damaged, doesn't keep the rest of a session: its segment stays, and
    /// [`is_gone`](Erased::is_gone) says so. Who writes again what was read before (a copy, a run that is resumed or described,
    /// retention) waits, and has nothing of what was erased.
    ///
    /// Where all that is named are users of whom there is no chat, it compacts only if an earlier erasure may have left something to do.
    ///
    /// It blocks the thread while it compacts. Durable when it returns. After an error or a crash, call it again:
    /// redacted records stay redacted, and the compaction erases them.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) if nothing is named, the reason is empty, or a position is of an entry that is no
    /// content,
    /// [`NotFound`](ErrorKind::NotFound) for a session, a chat, a flow, a message or a position that doesn't exist; nothing is erased then,
    /// [`WrongStatus`](ErrorKind::WrongStatus) for a session with an active run, or a request under way, also in a copy of it, or a flow at work, and the errors of [`compact`](Self::compact).
    pub async fn erase(&self, what: &Erase) -> Result<Erased> {
        self.erase_with(what, |_| ControlFlow::Continue(())).await
    }

    /// [`erase`](Self::erase); `progress` is called about once a megabyte while it compacts, and returns whether to continue.
    /// Where it doesn't, the content is out of every read, and its bytes may be in the files still.
    ///
    /// # Errors
    /// As [`erase`](Self::erase).
    pub async fn erase_with(
        &self,
        what: &Erase,
        progress: impl FnMut(CompactProgress) -> ControlFlow<()> + Send,
    ) -> Result<Erased> {
        let is_nothing = what.sessions.is_empty() && what.chats.is_empty() && what.users.is_empty();
        if is_nothing
            && what.flows.is_empty()
            && what.messages.is_empty()
            && what.positions.is_empty()
        {
            return Err(Error::invalid(
                "nothing is named to be erased; give sessions, chats, users, flows, messages or positions",
            ));
        }
        if what.reason.trim().is_empty() {
            return Err(Error::invalid(
                "the reason to erase is empty; say why, for readers that find the records empty",
            ));
        }
        let (records, unknown_users) = self.redact(what).await?;
        let compaction = match records == 0 && what.is_of_users(&unknown_users) {
            true if !self.has_unerased()? => Compaction::default(),
            _ => self.compact_with(CompactOptions::default(), progress)?,
        };
        Ok(Erased {
            records,
            is_gone: compaction.segments_left == 0 && !compaction.is_cancelled,
            unknown_users,
            compaction,
        })
    }

    /// Whether a compaction may have to erase what an earlier call took out of every read, and was stopped before it was done.
    fn has_unerased(&self) -> Result<bool> {
        if self.backend().redactions() == 0 {
            return Ok(false);
        }
        let planned = self.compact(CompactOptions {
            dry_run: true,
            ..CompactOptions::default()
        })?;
        // Snapshots with what was redacted are among the records that are dropped.
        Ok(planned.payloads_erased + planned.records_dropped + planned.segments_left > 0)
    }

    /// Takes what is named out of every read, and returns how many records that were, and which users made no chat.
    async fn redact(&self, what: &Erase) -> Result<(u64, Vec<String>)> {
        let _alone = self.erasing().await;
        // All that is named is looked for before anything is redacted, which can't be undone.
        let last = if_supported(self.backend().maintenance().last_position().await)?;
        let mut versions = BTreeSet::new();
        let (chosen, unknown_users) = self.sessions_to_erase(what).await?;
        let mut described = BTreeSet::new();
        let mut streams = HashSet::new();
        let mut positions = BTreeSet::new();
        for position in &what.positions {
            let is_there = |last: Position| (1..=last.0).contains(position);
            if let Some(last) = last.filter(|last| !is_there(*last)) {
                return Err(Error::not_found(format!(
                    "the log has no position {position}; its last is {last}"
                )));
            }
            match self.at(*position).await? {
                Some(record) if is_description(&record) => described.extend(session_of(&record)?),
                record => {
                    self.check_content(record.as_ref()).await?;
                    if let Some(record) = &record {
                        versions.extend(Version::of(record));
                        streams.insert(record.stream);
                    }
                    positions.insert(*position);
                }
            }
        }
        for message_id in &what.messages {
            self.chats().check_is_known(message_id).await?;
        }
        for id in &chosen {
            self.check_is_quiet(*id).await?;
        }
        let descriptions = self.descriptions_to_erase(&chosen, described).await?;
        for id in &descriptions.copies {
            self.check_nobody_works(*id, "what it was copied from")
                .await?;
        }
        for id in &what.flows {
            self.check_flow_is_quiet(*id).await?;
        }
        let before = self.backend().redactions();
        streams.extend(chosen.iter().map(|id| chat_stream(*id)));
        positions.extend(self.positions_of(&chosen, &what.flows).await?);
        let of_requests = self
            .requests_of_erased(&descriptions.copies, &positions)
            .await?;
        for message_id in &what.messages {
            self.chats().erase_message(message_id, &what.reason).await?;
        }
        for version in &versions {
            self.chats().erase_version(version, &what.reason).await?;
        }
        let positions: Vec<Position> = positions.into_iter().map(Position).collect();
        self.redact_all(&positions, &what.reason).await?;
        let changes = self.changes_of_erased(&descriptions.copies).await?;
        self.redact_all(&changes, &what.reason).await?;
        self.redact_all(&of_requests.steps, &what.reason).await?;
        self.dismiss_requests_of(&chosen, &streams, &of_requests)
            .await?;
        let mut runs = what.flows.clone();
        for id in &chosen {
            let of_session = self.session_runs(*id).await?;
            runs.extend(of_session.iter().map(|run| run.id));
        }
        self.shared.folds.erased_runs.tell(&runs);
        #[cfg(not(target_family = "wasm"))]
        withdraw_requests(&**self.backend(), &runs);
        let records = self.backend().redactions().saturating_sub(before);
        let catalog = &self.shared.catalog;
        let described = catalog.erase_descriptions(&descriptions, &what.reason);
        Ok((records + described.await?, unknown_users))
    }

    async fn redact_all(&self, positions: &[Position], reason: &str) -> Result<()> {
        for some in positions.chunks(BATCH) {
            let ops = Op::redactions(some, reason);
            self.backend().commit(Batch::new(ops)).await?;
        }
        Ok(())
    }

    /// The sessions that are named, by whatever they are, and the users of whom there is none.
    async fn sessions_to_erase(&self, what: &Erase) -> Result<(BTreeSet<SessionId>, Vec<String>)> {
        let mut sessions: BTreeSet<SessionId> = what.sessions.iter().copied().collect();
        let mut unknown_users = Vec::new();
        let catalog = self.shared.catalog.read(|catalog| {
            for chat in &what.chats {
                let mut named = catalog.sessions_of_chat(chat).peekable();
                if named.peek().is_none() {
                    return Err(Error::not_found(format!(
                        "there is, and was, no chat {chat:?}"
                    )));
                }
                sessions.extend(named.map(|session| session.id));
            }
            for user in &what.users {
                // As one that isn't known would be given; imported chats of nobody may have it.
                if user.is_empty() {
                    return Err(Error::invalid(
                        "the id of a user whose chats are to be erased is empty",
                    ));
                }
                let mut made = catalog.sessions_made_by(user).peekable();
                if made.peek().is_none() && !unknown_users.contains(user) {
                    unknown_users.push(user.clone());
                }
                sessions.extend(made.map(|session| session.id));
            }
            Ok(())
        });
        catalog.await??;
        Ok((sessions, unknown_users))
    }

    /// The descriptions of the sessions that are chosen, and of others of which only these are.
    async fn descriptions_to_erase(
        &self,
        sessions: &BTreeSet<SessionId>,
        others: BTreeSet<SessionId>,
    ) -> Result<ErasedDescriptions> {
        let chosen = sessions | &others;
        let look = |catalog: &Catalog| &catalog.with_copies(&chosen) - &chosen;
        let copies = self.shared.catalog.read(look).await?;
        Ok(ErasedDescriptions { chosen, copies })
    }

    /// Takes the requests of some chats out of the lists of open ones, and those of other chats of which nothing is left, because it was
    /// in one of these streams: they could be neither resumed nor dismissed.
    async fn dismiss_requests_of(
        &self,
        sessions: &BTreeSet<SessionId>,
        streams: &HashSet<StreamId>,
        of_requests: &ErasedRequests,
    ) -> Result<()> {
        let mut events = Vec::new();
        for id in sessions {
            let session = self.shared.catalog.read(|it| it.session(*id).cloned());
            if let Some(session) = session.await? {
                events.extend(dismissals(&session, |_| true)?);
            }
        }
        let others = self.shared.catalog.read(|catalog| {
            let mut others = catalog.with_open_requests();
            others.retain(|id| {
                let family = catalog.related(&BTreeSet::from([*id]));
                let mut of_family = family.iter().map(|id| chat_stream(*id));
                !sessions.contains(id) && of_family.any(|stream| streams.contains(&stream))
            });
            others
        });
        for id in others.await? {
            let fold = match self.chat_fold(id).await {
                // What can't be read may be there.
                Err(error) if error.kind() == ErrorKind::Damaged => continue,
                fold => fold?,
            };
            let session = self.shared.catalog.read(|it| it.session(id).cloned());
            if let Some(session) = session.await? {
                let fold = fold.read();
                let is_gone = |request: &OpenRequest| {
                    let in_copy = (id, request.request_id.clone());
                    fold.request(&request.request_id).is_none()
                        || of_requests.of_copies.contains(&in_copy)
                };
                events.extend(dismissals(&session, is_gone)?);
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        let records = events.iter().map(EncodedEvent::record).collect();
        let ops = vec![append(CATALOG_STREAM, records)];
        self.backend().commit(Batch::new(ops)).await?;
        self.shared.catalog.after_commit().await;
        Ok(())
    }

    /// Refuses to redact a record that other reads can't do without: without its creation there is no run. For bindings that take
    /// operations on streams from callers.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an entry of the store's lists, for what says how a run went, for the mark
    /// of a copied chat, and for the deletion of a chat's messages; else those of reading.
    pub async fn check_is_content(&self, position: u64) -> Result<()> {
        let record = self.at(position).await?;
        self.check_content(record.as_ref()).await
    }

    /// The record at a position; `None` where there is none.
    async fn at(&self, position: u64) -> Result<Option<Record>> {
        let position = Position(position);
        let page = self.backend().scan(position, 1).await?;
        let found = page.records.into_iter().next();
        Ok(found.filter(|record| record.position == position))
    }

    /// [`check_is_content`](Self::check_is_content), of a record.
    async fn check_content(&self, record: Option<&Record>) -> Result<()> {
        let Some(record) = record else {
            // The log says what stands at this position, or that nothing does.
            return Ok(());
        };
        let position = record.position;
        if lookup::is_list(record.stream) {
            let message = format!(
                "position {position} is an entry of a list of the store's, which would lose what it is of; give the positions of \
                 what was said"
            );
            return Err(Error::invalid(message));
        }
        if record.kind.0 == kinds::CHAT_COPIED {
            let message = format!(
                "position {position} has no content, and the messages of a copied chat have their ids from it; give the positions \
                 of what was said"
            );
            return Err(Error::invalid(message));
        }
        if record.kind.0 == kinds::MESSAGES_DELETED {
            let message = format!(
                "position {position} says that messages of a chat were deleted, and they would be there again without it; give \
                 the positions of what was said"
            );
            return Err(Error::invalid(message));
        }
        let run = RunId(record.stream.0);
        if !COURSE.contains(&record.kind.0)
            || self.shared.runs.read(|runs| runs.run(run)).await?.is_none()
        {
            return Ok(());
        }
        let message = format!(
            "position {position} says how run {run} went, and it can't be read without that; give the positions of what was said in \
             it, or delete its session"
        );
        Err(Error::invalid(message))
    }

    /// An error for a session that doesn't exist, or that is written to.
    async fn check_is_quiet(&self, id: SessionId) -> Result<()> {
        self.shared
            .catalog
            .read(|catalog| match catalog.session(id) {
                Some(_) => Ok(()),
                // This returns an error that says what to do.
                None => lookup::live_session(catalog, id).map(drop),
            })
            .await??;
        self.check_nobody_works(id, "the session").await
    }

    async fn check_nobody_works(&self, id: SessionId, erased: &str) -> Result<()> {
        let runs = self.session_runs(id).await?;
        let message = if let Some(run) = runs.iter().find(|run| run.status == RunStatus::Running) {
            let run = run.id;
            format!(
                "run {run} is at work in session {id}; pause or cancel it before {erased} is erased"
            )
        } else if let Some(request) = self.claims().of_chat(id) {
            format!(
                "request {request:?} is under way in session {id}; finish it before {erased} is erased"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::WrongStatus, message))
    }

    /// An error for a flow that doesn't exist, or that is written to.
    async fn check_flow_is_quiet(&self, id: RunId) -> Result<()> {
        let flow = self.flows().get(id).await?;
        let flow = flow.ok_or_else(|| Error::not_found(format!("no flow {id}")))?;
        if flow.is_live == Some(true) {
            let message = format!(
                "flow {id} is at work; close it, or pause or cancel its run, before it is erased"
            );
            return Err(Error::new(ErrorKind::WrongStatus, message));
        }
        Ok(())
    }
}

/// Whether a record tells of a session's people and subject.
fn is_description(record: &Record) -> bool {
    record.stream == CATALOG_STREAM && record.kind.0 == kinds::SESSION_DESCRIBED
}

/// The session that is described; `None` where that was erased.
fn session_of(record: &Record) -> Result<Option<SessionId>> {
    if record.payload.is_empty() {
        return Ok(None);
    }
    let event = CatalogEvent::decode(record.kind.0, &record.meta, &record.payload)?;
    Ok(match event {
        CatalogEvent::SessionDescribed(description) => Some(description.id),
        _ => None,
    })
}
