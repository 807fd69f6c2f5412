//! [`pack_heads`]: the heads of many events, in columns; [`pack_found`]: positions.
//!
//! ```text
//!  0  how many events there are, n, u32; how many tool calls they are or answer, m, u32
//!  8  where the next page begins, f64; 0 for an empty page
//! 16  how many streams they are of, s, u32; how many tell what they cost, u, u32
//! 24  bytes of the names, u32; bytes of the ids, u32
//! 32  columns of f64: n positions, n times of recording, n times of happening (NaN where that is the same),
//!     u input tokens, u output tokens, u costs
//!     columns of u32: n sequences, n streams by their number here, n lengths of contents, n steps, n names by their number
//!     here (of steps and names the highest number is none), n ends of their calls among all, m ends of ids among all in
//!     UTF-16, u events by their number here, u hashes of the ids of what they are parts of (0 for none)
//!     a column of f32: m durations in milliseconds, NaN for none
//!     columns of u8: n kinds, n flags (1 redacted, 2 continuation, 4 silent, 8 says more), m flags (1 has an id, 2 failed)
//!     s stream ids of 16 bytes, the names as a JSON array, the ids one after the other
//!     the records that are no events of contexts, as `pack_records` does it
//! ```

use std::{collections::HashMap, hash::Hash};

use runlog::{
    log::Position,
    scan::{HeadsPage, SearchPage},
};

use super::pack_records;

const NONE: u32 = u32::MAX;

/// Packs a page of heads.
pub(crate) fn pack_heads(page: &HeadsPage) -> Vec<u8> {
    let mut columns = Columns::default();
    let (mut streams, mut names) = (Numbers::default(), Numbers::default());
    let (mut calls, mut id_units, mut ids) = (0, 0, String::new());
    for (index, event) in page.events.iter().enumerate() {
        let summary = &event.summary;
        columns.positions.push(event.position as f64);
        columns.recorded.push(event.recorded_ms as f64);
        let happened = summary.happened_ms.map_or(f64::NAN, |ms| ms as f64);
        columns.happened.push(happened);
        columns.sequences.push(number(event.sequence));
        columns.streams.push(streams.of(&event.stream));
        columns.contents.push(number(event.content_bytes as u64));
        columns.steps.push(summary.step.unwrap_or(NONE));
        let name = summary.tool_name.as_ref();
        columns.names.push(name.map_or(NONE, |name| names.of(name)));
        for tool in &summary.tools {
            calls += 1;
            let id = tool.tool_call_id.as_deref();
            ids.push_str(id.unwrap_or_default());
            id_units += id.map_or(0, |id| id.encode_utf16().count() as u64);
            columns.id_ends.push(number(id_units));
            let duration = tool.duration_ms.map_or(f32::NAN, |ms| ms as f32);
            columns.durations.push(duration);
            let flags = u8::from(id.is_some()) | u8::from(tool.is_error) << 1;
            columns.call_flags.push(flags);
        }
        columns.call_ends.push(number(calls));
        if let Some(usage) = summary.usage {
            columns.usage_events.push(number(index as u64));
            columns.input_tokens.push(usage.input_tokens);
            columns.output_tokens.push(usage.output_tokens);
            columns.costs.push(usage.cost);
            columns.answers.push(usage.answer_hash);
        }
        columns.kinds.push(event.kind.byte());
        let silent = u8::from(summary.is_silent) << 2;
        let more = u8::from(summary.says_more) << 3;
        let continuation = u8::from(summary.is_continuation) << 1;
        columns
            .flags
            .push(u8::from(event.redacted) | continuation | silent | more);
    }
    let names = serde_json::to_vec(&names.items).unwrap_or_else(|_| b"[]".to_vec());
    let next = page.next.map_or(0, |next| next.0);
    let mut bytes = Vec::with_capacity(48 + page.events.len() * 64);
    for count in [page.events.len(), columns.call_flags.len()] {
        bytes.extend(number(count as u64).to_le_bytes());
    }
    bytes.extend((next as f64).to_le_bytes());
    let usages = columns.costs.len();
    for count in [streams.items.len(), usages, names.len(), ids.len()] {
        bytes.extend(number(count as u64).to_le_bytes());
    }
    columns.write(&mut bytes);
    for stream in &streams.items {
        bytes.extend(stream.as_bytes());
    }
    bytes.extend(names);
    bytes.extend(ids.as_bytes());
    bytes.extend(pack_records(&page.others, next));
    bytes
}

/// Packs the result of a search: the position of the next page (0 at the end), then the positions found, all as f64.
pub(crate) fn pack_found(page: &SearchPage) -> Vec<u8> {
    let next = page.next.unwrap_or(Position(0));
    [next]
        .iter()
        .chain(&page.found)
        .flat_map(|position| (position.0 as f64).to_le_bytes())
        .collect()
}

#[derive(Default)]
struct Columns {
    positions: Vec<f64>,
    recorded: Vec<f64>,
    happened: Vec<f64>,
    input_tokens: Vec<f64>,
    output_tokens: Vec<f64>,
    costs: Vec<f64>,
    sequences: Vec<u32>,
    streams: Vec<u32>,
    contents: Vec<u32>,
    steps: Vec<u32>,
    names: Vec<u32>,
    call_ends: Vec<u32>,
    id_ends: Vec<u32>,
    usage_events: Vec<u32>,
    answers: Vec<u32>,
    durations: Vec<f32>,
    kinds: Vec<u8>,
    flags: Vec<u8>,
    call_flags: Vec<u8>,
}

impl Columns {
    fn write(&self, bytes: &mut Vec<u8>) {
        let wide = [
            &self.positions,
            &self.recorded,
            &self.happened,
            &self.input_tokens,
            &self.output_tokens,
            &self.costs,
        ];
        for column in wide {
            bytes.extend(column.iter().flat_map(|value| value.to_le_bytes()));
        }
        let narrow = [
            &self.sequences,
            &self.streams,
            &self.contents,
            &self.steps,
            &self.names,
            &self.call_ends,
            &self.id_ends,
            &self.usage_events,
            &self.answers,
        ];
        for column in narrow {
            bytes.extend(column.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes.extend(self.durations.iter().flat_map(|value| value.to_le_bytes()));
        for column in [&self.kinds, &self.flags, &self.call_flags] {
            bytes.extend(column);
        }
    }
}

/// Assigns numbers to items in the order of their first occurrence.
struct Numbers<T> {
    items: Vec<T>,
    known: HashMap<T, u32>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            known: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn of(&mut self, item: &T) -> u32 {
        if let Some(known) = self.known.get(item) {
            return *known;
        }
        let new = number(self.items.len() as u64);
        self.items.push(item.clone());
        self.known.insert(item.clone(), new);
        new
    }
}

/// A page has a few MiB at most; larger values are capped.
fn number(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
