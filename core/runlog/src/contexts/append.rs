//! Appending to a context: one event, or several as one batch.

use runlog_log::{Batch, Durability, Expected, Kind, Op, Position, Record, Sequence};
use runlog_model::{
    AgentInstance, ContextEvent, ContextEventKind, EventOptions, InstanceId, NewContextEvent,
    RawJson,
};
use serde::{Deserialize, Serialize};

use super::events::{Contexts, name_instance};
use crate::{
    Error, ErrorKind, Result, durability,
    kernel::{
        lookup::live_session,
        records::{context_records, context_stream},
    },
};

/// The options of an append.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AppendOptions {
    /// The last sequence that the context must have, 0 for an empty one; `None` takes any. A mismatch is a
    /// [`Conflict`](ErrorKind::Conflict), and nothing is written.
    pub expected_last_sequence: Option<u64>,
    /// A key of 1 to 255 bytes, unique in this context: the same key again returns the first result, and
    /// appends nothing.
    pub idempotency_key: Option<String>,
    /// How durable it is when acknowledged; `None` is the store's own setting.
    #[serde(deserialize_with = "durability::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<durability::Given>"))]
    pub durability: Option<Durability>,
    /// The metadata of the events.
    pub event: EventOptions,
}

/// The result of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AppendResult {
    /// The sequence of the first event: that of the message, with its tool_call events after it.
    pub first_sequence: u64,
    /// The context's last sequence after the append.
    pub last_sequence: u64,
    /// The position of the first event.
    pub position: u64,
    /// Whether the same idempotency key had been used before, so that nothing was appended now.
    pub repeated: bool,
    /// Of a repeat: whether the context was truncated since, so that the events of the first append are not in it any more.
    /// Their sequences may be those of other events by now.
    pub truncated: bool,
}

impl Contexts {
    /// Appends one event. Durable when it returns.
    ///
    /// The content is a JSON object, kept byte for byte. A message's role may be left out, its kind then says
    /// it. `tool_call_id` names the call that a tool_result answers, where its content doesn't.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance, or its session was deleted;
    /// [`InvalidInput`](ErrorKind::InvalidInput) when content, kind and tool call id don't fit each other.
    pub async fn append_event(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
    ) -> Result<ContextEvent> {
        self.append_event_with(
            instance,
            kind,
            content,
            tool_call_id,
            &AppendOptions::default(),
        )
        .await
    }

    /// [`append_event`](Self::append_event) with options.
    ///
    /// # Errors
    /// As [`append_event`](Self::append_event); [`Conflict`](ErrorKind::Conflict) when the context's last sequence
    /// isn't the expected one, and when the event of this idempotency key was truncated since: one that is there is
    /// returned as it is.
    pub async fn append_event_with(
        &self,
        instance: InstanceId,
        kind: ContextEventKind,
        content: RawJson,
        tool_call_id: Option<&str>,
        options: &AppendOptions,
    ) -> Result<ContextEvent> {
        let event = NewContextEvent::new(kind, content, tool_call_id, &options.event)?;
        let appended = self
            .append(instance, std::slice::from_ref(&event), options)
            .await?;
        match self.event(instance, appended.first_sequence).await {
            // Not a later event that reuses the sequence after a truncation.
            Ok(Some(event)) if event.position == appended.position => Ok(event),
            Err(error) if appended.repeated => Err(error),
            Ok(_) if appended.repeated => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the event that was appended with this idempotency key, at position {}, is truncated by now, and nothing \
                     was appended: give another key to append it again",
                    appended.position
                ),
            )),
            // It was written, but is truncated since or can't be read: return it as it was appended.
            _ => {
                let meta = event.encode_meta()?;
                let record = Record {
                    stream: context_stream(instance),
                    position: Position(appended.position),
                    sequence: Sequence(appended.first_sequence),
                    time_ms: self.store.backend().now_ms(),
                    kind: Kind(kind.byte()),
                    redacted: false,
                    lost: false,
                    meta: meta.into(),
                    payload: event.content.into_bytes(),
                };
                Ok(ContextEvent::decode(instance, &record)?)
            }
        }
    }

    /// Appends events as one atomic batch.
    pub(crate) async fn append(
        &self,
        instance: InstanceId,
        events: &[NewContextEvent],
        options: &AppendOptions,
    ) -> Result<AppendResult> {
        let removals = &self.store.shared.folds.removals;
        let removals_ended = removals.ended();
        let of = self.store.writable_instance(instance).await?;
        let metas = events
            .iter()
            .map(|event| event.encode(instance))
            .collect::<Result<Vec<_>>>()?;
        let batch = Batch {
            ops: vec![Op::Append {
                stream: context_stream(instance),
                expected: options
                    .expected_last_sequence
                    .map_or(Expected::Any, |last| Expected::Last(Sequence(last))),
                records: context_records(events, &metas),
            }],
            key: options.idempotency_key.as_ref().map(String::as_bytes),
            durability: options.durability,
        };
        let appended = self
            .store
            .backend()
            .commit(batch)
            .await
            .map_err(|error| name_instance(error, instance))?;
        let first = appended.first_sequence(events.len() as u64);
        let (Some(op), Some(first)) = (appended.ops.first(), first) else {
            return Err(Error::new(
                ErrorKind::Io,
                "the backend acknowledged an append without saying where it is",
            ));
        };
        if !appended.repeated && removals.any_since(removals_ended) {
            self.check_kept(&of, first, op.last_sequence).await?;
        }
        Ok(AppendResult {
            first_sequence: first.0,
            last_sequence: op.last_sequence.0,
            position: op.position.0,
            repeated: appended.repeated,
            truncated: appended.truncated,
        })
    }

    /// An error if the session was given up after a writer of one of its contexts looked, and before its events, from `first` to
    /// `last`, were written. They are dropped, as nobody would find them, unless something was written behind them.
    pub(super) async fn check_kept(
        &self,
        of: &AgentInstance,
        first: Sequence,
        last: Sequence,
    ) -> Result<()> {
        let session = of.session_id;
        let catalog = &self.store.shared.catalog;
        let kept = catalog.read(|catalog| live_session(catalog, session).map(drop));
        let Err(gone) = kept.await? else {
            return Ok(());
        };
        let batch = Batch::new(vec![Op::Truncate {
            stream: context_stream(of.id),
            expected: Expected::Last(last),
            after: Sequence(first.0.saturating_sub(1)),
        }]);
        match self.store.backend().commit(batch).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
            _ => Err(gone),
        }
    }
}
