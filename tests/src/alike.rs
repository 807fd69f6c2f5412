//! Records that have much in common, as conversations of agents do: enough of them become packs with a dictionary.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use runlog_engine::{CompactOptions, CompactScope, Expected, Label, NewRecord, OpenOptions, Store};

use crate::{checker::Files, faulty::FaultyStorage, processes::stream};

/// How many messages become a pack with a dictionary.
pub const ENOUGH: u64 = 4000;
/// Where the incompatible features stand in a header, and the bit of them that says that a pack has a dictionary.
const FEATURES: usize = 88;
const DICTIONARY: u8 = 1 << 4;

/// A message: one of forty instructions, and words of its own.
pub fn message(number: u64) -> String {
    let word = |nth: u64| format!("{:x} ", nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44);
    let instructions: String = (0..120).map(|nth| word(number % 40 * 120 + nth)).collect();
    let own: String = (0..9).map(|nth| word(!number ^ nth << 20)).collect();
    format!("{{\"role\":\"system\",\"content\":\"{instructions}\"}} {own}")
}

/// Appends so many messages to 27 streams, with one of some labels each.
pub fn fill(store: &Store, first_stream: u64, count: u64, labels: u64) {
    for number in 0..count {
        let text = message(number);
        let labels = [Label(number % labels)];
        let record = NewRecord {
            labels: &labels,
            ..NewRecord::data(text.as_bytes())
        };
        store
            .append(stream(first_stream + number % 27), Expected::Any, &[record])
            .unwrap();
    }
}

/// The files of a closed store, one pack of which has a dictionary; and the name of that.
pub fn packed(options: OpenOptions, labels: u64) -> (Files, String) {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    fill(&store, 0, ENOUGH, labels);
    let all = CompactOptions {
        scope: CompactScope::All,
        ..CompactOptions::default()
    };
    store.compact(all).unwrap();
    store.close().unwrap();
    let files = storage.files();
    let name = pack_of(&files).unwrap();
    assert!(has_dictionary(&files[&name]));
    (files, name)
}

/// The first pack among the files of a store.
pub fn pack_of(files: &Files) -> Option<String> {
    files.keys().find(|name| name.ends_with(".pack")).cloned()
}

/// Whether the header of a pack says that it has a dictionary.
pub fn has_dictionary(pack: &[u8]) -> bool {
    pack[FEATURES] & DICTIONARY != 0
}

/// Where the two copies of a pack's dictionary lie in its file.
pub fn dictionaries(pack: &[u8]) -> [std::ops::Range<usize>; 2] {
    let number = |at: usize| u32::from_le_bytes(pack[at..at + 4].try_into().unwrap()) as usize;
    let table = number(pack.len() - 40);
    let length = number(table) * 8 - 4096;
    [4096..4096 + length, table - length..table]
}
