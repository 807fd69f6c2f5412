//! The engine's streams: opaque records, and the log they are in.

use std::rc::Rc;

use runlog::{
    Durability,
    backend::{Backend, Page},
    log::{
        Appended, Batch, Direction, Expected, Kind, Op, Position, ReadOptions, Record, Sequence,
        Snapshot, StreamId, StreamInfo,
    },
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Failure, Reply, Result,
    appends::{Outcome, Staged},
    arguments::{DurabilityArgument, Input},
    object::{Object, Scope},
    packed::{pack_records, packed_records},
    store::StoreObject,
    tasks::Answer,
};

/// At most so many records in a page of the log.
const PAGE_RECORDS: u64 = 4096;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Read {
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scan {
    from: u64,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    position: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    stream: Uuid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LatestSnapshot {
    stream: Uuid,
    at_or_before: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    ops: Vec<OpArgument>,
    key: Option<String>,
    durability: Option<DurabilityArgument>,
}

/// One step of a batch. What is bytes follows in the contents: records packed, metadata and payload as they are.
#[derive(Deserialize)]
#[serde(
    tag = "op",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum OpArgument {
    Append {
        stream: Uuid,
        expected: Option<ExpectedArgument>,
        length: usize,
    },
    Truncate {
        stream: Uuid,
        expected: Option<ExpectedArgument>,
        after: u64,
    },
    Fork {
        parent: Uuid,
        expected: Option<ExpectedArgument>,
        at: u64,
        child: Uuid,
    },
    Snapshot {
        stream: Uuid,
        expected: Option<ExpectedArgument>,
        sequence: u64,
        meta_length: usize,
        payload_length: usize,
    },
    Delete {
        stream: Uuid,
        expected: Option<ExpectedArgument>,
    },
    Redact {
        position: u64,
        reason: String,
    },
}

/// `"exists"`, `"absent"`, a last sequence, or the position of the last record.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ExpectedArgument {
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

impl From<ExpectedArgument> for Expected {
    fn from(argument: ExpectedArgument) -> Self {
        match argument {
            ExpectedArgument::Any => Self::Any,
            ExpectedArgument::Exists => Self::Exists,
            ExpectedArgument::Absent => Self::Absent,
            ExpectedArgument::Last(last) => Self::Last(Sequence(last)),
            ExpectedArgument::At { position } => Self::At(Position(position)),
        }
    }
}

fn expected(argument: Option<ExpectedArgument>) -> Expected {
    argument.map_or(Expected::Any, Into::into)
}

/// What a batch became.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendedReply {
    last_position: u64,
    ops: Vec<OpReply>,
    repeated: bool,
    truncated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OpReply {
    position: u64,
    last_sequence: u64,
}

/// What an append of records to one stream became.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendReply {
    position: u64,
    last_position: u64,
    first_sequence: u64,
    last_sequence: u64,
    repeated: bool,
    truncated: bool,
}

impl From<Outcome> for AppendReply {
    fn from(outcome: Outcome) -> Self {
        let Outcome {
            position,
            last_position,
            first_sequence,
            last_sequence,
            repeated,
            truncated,
        } = outcome;
        Self {
            position,
            last_position,
            first_sequence,
            last_sequence,
            repeated,
            truncated,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StreamReply {
    id: Uuid,
    last_sequence: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SnapshotReply {
    sequence: u64,
    position: u64,
    time_ms: u64,
    meta_length: usize,
}

impl From<Appended> for AppendedReply {
    fn from(appended: Appended) -> Self {
        let ops = appended.ops.iter();
        Self {
            last_position: appended.last_position.0,
            ops: ops
                .map(|op| OpReply {
                    position: op.position.0,
                    last_sequence: op.last_sequence.0,
                })
                .collect(),
            repeated: appended.repeated,
            truncated: appended.truncated,
        }
    }
}

fn append(backend: &dyn Backend, input: Input<'_>) -> Result<Answer> {
    let staged = Staged::stage(backend, input.data)?;
    Ok(Answer::write(async move {
        Reply::json(&AppendReply::from(staged.await?))
    }))
}

fn commit(backend: &dyn Backend, input: Input<'_>) -> Result<Answer> {
    let Commit {
        ops,
        key,
        durability,
    } = input.read()?;
    let mut data = input.data;
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
            if let OpArgument::Redact { reason, .. } = op {
                reason.clone()
            } else {
                String::new()
            }
        })
        .collect();
    let mut steps = Vec::with_capacity(ops.len());
    for (op, reason) in ops.into_iter().zip(&reasons) {
        steps.push(match op {
            OpArgument::Append {
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
            OpArgument::Truncate {
                stream,
                expected: wanted,
                after,
            } => Op::Truncate {
                stream: StreamId(stream),
                expected: expected(wanted),
                after: Sequence(after),
            },
            OpArgument::Fork {
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
            OpArgument::Snapshot {
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
            OpArgument::Delete {
                stream,
                expected: wanted,
            } => Op::Delete {
                stream: StreamId(stream),
                expected: expected(wanted),
            },
            OpArgument::Redact { position, .. } => Op::Redact {
                position: Position(position),
                reason,
            },
        });
    }
    let durability = durability.map(Durability::from);
    let batch = Batch {
        ops: steps,
        key: key.as_ref().map(String::as_bytes),
        durability,
    };
    let commit = backend.maintenance().stage(&batch)?;
    Ok(Answer::write(async move {
        Reply::json(&AppendedReply::from(commit.await?))
    }))
}

fn read(of: &StoreObject, input: Input<'_>) -> Result<Answer> {
    let Read {
        stream,
        first,
        last,
        backward,
        kinds,
        limit,
    } = input.read()?;
    let options = ReadOptions {
        first: Sequence(first),
        last: last.map_or(Sequence::MAX, Sequence),
        direction: if backward {
            Direction::Backward
        } else {
            Direction::Forward
        },
        kinds: kinds.into_iter().map(Kind).collect(),
        limit: limit.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS),
    };
    let store = of.store()?;
    Ok(of.offload(async move {
        let Page { records, next } = store.backend().read(StreamId(stream), options).await?;
        Ok(Reply::bytes(pack_records(
            &records,
            next.map_or(0, |next| next.0),
        )))
    }))
}

fn scan(of: &StoreObject, input: Input<'_>) -> Result<Answer> {
    let Scan { from, limit } = input.read()?;
    let store = of.store()?;
    let limit = limit.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS);
    Ok(of.offload(async move {
        let Page { records, next } = store.backend().scan(Position(from), limit).await?;
        // Where to go on is known at the end too: the log grows.
        let next = next
            .map(|next| next.0)
            .or_else(|| records.last().map(|record: &Record| record.position.0 + 1));
        Ok(Reply::bytes(pack_records(&records, next.unwrap_or(0))))
    }))
}

fn snapshot_reply(snapshot: Option<Snapshot>) -> Result<Reply> {
    let Some(snapshot) = snapshot else {
        return Reply::json(&());
    };
    let reply = Reply::json(&SnapshotReply {
        sequence: snapshot.sequence.0,
        position: snapshot.position.0,
        time_ms: snapshot.time_ms,
        meta_length: snapshot.meta.len(),
    })?;
    Ok(reply.with_bytes([&snapshot.meta[..], &snapshot.payload[..]].concat()))
}

/// Answers a call about streams and the log.
pub(crate) fn call(of: &Rc<StoreObject>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
    Ok(Some(match input.method {
        "append" => append(&*of.backend()?, input)?,
        "commit" => commit(&*of.backend()?, input)?,
        "read" => read(of, input)?,
        "scan" => scan(of, input)?,
        "record" => {
            let At { position } = input.read()?;
            let backend = of.backend()?;
            of.offload(async move {
                let record = backend.maintenance().record(Position(position)).await?;
                Ok(Reply::bytes(pack_records(record.as_slice(), 0)))
            })
        }
        "stream" => {
            let Of { stream } = input.read()?;
            let backend = of.backend()?;
            of.offload(async move {
                let found = backend.stream(StreamId(stream)).await?;
                Reply::json(&found.map(|info| StreamReply {
                    id: info.id.0,
                    last_sequence: info.last_sequence.0,
                }))
            })
        }
        "streams" => {
            let backend = of.backend()?;
            of.offload(async move {
                let found = backend.maintenance().streams().await?.into_iter();
                let reply = |info: StreamInfo| StreamReply {
                    id: info.id.0,
                    last_sequence: info.last_sequence.0,
                };
                Reply::json(&found.map(reply).collect::<Vec<_>>())
            })
        }
        "latestSnapshot" => {
            let LatestSnapshot {
                stream,
                at_or_before,
            } = input.read()?;
            let backend = of.backend()?;
            of.offload(async move {
                let at = at_or_before.map_or(Sequence::MAX, Sequence);
                snapshot_reply(backend.latest_snapshot(StreamId(stream), at).await?)
            })
        }
        "lastPosition" => {
            let backend = of.backend()?;
            of.offload(async move { Reply::json(&backend.maintenance().last_position().await?) })
        }
        _ => return Ok(None),
    }))
}
