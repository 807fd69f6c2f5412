//! Compares the end marker, the watermark and the checkpoint with the log at the places they name.

use super::{
    examiner::{Part, Wrong},
    sources::Sources,
    stand::{Seen, Stand},
    walker::Walker,
};
use crate::{SegmentId, format::files, store::open::load::Loaded};

/// The places to observe: the end marker's first, the watermark's second.
pub(super) fn stands(sources: &Sources) -> Vec<Stand> {
    let end = sources.end.map(|end| (end.segment, end.offset));
    let watermark = sources
        .watermark
        .map(|watermark| (watermark.segment, watermark.offset));
    let place = |place: Option<(SegmentId, u64)>| place.unwrap_or((SegmentId(0), 0));
    let stand = |(segment, offset)| Stand {
        segment,
        offset,
        seen: None,
    };
    [end, watermark].map(|it| stand(place(it))).into()
}

/// What the small files are held against.
struct Log<'a> {
    parts: &'a [Part],
    /// Where what is published ends. With an active writer, only that can be checked.
    limit: Option<(SegmentId, u64)>,
    is_lossy: bool,
}

/// Reports those that don't match the log.
pub(super) fn check(
    walker: &mut Walker,
    sources: &Sources,
    parts: &[Part],
    loaded: Option<&Loaded>,
) -> Wrong {
    let log = Log {
        parts,
        limit: loaded.and_then(|loaded| {
            let durable = &loaded.durable;
            durable.active().map(|active| (active.id(), durable.end))
        }),
        is_lossy: !walker.gaps.is_empty(),
    };
    let seen = |place: usize| walker.stands.get(place).and_then(|stand| stand.seen);
    let end = log.wrong_end(sources, seen(0));
    let watermark = log.wrong_watermark(sources, seen(1));
    let found = walker.checkpoint_wrong.take();
    let checkpoint = found
        .or_else(|| log.wrong_checkpoint(sources))
        .or_else(|| sources.checkpoint_damaged.clone());
    let wrong = Wrong {
        end: end.is_some(),
        watermark: watermark.is_some(),
        checkpoint: checkpoint.is_some(),
    };
    if let Some(what) = end {
        let message = format!("{what}; it is replaced at the next close");
        walker.damaged(files::END, 0, message);
    }
    if let Some(what) = watermark {
        walker.damaged(files::WATERMARK, 0, what);
    }
    if let Some(what) = checkpoint {
        let message = format!("{what}; nothing is lost by removing it, but time to open");
        walker.damaged(files::CHECKPOINT, 0, message);
    }
    wrong
}

impl Log<'_> {
    fn is_there(&self, id: SegmentId, salt: u32) -> bool {
        let is_it = |part: &Part| (part.header.segment, part.header.salt) == (id, salt);
        self.parts.iter().any(is_it)
    }

    fn is_beyond(&self, place: (SegmentId, u64)) -> bool {
        self.limit.is_some_and(|limit| place > limit)
    }

    fn wrong_end(&self, sources: &Sources, seen: Option<Seen>) -> Option<String> {
        let end = sources
            .end
            .filter(|end| !self.is_beyond((end.segment, end.offset)));
        let Some(end) = end else {
            return sources.end_damaged.clone();
        };
        if !self.is_there(end.segment, end.salt) {
            return Some(names_another(end.segment));
        }
        let Some(seen) = seen else {
            return Some(no_batch_ends(end.segment, end.offset));
        };
        if seen.is_behind_loss {
            let is_right = end.last_record == seen.last_record;
            return (!is_right).then(|| match end.last_record {
                Some((offset, _)) => {
                    format!("the last record that it names, at offset {offset}, is lost")
                }
                None => "it says that the last segment has no record, and there is one".to_owned(),
            });
        }
        let facts = (end.next_position, end.last_record);
        let is_right = facts == (seen.next_position, seen.last_record) && end.epoch >= seen.epoch;
        (!is_right).then(|| {
            format!(
                "it says {facts:?} and epoch {}, expected {seen:?}",
                end.epoch
            )
        })
    }

    fn wrong_watermark(&self, sources: &Sources, seen: Option<Seen>) -> Option<String> {
        let mark = sources
            .watermark
            .filter(|mark| mark.segment.0 != 0 && !self.is_beyond((mark.segment, mark.offset)))?;
        let Some(seen) = seen else {
            return Some(no_batch_ends(mark.segment, mark.offset));
        };
        let is_right =
            mark.position.checked_add(1) == Some(seen.next_position) && mark.epoch >= seen.epoch;
        let is_lost = seen.is_behind_loss || self.is_lossy && mark.position < seen.next_position;
        (!is_right && !is_lost).then(|| {
            format!(
                "it says position {} and epoch {}, expected {seen:?}",
                mark.position, mark.epoch
            )
        })
    }

    /// What is wrong with a checkpoint that was met nowhere on the way.
    fn wrong_checkpoint(&self, sources: &Sources) -> Option<String> {
        let end = sources.checkpoint.as_ref()?.end;
        let id = SegmentId(end.segment);
        if !self.is_there(id, end.salt) {
            return Some(names_another(id));
        }
        let is_checked = !self.is_beyond((id, end.offset)) && !self.is_lossy;
        is_checked.then(|| no_batch_ends(id, end.offset))
    }
}

fn no_batch_ends(segment: SegmentId, offset: u64) -> String {
    let name = files::segment_name(segment);
    format!("no batch ends at offset {offset} of {name}")
}

fn names_another(segment: SegmentId) -> String {
    let name = files::segment_name(segment);
    format!("it names another {name} than the one that is there")
}
