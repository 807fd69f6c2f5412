//! The files of a folder that may hold records.

use crate::{Error, Result, SegmentId, format::files::SegmentFile, limits, storage::Storage};

/// A file that may hold records, and which part of which segment it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) segment: SegmentId,
    /// What was cut comes behind what is there.
    pub(super) is_cut: bool,
    pub(super) offset: u64,
    pub(super) name: String,
    /// What its name says that it stands for, unless it was cut.
    pub(super) named: Option<SegmentFile>,
}

impl Place {
    /// The whole of a file with this name.
    pub(super) fn of(name: String, named: SegmentFile) -> Self {
        Self {
            segment: named.first,
            is_cut: false,
            offset: 0,
            name,
            named: Some(named),
        }
    }
}

pub(super) fn places(storage: &dyn Storage) -> Result<Vec<Place>> {
    let names = storage.list().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("no folder {}", storage.describe()))
        }
        _ => Error::from_io(error, format!("listing {}", storage.describe())),
    })?;
    let mut places: Vec<_> = names.into_iter().filter_map(place_of).collect();
    runlog_log::order::sort(&mut places);
    Ok(places)
}

fn place_of(name: String) -> Option<Place> {
    if let Some(named) = SegmentFile::of_name(&name) {
        return Some(Place::of(name, named));
    }
    let mut numbers = name.strip_prefix("cut-")?.strip_suffix(".bin")?.split('-');
    let (segment, offset) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let is_possible = offset <= limits::SEGMENT_BYTES_MAX && offset % 8 == 0;
    is_possible.then_some(Place {
        segment: SegmentId(segment),
        is_cut: true,
        offset,
        name,
        named: None,
    })
}
