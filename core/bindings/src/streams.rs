//! The engine's streams: opaque records, and the log that contains them.

use std::rc::Rc;

use runlog::{
    Durability, Store,
    backend::{BackendFuture, Page},
    durability,
    log::{
        Appended, Batch, Direction, Expected, Kind, Op, Position, ReadOptions, Record, Sequence,
        Snapshot, StreamId, StreamInfo,
    },
    scan::TextQuery,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Failure, Result,
    answers::{Packed, Typed, WithContents, write},
    appends::{Outcome, Staged},
    calls::calls,
    packed::{pack_found, pack_heads, pack_records, packed_records},
    store::StoreObject,
};

/// The most records in a page of the log.
const PAGE_RECORDS: u64 = 4096;

/// Which records of a stream to read.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Read {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    stream: Uuid,
    #[serde(default)]
    first: u64,
    last: Option<u64>,
    #[serde(default)]
    backward: bool,
    #[serde(default)]
    kinds: Vec<u8>,
    limit: Option<u64>,
}

/// One operation of a batch. What is bytes follows in the contents: records packed, metadata and payload as they are.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "op",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum GivenOp {
    Append {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        stream: Uuid,
        expected: Option<GivenExpected>,
        length: usize,
    },
    Truncate {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        stream: Uuid,
        expected: Option<GivenExpected>,
        after: u64,
    },
    Fork {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        parent: Uuid,
        expected: Option<GivenExpected>,
        at: u64,
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        child: Uuid,
    },
    Snapshot {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        stream: Uuid,
        expected: Option<GivenExpected>,
        sequence: u64,
        meta_length: usize,
        payload_length: usize,
    },
    Delete {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        stream: Uuid,
        expected: Option<GivenExpected>,
    },
    Redact {
        position: u64,
        reason: String,
    },
}

impl GivenOp {
    /// The position of a record that it redacts.
    fn redacted(&self) -> Option<u64> {
        match self {
            Self::Redact { position, .. } => Some(*position),
            _ => None,
        }
    }
}

/// `"exists"`, `"absent"`, a last sequence, or the position of the last record.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum GivenExpected {
    Any,
    Exists,
    Absent,
    #[serde(untagged)]
    Last(u64),
    #[serde(untagged)]
    At {
        position: u64,
    },
}

impl From<GivenExpected> for Expected {
    fn from(argument: GivenExpected) -> Self {
        match argument {
            GivenExpected::Any => Self::Any,
            GivenExpected::Exists => Self::Exists,
            GivenExpected::Absent => Self::Absent,
            GivenExpected::Last(last) => Self::Last(Sequence(last)),
            GivenExpected::At { position } => Self::At(Position(position)),
        }
    }
}

fn expected(argument: Option<GivenExpected>) -> Expected {
    argument.map_or(Expected::Any, Into::into)
}

/// What a batch became.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Committed"))]
struct AppendedOps {
    last_position: u64,
    ops: Vec<AppendedOp>,
    repeated: bool,
    truncated: bool,
}

/// What one operation of a batch became.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "CommittedOperation"))]
struct AppendedOp {
    position: u64,
    last_sequence: u64,
}

/// A stream.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "StreamInfo"))]
struct Stream {
    /// Its id, a UUID.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    id: Uuid,
    /// The sequence of its last record; 0 when it is empty.
    last_sequence: u64,
}

/// A snapshot, without its contents.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SnapshotHead {
    sequence: u64,
    position: u64,
    time_ms: u64,
    meta_length: usize,
}

impl From<StreamInfo> for Stream {
    fn from(info: StreamInfo) -> Self {
        Self {
            id: info.id.0,
            last_sequence: info.last_sequence.0,
        }
    }
}

impl From<Appended> for AppendedOps {
    fn from(appended: Appended) -> Self {
        let ops = appended.ops.iter().map(|op| AppendedOp {
            position: op.position.0,
            last_sequence: op.last_sequence.0,
        });
        Self {
            last_position: appended.last_position.0,
            ops: ops.collect(),
            repeated: appended.repeated,
            truncated: appended.truncated,
        }
    }
}

fn commit(
    of: &StoreObject,
    data: &[u8],
    ops: Vec<GivenOp>,
    key: Option<String>,
    durability: Option<Durability>,
) -> Result<Typed<AppendedOps>> {
    let redacted: Vec<u64> = ops.iter().filter_map(GivenOp::redacted).collect();
    if redacted.is_empty() {
        let commit = staged(&of.store()?, data, ops, key.as_deref(), durability)?;
        return Ok(write(async move { commit.await.map(AppendedOps::from) }));
    }
    // What is redacted is looked at first, so that these batches aren't staged at the call.
    let (store, data) = (of.store()?, data.to_vec());
    Ok(of.read(async move {
        for position in redacted {
            store.check_is_content(position).await?;
        }
        let commit = staged(&store, &data, ops, key.as_deref(), durability)?;
        Ok::<_, Failure>(AppendedOps::from(commit.await?))
    }))
}

fn staged(
    store: &Store,
    mut data: &[u8],
    ops: Vec<GivenOp>,
    key: Option<&str>,
    durability: Option<Durability>,
) -> Result<BackendFuture<'static, Appended>> {
    let mut take = |length: usize| {
        let (part, rest) = data
            .split_at_checked(length)
            .ok_or_else(|| Failure::invalid("commit: contents are missing"))?;
        data = rest;
        Ok::<_, Failure>(part)
    };
    // Reasons are borrowed by the batch.
    let reasons: Vec<String> = ops
        .iter()
        .map(|op| {
            if let GivenOp::Redact { reason, .. } = op {
                reason.clone()
            } else {
                String::new()
            }
        })
        .collect();
    let mut steps = Vec::with_capacity(ops.len());
    for (op, reason) in ops.into_iter().zip(&reasons) {
        steps.push(match op {
            GivenOp::Append {
                stream,
                expected: wanted,
                length,
            } => {
                let records = packed_records(take(length)?)?;
                Op::Append {
                    stream: StreamId(stream),
                    expected: expected(wanted),
                    records,
                }
            }
            GivenOp::Truncate {
                stream,
                expected: wanted,
                after,
            } => Op::Truncate {
                stream: StreamId(stream),
                expected: expected(wanted),
                after: Sequence(after),
            },
            GivenOp::Fork {
                parent,
                expected: wanted,
                at,
                child,
            } => Op::Fork {
                parent: StreamId(parent),
                expected: expected(wanted),
                at: Sequence(at),
                child: StreamId(child),
            },
            GivenOp::Snapshot {
                stream,
                expected: wanted,
                sequence,
                meta_length,
                payload_length,
            } => Op::Snapshot {
                stream: StreamId(stream),
                expected: expected(wanted),
                sequence: Sequence(sequence),
                meta: take(meta_length)?,
                payload: take(payload_length)?,
            },
            GivenOp::Delete {
                stream,
                expected: wanted,
            } => Op::Delete {
                stream: StreamId(stream),
                expected: expected(wanted),
            },
            GivenOp::Redact { position, .. } => Op::Redact {
                position: Position(position),
                reason,
            },
        });
    }
    store.check_raw(&steps)?;
    let batch = Batch {
        ops: steps,
        key: key.map(str::as_bytes),
        durability,
    };
    Ok(store.backend().maintenance().stage(&batch)?)
}

async fn read(store: Store, read: Read) -> Result<Packed<()>> {
    let options = ReadOptions {
        first: Sequence(read.first),
        last: read.last.map_or(Sequence::MAX, Sequence),
        direction: if read.backward {
            Direction::Backward
        } else {
            Direction::Forward
        },
        kinds: read.kinds.into_iter().map(Kind).collect(),
        limit: read.limit.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS),
    };
    let page = store.backend().read(StreamId(read.stream), options).await?;
    let next = page.next.map_or(0, |next| next.0);
    Ok(Packed::new(pack_records(&page.records, next)))
}

async fn scan(store: Store, from: u64, limit: Option<u64>) -> Result<Packed<()>> {
    let limit = limit.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS);
    let Page { records, next } = store.backend().scan(Position(from), limit).await?;
    // The next position is returned at the end too, because the log grows.
    let next = next
        .map(|next| next.0)
        .or_else(|| records.last().map(|record: &Record| record.position.0 + 1));
    Ok(Packed::new(pack_records(&records, next.unwrap_or(0))))
}

fn snapshot_parts(snapshot: Option<Snapshot>) -> Result<WithContents<Option<SnapshotHead>>> {
    let head = snapshot.as_ref().map(|snapshot| SnapshotHead {
        sequence: snapshot.sequence.0,
        position: snapshot.position.0,
        time_ms: snapshot.time_ms,
        meta_length: snapshot.meta.len(),
    });
    let contents = snapshot.map(|found| [&found.meta[..], &found.payload[..]].concat());
    WithContents::new(&head, contents)
}

calls! {
    (of: &Rc<StoreObject>, _scope, input) {}

    append {} -> Outcome => write(Staged::stage(&of.store()?, input.data)?);
    commit {
        ops: Vec<GivenOp>,
        key: Option<String>,
        durability: Option<durability::Given>,
    } -> AppendedOps => {
        let durability = durability.map(Durability::from);
        commit(of, input.data, ops, key, durability)?
    };
    read(options: Read) -> Packed<()> => of.read(read(of.store()?, options));
    scan { from: u64, limit: Option<u64> } -> Packed<()> =>
        of.read(scan(of.store()?, from, limit));
    heads { from: u64 } -> Packed<()> => {
        let store = of.store()?;
        of.read(async move {
            let page = store.scan_heads(Position(from)).await?;
            Ok::<_, Failure>(Packed::new(pack_heads(&page)))
        })
    };
    search { text: String, from: u64 } -> Packed<()> => {
        let (store, query) = (of.store()?, TextQuery::new(&text)?);
        of.read(async move {
            let page = store.search(&query, Position(from)).await?;
            Ok::<_, Failure>(Packed::new(pack_found(&page)))
        })
    };
    record { position: u64 } -> Packed<()> => {
        let backend = of.backend()?;
        of.read(async move {
            let record = backend.maintenance().record(Position(position)).await?;
            Ok::<_, Failure>(Packed::new(pack_records(record.as_slice(), 0)))
        })
    };
    stream { #[cfg_attr(feature = "schema", schemars(with = "String"))] stream: Uuid }
        -> Option<Stream> => {
        let backend = of.backend()?;
        of.read(async move { backend.stream(StreamId(stream)).await.map(|found| found.map(Stream::from)) })
    };
    streams {} -> Vec<Stream> => {
        let backend = of.backend()?;
        of.read(async move {
            let found = backend.maintenance().streams().await?;
            Ok::<_, Failure>(found.into_iter().map(Stream::from).collect())
        })
    };
    latestSnapshot {
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        stream: Uuid,
        at_or_before: Option<u64>,
    } -> WithContents<Option<SnapshotHead>> => {
        let backend = of.backend()?;
        let at = at_or_before.map_or(Sequence::MAX, Sequence);
        of.read(async move { snapshot_parts(backend.latest_snapshot(StreamId(stream), at).await?) })
    };
    lastPosition {} -> u64 => {
        let backend = of.backend()?;
        of.read(async move { backend.maintenance().last_position().await.map(|last| last.0) })
    };
}
