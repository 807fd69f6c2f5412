//! Copying a session as a whole, and finding the end of the copy in each of its contexts.

use std::collections::{HashMap, HashSet};

use runlog_log::{Expected, Op, Position, ReadOptions, Record, Sequence, StreamId};
use runlog_model::{
    AgentInstance, Catalog, CatalogEvent, Chat, ChatShare, InstanceId, Session, SessionId,
};

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Error, ErrorKind, Result, Store,
    chats::{CopiedChat, Point},
    kernel::records::context_stream,
    kernel::{
        catalog::{Change, Guard},
        lookup::{check_free, live_session},
        new_session::NewSession,
    },
    sessions::cut::{Cut, Written},
    transcripts::keep::{Aside, aside_stream, envelope_matches},
};

/// How often a copy is tried while the session is truncated.
const ATTEMPTS_MAX: u32 = 100;

/// How much of a session to copy, and what the copy is called.
///
/// ```
/// use runlog::{NewMessage, NewSession, blocking::Store, sessions::CopySession};
///
/// let store = Store::in_memory();
/// let (session, agent) = store.start_session(NewSession::titled("trip"), "planner")?;
/// let context = store.context(agent.id)?;
/// context.append_message(NewMessage::user("Oslo, please."))?;
/// context.append_message(NewMessage::assistant("By train?"))?;
///
/// let copy = store.copy_session(session.id, &CopySession { up_to_sequence: Some(1), ..CopySession::default() })?;
/// let again = store.context(copy.instances[0].instance.id)?;
/// again.append_message(NewMessage::assistant("By ship?"))?;
/// assert_eq!(again.get_messages()?[0], context.get_messages()?[0]);
/// assert_ne!(again.get_messages()?[1], context.get_messages()?[1]);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CopySession {
    /// The last sequence to copy of the root instance's context; `None` copies all of it.
    #[serde(deserialize_with = "given")]
    pub up_to_sequence: Option<u64>,
    /// The id of the last message to copy of the session's chat; `None` copies all of it. Not together with `up_to_sequence`.
    #[serde(deserialize_with = "given")]
    pub up_to_message: Option<String>,
    /// The external name of the copy.
    pub name: Option<String>,
    /// The title of the copy; `None` takes the source's.
    pub title: Option<String>,
    /// Whose the copy of a chat is: made by this user, who alone sees it. `None` leaves it as the source is, also public or shared.
    #[serde(deserialize_with = "given")]
    pub created_by: Option<String>,
}

/// A field that isn't `null`, with which more would be copied, or for somebody else: what isn't there is left out.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> std::result::Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// A copy of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopiedSession {
    /// The new session.
    pub session: Session,
    /// Its instances, each with the one it is a copy of, the root first.
    pub instances: Vec<CopiedInstance>,
}

/// A copy of an agent instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CopiedInstance {
    /// What it is a copy of.
    pub source: InstanceId,
    /// The new instance.
    pub instance: AgentInstance,
}

impl Store {
    /// Copies a session: a new one with a fork of every instance's context, of its aside if it was imported, and of its
    /// chat, atomically. No content is copied, however long the contexts are. Durable when it returns.
    ///
    /// Messages and steps of the copied chat are unchanged except for new ids (message, step, request and stack ids are
    /// unique in the store): an interrupted request can be resumed in both.
    ///
    /// With a point, the root instance's context is copied up to there, and the other instances' contexts up to the
    /// first event that isn't copied: by the order of the log, not by the clock. An instance whose context was still
    /// empty then is copied if it was created before the last event that is, or one below it had written something. The chat is copied as it was before the first event that isn't
    /// copied, without the requests that began after the last event that is; the aside is copied up to the same event.
    ///
    /// Up to a message, the chat has the messages up to this one, in the chat's order, but for those that were deleted since. Their
    /// texts are those that they had when the next message was saved, and so are steps and requests. An answer is copied with the
    /// rest of its request, whatever was said meanwhile, a user's message without the request that it began. Another request that
    /// was begun after the answer was first saved, and before its own had ended, is dismissed in the copy: its question isn't there. Contexts and aside are copied as they were before the
    /// first record of the chat that isn't copied.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or a sequence is given and it has no
    /// instance, or a message that isn't in its chat;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the root's context ends before the sequence, or both are given;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the name is taken; [`Conflict`](crate::ErrorKind::Conflict) when it
    /// was truncated again and again meanwhile.
    pub async fn copy_session(
        &self,
        source: SessionId,
        options: &CopySession,
    ) -> Result<CopiedSession> {
        let mut attempts = 0;
        // It takes over titles, metadata and fields as they were read.
        let _beside = self.beside_erasures().await;
        loop {
            attempts += 1;
            match self.try_copy(source, options).await? {
                Ok(copied) => return Ok(copied),
                Err(_) if attempts < ATTEMPTS_MAX => {}
                Err(error) => {
                    let message = format!(
                        "session {source} is truncated again and again; try again: {error}"
                    );
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
            }
        }
    }

    /// The copy; the inner error where something was truncated after it was decided how much is copied.
    async fn try_copy(
        &self,
        source: SessionId,
        options: &CopySession,
    ) -> Result<Result<CopiedSession>> {
        let (original, instances) = self
            .shared
            .catalog
            .read(|catalog| {
                let session = live_session(catalog, source)?.clone();
                let instances: Vec<AgentInstance> = catalog.instances(source).collect();
                Ok::<_, Error>((session, instances))
            })
            .await??;
        let cut = self
            .cut_of(
                source,
                options.up_to_sequence,
                options.up_to_message.as_deref(),
            )
            .await?;
        let mut session = self.copy_of(&original, options);
        session.check()?;
        if let Some(user) = &options.created_by {
            check_owner(&session, source, user)?;
        }
        let lasts = self.lasts_at(&instances, cut.as_ref()).await?;
        let copied = self.copies_of(&instances, &lasts, cut.as_ref(), session.id);
        let point = cut.as_ref().map(|cut| cut.point);
        let chat_id = session
            .name
            .clone()
            .unwrap_or_else(|| session.id.to_string());
        let end = cut.as_ref().map(|cut| &cut.chat);
        let chat = self.chat_to_copy(source, session.id, chat_id, end).await?;
        if let Some(fields) = session.chat.as_mut().filter(|_| cut.is_some()) {
            fields.last_message_at_ms = chat.as_ref().and_then(|chat| chat.last_message_at_ms);
        }
        let mut ops = forks_of(&copied, &lasts);
        ops.extend(self.aside_to_copy(source, session.id, point).await?);
        ops.extend(chat.iter().flat_map(CopiedChat::ops));

        let events: Vec<CatalogEvent> =
            std::iter::once(CatalogEvent::SessionCreated(session.clone()))
                .chain(
                    copied
                        .iter()
                        .map(|copy| CatalogEvent::InstanceCreated(copy.instance.clone())),
                )
                // The copy's messages and steps have new ids: this event makes lookups by id index the copy.
                .chain(chat.iter().map(|_| CatalogEvent::ChatTouched {
                    id: session.id,
                    at_ms: 0,
                }))
                .collect();
        let guard = if options.name.is_some() {
            Guard::Unchanged
        } else {
            Guard::Any
        };
        let written = self
            .shared
            .catalog
            .change(|catalog: &Catalog| {
                live_session(catalog, source)?;
                check_free(catalog, &session)?;
                Ok((
                    Change {
                        events: events.clone(),
                        ops: ops.clone(),
                        guard,
                    },
                    (),
                ))
            })
            .await;
        match written {
            // All else was checked before: a fork is to begin at a sequence that isn't there any more.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Err(error)),
            written => written.map(|()| {
                Ok(CopiedSession {
                    session,
                    instances: copied,
                })
            }),
        }
    }

    /// The operations that fork a session's aside.
    async fn aside_to_copy(
        &self,
        source: SessionId,
        copy: SessionId,
        point: Option<Point>,
    ) -> Result<Option<Op<'static>>> {
        let (parent, child) = (aside_stream(source), aside_stream(copy));
        let Some(info) = self.backend().stream(parent).await? else {
            return Ok(None);
        };
        let at = match point.and_then(|point| point.next) {
            Some(next) => self.aside_before(parent, info.last_sequence, next).await?,
            None => info.last_sequence,
        };
        Ok((at > Sequence::ZERO).then_some(Op::Fork {
            parent,
            expected: Expected::Any,
            at,
            child,
        }))
    }

    /// The last record of a stream before a position, found by binary search, because positions grow with sequences.
    pub(crate) async fn last_before(
        &self,
        stream: StreamId,
        last: Sequence,
        position: u64,
    ) -> Result<Option<Record>> {
        let (mut first, mut end) = (1, last.0 + 1);
        let mut before = None;
        while first < end {
            let middle = Sequence(first + (end - first) / 2);
            let one = ReadOptions {
                first: middle,
                last: middle,
                ..ReadOptions::default()
            };
            let page = self.backend().read(stream, one).await?;
            match page.records.into_iter().next() {
                Some(record) if record.position.0 < position => {
                    first = middle.0 + 1;
                    before = Some(record);
                }
                _ => end = middle.0,
            }
        }
        Ok(before)
    }

    /// The last sequence of an aside that belongs to the part before the event at a position.
    pub(super) async fn aside_before(
        &self,
        aside: StreamId,
        last: Sequence,
        event: u64,
    ) -> Result<Sequence> {
        let Some(record) = self.last_before(aside, last, event).await? else {
            return Ok(Sequence::ZERO);
        };
        // The event's own envelope is right before it.
        let is_own = envelope_matches(record.position, Position(event))
            && matches!(Aside::read(&record)?, Some(Aside::Envelope(_)));
        Ok(if is_own {
            Sequence(record.sequence.0 - 1)
        } else {
            record.sequence
        })
    }

    fn copy_of(&self, source: &Session, options: &CopySession) -> Session {
        let new = NewSession {
            name: options.name.clone(),
            project: source.project.clone(),
            title: options.title.clone().or_else(|| source.title.clone()),
            metadata: source.metadata.clone(),
            ..NewSession::default()
        };
        let mut chat = source.chat.clone();
        if let Some(chat) = &mut chat {
            // They have other ids in the copy.
            chat.open_requests.clear();
            if options.created_by.is_some() {
                chat.created_by.clone_from(&options.created_by);
                (chat.updated_by, chat.team_id) = (None, None);
                (chat.public, chat.share) = (false, ChatShare::default());
            }
        }
        Session {
            copied_from: Some(source.id),
            chat,
            ..self.session_from(&new)
        }
    }

    /// The last sequence to copy of each instance's context.
    pub(super) async fn lasts_at(
        &self,
        instances: &[AgentInstance],
        cut: Option<&Cut>,
    ) -> Result<HashMap<InstanceId, Written>> {
        let mut lasts = HashMap::new();
        for instance in instances {
            let stream = context_stream(instance.id);
            let Some(info) = self.backend().stream(stream).await? else {
                continue;
            };
            let last = match cut {
                Some(Cut {
                    root: Some((root, up_to)),
                    ..
                }) if *root == instance.id => *up_to,
                Some(Cut {
                    point:
                        Point {
                            next: Some(next), ..
                        },
                    ..
                }) => {
                    let before = self.last_before(stream, info.last_sequence, *next).await?;
                    before.map_or(Sequence::ZERO, |record| record.sequence)
                }
                _ => info.last_sequence,
            };
            lasts.insert(
                instance.id,
                Written {
                    last,
                    is_more: last < info.last_sequence,
                },
            );
        }
        Ok(lasts)
    }

    /// New instances for the copied ones, in the same order, so that a parent comes before its children.
    fn copies_of(
        &self,
        instances: &[AgentInstance],
        lasts: &HashMap<InstanceId, Written>,
        cut: Option<&Cut>,
        session: SessionId,
    ) -> Vec<CopiedInstance> {
        let mut new_ids: HashMap<InstanceId, InstanceId> = HashMap::new();
        let mut copies = Vec::new();
        let wrote = |id: &InstanceId| {
            let written = lasts.get(id);
            written.is_some_and(|written| written.last > Sequence::ZERO)
        };
        // Whoever wrote before the cut was there, and so was whoever it is below, also one that said nothing itself.
        let mut above_writers = HashSet::new();
        for source in instances.iter().rev() {
            if wrote(&source.id) || above_writers.contains(&source.id) {
                above_writers.extend(source.parent_instance_id);
            }
        }
        for source in instances {
            let was_there = cut.is_none_or(|cut| {
                cut.root.is_some_and(|(root, _)| root == source.id)
                    || wrote(&source.id)
                    || above_writers.contains(&source.id)
                    || cut.is_before(source, lasts.get(&source.id))
            });
            let parent = source
                .parent_instance_id
                .map(|parent| new_ids.get(&parent).copied());
            // An instance whose parent isn't copied would refer to nothing.
            if !was_there || parent == Some(None) {
                continue;
            }
            let id = InstanceId(self.backend().new_id());
            new_ids.insert(source.id, id);
            let instance = AgentInstance {
                id,
                session_id: session,
                agent_name: source.agent_name.clone(),
                parent_instance_id: parent.flatten(),
                // The creation time is kept, so that a copy of the copy finds the same instances at the same point.
                created_at_ms: source.created_at_ms,
            };
            copies.push(CopiedInstance {
                source: source.id,
                instance,
            });
        }
        copies
    }
}

/// Refuses an owner that a chat can't have, and one of a session that is no chat.
fn check_owner(copy: &Session, source: SessionId, user: &str) -> Result<()> {
    if user.is_empty() {
        return Err(Error::invalid(
            "the user whose copy it is has no id; give it, or leave `created_by` out",
        ));
    }
    if copy.chat.is_none() {
        return Err(Error::invalid(format!(
            "session {source} is no chat, so that its copy is nobody's; leave `created_by` out"
        )));
    }
    Chat::of(copy, 0).check()
}

fn forks_of(copies: &[CopiedInstance], lasts: &HashMap<InstanceId, Written>) -> Vec<Op<'static>> {
    let written = copies
        .iter()
        .filter_map(|copy| Some((copy, lasts.get(&copy.source)?.last)));
    let written = written.filter(|(_, last)| *last > Sequence::ZERO);
    let fork = |(copy, at): (&CopiedInstance, Sequence)| {
        let (parent, child) = (
            context_stream(copy.source),
            context_stream(copy.instance.id),
        );
        Op::Fork {
            parent,
            expected: Expected::Any,
            at,
            child,
        }
    };
    written.map(fork).collect()
}

impl Guard {
    /// The catalog precondition of creating this session.
    pub(crate) fn of_new(new: &NewSession) -> Self {
        if new.name.is_some() || new.id.is_some() {
            Self::Unchanged
        } else {
            Self::Any
        }
    }
}
