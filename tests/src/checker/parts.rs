//! Which files are the log: segments, and packs that stand for some of them.

use std::collections::BTreeMap;

use super::{Files, Problem};

/// A file that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    /// The segment that it is, or the first and the last one that it replaces.
    pub(super) from: u32,
    pub(super) to: u32,
    /// 0 for a segment of the log.
    pub(super) generation: u32,
}

impl Part {
    pub(super) fn is_pack(&self) -> bool {
        self.generation > 0
    }

    /// What a file's name says; each number has one name only.
    fn named(name: &str) -> Option<Self> {
        let part = if let Some(digits) = name.strip_suffix(".seg") {
            let id = digits.parse().ok()?;
            Self {
                name: format!("{id:08}.seg"),
                from: id,
                to: id,
                generation: 0,
            }
        } else {
            let (range, generation) = name.strip_suffix(".pack")?.split_once('.')?;
            let (from, to) = range.split_once('-')?;
            let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
            let generation: u32 = generation.parse().ok().filter(|number| *number > 0)?;
            Self {
                name: format!("{from:08}-{to:08}.{generation}.pack"),
                from,
                to,
                generation,
            }
        };
        (part.name == name && part.from > 0 && part.from <= part.to).then_some(part)
    }
}

/// The files that count, in order; and the names that the page doesn't list.
pub(super) fn choose(files: &Files) -> Result<(Vec<Part>, Vec<String>), Problem> {
    let mut found = Vec::new();
    let mut unlisted = Vec::new();
    for name in files.keys() {
        let cut = name.starts_with("cut-") && name.ends_with(".bin");
        let known = ["RUNLOG", "END", "CHECKPOINT", "WATERMARK", "LOCK"].contains(&name.as_str());
        match Part::named(name) {
            Some(part) => found.push(part),
            None if known || cut || name.ends_with(".tmp") => {}
            None => unlisted.push(name.clone()),
        }
    }
    // Those of the highest generation first: what they cover of others is a leftover.
    found.sort_by_key(|part| std::cmp::Reverse(part.generation));
    let mut counting: BTreeMap<u32, Part> = BTreeMap::new();
    for part in found {
        let overlapping = counting
            .range(..=part.to)
            .next_back()
            .map(|(_, over)| over)
            .filter(|over| over.to >= part.from);
        match overlapping {
            None => drop(counting.insert(part.from, part)),
            Some(over)
                if over.generation > part.generation
                    && over.from <= part.from
                    && part.to <= over.to => {}
            Some(over) => {
                let message = format!("its range overlaps that of {}, but is not in it", over.name);
                return Err(Problem::new(&part.name, 0, message));
            }
        }
    }
    let mut next = 1_u32;
    for part in counting.values() {
        if part.from != next {
            let message = format!("segment {next} is missing");
            return Err(Problem::new(&part.name, 0, message));
        }
        next = part.to.saturating_add(1);
    }
    let parts: Vec<Part> = counting.into_values().collect();
    match parts.last().filter(|last| last.is_pack()) {
        Some(last) => Err(Problem::new(
            &last.name,
            0,
            format!("segment {next} is missing: the last one is never replaced"),
        )),
        None => Ok((parts, unlisted)),
    }
}
