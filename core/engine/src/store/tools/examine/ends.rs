//! Compares the end marker, the watermark and the checkpoint with the log at the places they name.

use super::{
    examiner::{Part, Wrong},
    sources::Sources,
    stand::Stand,
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

/// Reports those that don't match the log. With an active writer, only its published records can be checked.
pub(super) fn check(
    walker: &mut Walker,
    sources: &mut Sources,
    parts: &[Part],
    loaded: Option<&Loaded>,
) -> Wrong {
    let is_there = |id: SegmentId, salt: u32| {
        parts
            .iter()
            .any(|part| (part.header.segment, part.header.salt) == (id, salt))
    };
    let limit = loaded.and_then(|loaded| {
        loaded
            .durable
            .active()
            .map(|active| (active.id(), loaded.durable.end))
    });
    let is_beyond = |place: (SegmentId, u64)| limit.is_some_and(|limit| place > limit);
    let is_lossy = !walker.gaps.is_empty();
    let seen: Vec<_> = walker.stands.iter().map(|stand| stand.seen).collect();
    let mut wrong = Wrong::default();
    let end = sources
        .end
        .filter(|end| !is_beyond((end.segment, end.offset)));
    let what = match (end, seen[0]) {
        (Some(end), _) if !is_there(end.segment, end.salt) => Some(names_another(end.segment)),
        (Some(end), Some(seen)) if !seen.is_behind_loss => {
            let facts = (end.next_position, end.last_record);
            let is_right =
                facts == (seen.next_position, seen.last_record) && end.epoch >= seen.epoch;
            (!is_right).then(|| {
                format!(
                    "it says {facts:?} and epoch {}, expected {seen:?}",
                    end.epoch
                )
            })
        }
        (Some(end), Some(seen)) => {
            let is_right = end.last_record == seen.last_record;
            (!is_right).then(|| match end.last_record {
                Some((offset, _)) => {
                    format!("the last record that it names, at offset {offset}, is lost")
                }
                None => "it says that the last segment has no record, and there is one".to_owned(),
            })
        }
        (Some(end), None) => Some(no_batch_ends(end.segment, end.offset)),
        _ => sources.end_damaged.clone(),
    };
    if let Some(what) = what {
        wrong.end = true;
        walker.damaged(
            files::END,
            0,
            format!("{what}; it is replaced at the next close"),
        );
    }
    let watermark = sources
        .watermark
        .filter(|mark| mark.segment.0 != 0 && !is_beyond((mark.segment, mark.offset)));
    let what = watermark.and_then(|mark| match seen[1] {
        Some(seen)
            if mark.position.checked_add(1) == Some(seen.next_position)
                && mark.epoch >= seen.epoch =>
        {
            None
        }
        Some(seen) if seen.is_behind_loss || is_lossy && mark.position < seen.next_position => None,
        Some(seen) => Some(format!(
            "it says position {} and epoch {}, expected {seen:?}",
            mark.position, mark.epoch
        )),
        None => Some(no_batch_ends(mark.segment, mark.offset)),
    });
    if let Some(what) = what {
        wrong.watermark = true;
        walker.damaged(files::WATERMARK, 0, what);
    }
    let place = sources
        .checkpoint
        .as_ref()
        .map(|saved| (SegmentId(saved.end.segment), saved.end.offset));
    let unreached = place.filter(|place| !is_beyond(*place) && !is_lossy);
    let unreached = unreached.map(|(id, offset)| no_batch_ends(id, offset));
    let named = sources
        .checkpoint
        .as_ref()
        .map(|saved| (SegmentId(saved.end.segment), saved.end.salt));
    let unreached = match named.filter(|(id, salt)| !is_there(*id, *salt)) {
        Some((id, _)) => Some(names_another(id)),
        None => unreached,
    };
    let what = walker
        .checkpoint_wrong
        .take()
        .or(unreached)
        .or_else(|| sources.checkpoint_damaged.clone());
    if let Some(what) = what {
        wrong.checkpoint = true;
        walker.damaged(
            files::CHECKPOINT,
            0,
            format!("{what}; nothing is lost by removing it, but time to open"),
        );
    }
    wrong
}

fn no_batch_ends(segment: SegmentId, offset: u64) -> String {
    let name = files::segment_name(segment);
    format!("no batch ends at offset {offset} of {name}")
}

fn names_another(segment: SegmentId) -> String {
    let name = files::segment_name(segment);
    format!("it names another {name} than the one that is there")
}
