//! The rule for streaming deltas: they are dropped once their whole text is recorded.

use std::collections::HashMap;

use runlog_log::{Batch, Kind, Op, Position, ReadOptions, Record, StreamInfo};
use runlog_model::{AgentEvent, FlowEventKind, ListFlows, RunId, RuntimeEvent};

use super::{RetainProgress, RetainStage, Retained, RetentionPolicy, plan::OnProgress};
use crate::{
    ErrorKind, Result, Store,
    journal::follow::read_each,
    kernel::{flows::Settled, records::run_stream},
};

/// The redaction's reason, for readers that find a delta empty.
const REASON: &str = "its whole text stands";
/// How many flows are listed at a time.
const PAGE: usize = 1_000;
/// How many droppable deltas are gathered before they are redacted together.
const BATCH: usize = 50_000;
/// The most pieces and bytes of a sequence of deltas that are compared with a whole text. Of a longer sequence the
/// beginning is kept.
const PIECES_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 16 << 20;

/// The source of a text: a node, an execution of it, and whether it is thinking.
type Of = (String, String, bool);

/// A delta whose whole text hasn't been recorded yet.
struct Piece {
    position: Position,
    time_ms: u64,
    /// The bytes that dropping it frees.
    bytes: u64,
    text: String,
}

/// Deltas whose whole text is recorded. They are dropped together, because a remaining part couldn't be matched with
/// the text any more.
#[derive(Default)]
struct Block {
    positions: Vec<Position>,
    bytes: u64,
}

/// The deltas of one flow read so far.
#[derive(Default)]
struct Pieces {
    waiting: HashMap<Of, Vec<Piece>>,
    /// How many deltas were skipped because there were too many to compare.
    passed_over: u64,
    /// How many bytes the waiting texts have.
    text_bytes: usize,
}

impl Pieces {
    fn add(&mut self, of: Of, piece: Piece) {
        let waiting = self.waiting.entry(of).or_default();
        self.text_bytes += piece.text.len();
        waiting.push(piece);
        if waiting.len() > PIECES_MAX || self.text_bytes > TEXT_BYTES_MAX {
            for waiting in self.waiting.values_mut() {
                self.passed_over += waiting.len() as u64;
                waiting.clear();
            }
            self.text_bytes = 0;
        }
    }

    /// The last deltas that together are exactly this text, in order. `None` if the streamed text differs: then the
    /// deltas are its only copy.
    fn take(&mut self, of: &Of, whole: &str) -> Option<Block> {
        let waiting = self.waiting.get_mut(of)?;
        let (mut rest, mut first) = (whole, waiting.len());
        while let Some(before) = first.checked_sub(1)
            && !rest.is_empty()
        {
            rest = rest.strip_suffix(waiting[before].text.as_str())?;
            first = before;
        }
        if !rest.is_empty() || first == waiting.len() {
            return None;
        }
        let mut block = Block::default();
        for piece in waiting.drain(first..) {
            block.positions.push(piece.position);
            block.bytes += piece.bytes;
            self.text_bytes -= piece.text.len();
        }
        Some(block)
    }

    /// How many deltas are left.
    fn all_left(&self) -> u64 {
        let waiting: usize = self.waiting.values().map(Vec::len).sum();
        self.passed_over + waiting as u64
    }

    /// How many deltas older than a time are left.
    fn left(&self, before_ms: u64) -> u64 {
        let waiting = self.waiting.values().flatten();
        let old = waiting.filter(|piece| piece.time_ms < before_ms).count();
        self.passed_over + old as u64
    }
}

/// What was found in a flow.
struct Found {
    /// What its stream was when it was read.
    at: StreamInfo,
    stood_since_ms: u64,
    /// The deltas to drop.
    blocks: Vec<Block>,
    /// How many others are old.
    kept: u64,
    /// Whether others may be dropped later although the flow doesn't go on.
    is_undecided: bool,
}

impl Found {
    fn deltas(&self) -> usize {
        self.blocks.iter().map(|block| block.positions.len()).sum()
    }

    /// That nothing can be dropped before the flow goes on, if it is so. Of a flow with deltas to drop it is known once they are
    /// dropped: another call finds none.
    fn settled(&self) -> Option<Settled> {
        let is_settled = self.blocks.is_empty() && !self.is_undecided;
        is_settled.then_some(Settled {
            at: self.at,
            stood_since_ms: self.stood_since_ms,
            kept: self.kept,
        })
    }
}

/// Applies an event of an agent: a delta, or a whole text, which may complete a block.
fn apply(pieces: &mut Pieces, record: &Record) -> Option<Block> {
    // Unreadable events are kept.
    let event = RuntimeEvent::decode(&record.meta, &record.payload).ok()?;
    let (of, piece, whole) = match event.agent().ok()? {
        AgentEvent::ThinkingDelta {
            node_id,
            run_id,
            content,
            ..
        } => ((node_id, run_id, true), Some(content), None),
        AgentEvent::TextDelta {
            node_id,
            run_id,
            content,
            ..
        } => ((node_id, run_id, false), Some(content), None),
        AgentEvent::Thinking {
            node_id,
            run_id,
            content,
            ..
        } => ((node_id, run_id, true), None, Some(content)),
        AgentEvent::Text {
            node_id,
            run_id,
            content,
            ..
        } => ((node_id, run_id, false), None, Some(content)),
        AgentEvent::Complete {
            node_id,
            run_id,
            result,
            ..
        } => ((node_id, run_id, false), None, Some(result)),
        _ => return None,
    };
    if let Some(text) = piece {
        let piece = Piece {
            position: record.position,
            time_ms: record.time_ms,
            bytes: (record.meta.len() + record.payload.len()) as u64,
            text,
        };
        pieces.add(of, piece);
        return None;
    }
    pieces.take(&of, &whole?)
}

impl Store {
    /// Drops the deltas whose whole text was recorded long enough ago, flow by flow; in a dry run, only counts them.
    pub(super) async fn drop_deltas(
        &self,
        policy: &RetentionPolicy,
        least_ms: u64,
        progress: &mut OnProgress<'_>,
    ) -> Result<Retained> {
        let stood_since_ms = self.backend().now_ms().saturating_sub(least_ms);
        let mut retained = Retained::default();
        let (mut blocks, mut gathered, mut done) = (Vec::new(), 0, 0);
        let redactions = self.backend().redactions();
        let mut settled = HashMap::new();
        let mut cursor = None;
        loop {
            let options = ListFlows {
                limit: PAGE,
                cursor,
                ..ListFlows::default()
            };
            let page = self.flows().list(&options).await?;
            for flow in page.items {
                let state = RetainProgress {
                    stage: RetainStage::DroppingDeltas,
                    done,
                    total: 0,
                };
                if progress(state).is_break() {
                    retained.is_cancelled = true;
                    break;
                }
                done += 1;
                // The listed flow may have been deleted since.
                let Some(found) = self
                    .deltas_of(flow.run_id, stood_since_ms, redactions)
                    .await?
                else {
                    continue;
                };
                retained.deltas_kept += found.kept;
                if let Some(known) = found.settled() {
                    settled.insert(flow.run_id, known);
                }
                gathered += found.deltas();
                blocks.extend(found.blocks);
                if gathered >= BATCH {
                    self.redact_blocks(policy, &mut blocks, &mut retained)
                        .await?;
                    gathered = 0;
                }
            }
            cursor = page.next;
            if cursor.is_none() || retained.is_cancelled {
                break;
            }
        }
        self.redact_blocks(policy, &mut blocks, &mut retained)
            .await?;
        // What somebody else redacted meanwhile may be part of what was read.
        let own = if policy.dry_run { 0 } else { retained.deltas };
        let redactions_after = self.backend().redactions();
        if !retained.is_cancelled && redactions_after == redactions + own {
            let flows = self.shared.flows.shared();
            flows.set_settled(settled, redactions_after);
        }
        Ok(retained)
    }

    /// The deltas of a flow whose whole text has stood since a time; `None` if there is no such flow any more. A flow that
    /// was found settled before is read only if it has gone on.
    async fn deltas_of(
        &self,
        flow: RunId,
        stood_since_ms: u64,
        redactions: u64,
    ) -> Result<Option<Found>> {
        let stream = run_stream(flow);
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(None);
        };
        let mut found = Found {
            at: info,
            stood_since_ms,
            blocks: Vec::new(),
            kept: 0,
            is_undecided: false,
        };
        let known = self.shared.flows.shared().settled(flow, redactions);
        let is_as_known =
            |known: &Settled| known.at == found.at && known.stood_since_ms <= stood_since_ms;
        if let Some(known) = known.filter(is_as_known) {
            (found.kept, found.stood_since_ms) = (known.kept, known.stood_since_ms);
            return Ok(Some(found));
        }
        let agents = [FlowEventKind::Agent, FlowEventKind::Delta];
        let options = ReadOptions {
            last: info.last_sequence,
            kinds: agents.map(|kind| Kind(kind.byte())).to_vec(),
            ..ReadOptions::default()
        };
        let mut pieces = Pieces::default();
        let read = read_each(&**self.backend(), stream, options, &mut |record| {
            if record.redacted {
                return Ok(());
            }
            if let Some(block) = apply(&mut pieces, record) {
                if record.time_ms < stood_since_ms {
                    found.blocks.push(block);
                } else {
                    // A text that is too recent still takes its deltas out of `pieces`.
                    found.is_undecided = true;
                }
            }
            Ok(())
        })
        .await;
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        }
        found.kept = pieces.left(stood_since_ms);
        // Those that are too recent to be counted will be, later.
        found.is_undecided |= pieces.all_left() > found.kept;
        Ok(Some(found))
    }

    /// Redacts blocks of deltas: all in one batch, or one by one if one was deleted meanwhile.
    async fn redact_blocks(
        &self,
        policy: &RetentionPolicy,
        blocks: &mut Vec<Block>,
        retained: &mut Retained,
    ) -> Result<()> {
        let blocks = std::mem::take(blocks);
        let together = self.redact_deltas(policy, &blocks).await?;
        for block in &blocks {
            if !together
                && !self
                    .redact_deltas(policy, std::slice::from_ref(block))
                    .await?
            {
                // The flow was removed by another call, and its records by a compaction.
                continue;
            }
            let deltas = block.positions.len() as u64;
            retained.deltas += deltas;
            retained.records += deltas;
            retained.bytes += block.bytes;
        }
        Ok(())
    }

    /// Redacts these deltas; `false` if one of them was deleted.
    async fn redact_deltas(&self, policy: &RetentionPolicy, blocks: &[Block]) -> Result<bool> {
        if policy.dry_run || blocks.is_empty() {
            return Ok(true);
        }
        // Deltas of concurrent flows are interleaved; sorted, they share redaction ranges.
        let positions = blocks.iter().flat_map(|block| &block.positions);
        let mut positions: Vec<Position> = positions.copied().collect();
        positions.sort_unstable();
        let ops = Op::redactions(&positions, REASON);
        match self.backend().commit(Batch::new(ops)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> Of {
        ("node".to_owned(), "run".to_owned(), false)
    }

    fn pieces(texts: &[&str]) -> Pieces {
        let mut pieces = Pieces::default();
        for (position, text) in (1..).zip(texts) {
            let piece = Piece {
                position: Position(position),
                time_ms: 0,
                bytes: 100,
                text: (*text).to_owned(),
            };
            pieces.add(of(), piece);
        }
        pieces
    }

    fn taken(pieces: &mut Pieces, whole: &str) -> Vec<u64> {
        let block = pieces.take(&of(), whole).unwrap_or_default();
        block.positions.iter().map(|position| position.0).collect()
    }

    #[test]
    fn deltas_go_that_are_the_whole_text_and_no_others() {
        let mut streamed = pieces(&["I'll ", "look. ", "Do", "ne."]);
        assert_eq!(taken(&mut streamed, "Done!"), [] as [u64; 0]);
        assert_eq!(taken(&mut streamed, "All is Done."), [] as [u64; 0]);
        assert_eq!(taken(&mut streamed, "one."), [] as [u64; 0]);
        assert_eq!(taken(&mut streamed, ""), [] as [u64; 0]);
        assert_eq!(taken(&mut streamed, "Done."), [3, 4]);
        assert_eq!(taken(&mut streamed, "Done."), [] as [u64; 0], "once");
        assert_eq!(streamed.left(1), 2);
        assert_eq!(taken(&mut streamed, "I'll look. "), [1, 2]);
        assert_eq!((streamed.left(1), streamed.text_bytes), (0, 0));
    }

    #[test]
    fn more_than_is_compared_stays_and_is_counted() {
        let mut long = pieces(&vec!["x"; PIECES_MAX + 3]);
        assert_eq!(
            taken(&mut long, "xx"),
            [PIECES_MAX as u64 + 2, PIECES_MAX as u64 + 3]
        );
        assert_eq!(long.left(1), PIECES_MAX as u64 + 1);
    }
}
