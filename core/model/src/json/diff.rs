//! [`TextDiff`]: a JSON text as its difference from another one.
//!
//! What the inputs of model calls and the snapshots of a space have in common is most of them: each has what the one before
//! had, and a little more. A difference names the ranges of the other text that are used again, and has the rest as text.
//!
//! **A range begins and ends between tokens of the JSON, never inside of a string or a number.** So each string of the text
//! is either whole in the difference or not in it at all. A search through the log then finds a string in the record that
//! brought it; cut strings would hide the second of two keys that begin alike.

use std::ops::Range;

use memchr::memchr2;
use serde::{Deserialize, Serialize};

use super::string_bytes;
use crate::{Error, Result};

/// How long the blocks are that are looked up in the other text.
const BLOCK_BYTES: usize = 64;
/// The multiplier of a block's first byte when it is rolled out of the hash.
const FIRST_OUT: u64 = MULTIPLIER.wrapping_pow(64);
/// The shortest range that is worth being named.
const RANGE_BYTES_MIN: usize = 48;
/// The multiplier of the rolling hash: any large odd number does.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A text as its difference from another one: as JSON, an array of ranges `[offset, length]` in bytes of the other text,
/// and of strings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TextDiff {
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Part {
    /// Offset and length in the other text.
    Same(usize, usize),
    New(String),
}

impl TextDiff {
    /// The difference of a JSON text from another one.
    pub(crate) fn between(base: &str, text: &str) -> Self {
        let mut diff = Self::default();
        if base == text {
            diff.push_same(0..text.len());
            return diff;
        }
        let cuts = Cuts::of(text);
        let (old, new) = (base.as_bytes(), text.as_bytes());
        let begin = cuts.before(common_beginning(old, new));
        let end = cuts.after(new.len() - common_end(&old[begin..], &new[begin..]));
        // Neither begins or ends inside of a character: a token in between would have to.
        let (begin, end) = (worth(begin), new.len() - worth(new.len() - end));
        let old_end = old.len() - (new.len() - end);
        diff.push_same(0..begin);
        diff.middle(base, begin..old_end, text, begin..end, &cuts);
        diff.push_same(old_end..old.len());
        diff
    }

    /// Adds the difference of the middles, the parts of both texts between their common beginning and end.
    fn middle(
        &mut self,
        base: &str,
        old: Range<usize>,
        text: &str,
        new: Range<usize>,
        cuts: &Cuts,
    ) {
        let (old_bytes, bytes) = (&base.as_bytes()[..old.end], &text.as_bytes()[..new.end]);
        let mut done = new.start;
        if old.len() >= BLOCK_BYTES && new.len() >= BLOCK_BYTES {
            let blocks = Blocks::of(old_bytes, old.start);
            let mut at = new.start;
            let mut hash = hash_of(&bytes[at..at + BLOCK_BYTES]);
            let mut hashed = at;
            while at + BLOCK_BYTES <= new.end {
                if hashed + BLOCK_BYTES < at {
                    hash = hash_of(&bytes[at..at + BLOCK_BYTES]);
                    hashed = at;
                }
                while hashed < at {
                    hash = rolled(hash, bytes[hashed], bytes[hashed + BLOCK_BYTES]);
                    hashed += 1;
                }
                let Some(found) = blocks.find(hash, &bytes[at..at + BLOCK_BYTES], old_bytes) else {
                    at += 1;
                    continue;
                };
                let length = common_beginning(&old_bytes[found..], &bytes[at..]);
                let earlier = (at - done).min(found - old.start).min(BLOCK_BYTES);
                let back = common_end(&old_bytes[found - earlier..found], &bytes[at - earlier..at]);
                let range = cuts.after(at - back)..cuts.before(at + length);
                if range.end >= range.start + RANGE_BYTES_MIN {
                    self.push_new(&text[done..range.start]);
                    let moved = found + range.start - at;
                    self.push_same(moved..moved + range.len());
                    (done, at) = (range.end, range.end);
                } else {
                    // No range begins before the next cut.
                    at = cuts.after(at + 1);
                }
            }
        }
        self.push_new(&text[done..new.end]);
    }

    fn push_same(&mut self, range: Range<usize>) {
        match self.parts.last_mut() {
            _ if range.is_empty() => {}
            Some(Part::Same(offset, length)) if *offset + *length == range.start => {
                *length += range.len();
            }
            _ => self.parts.push(Part::Same(range.start, range.len())),
        }
    }

    fn push_new(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::New(before)) => before.push_str(text),
            _ => self.parts.push(Part::New(text.to_owned())),
        }
    }

    /// The texts that aren't in the other one.
    pub(crate) fn new_texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::New(text) => Some(text.as_str()),
            Part::Same(..) => None,
        })
    }

    /// An upper bound of its size as JSON.
    pub(crate) fn json_bytes(&self) -> usize {
        let of_part = |part: &Part| match part {
            Part::Same(offset, length) => 5 + digits(*offset) + digits(*length),
            Part::New(text) => 3 + string_bytes(text),
        };
        2 + self.parts.iter().map(of_part).sum::<usize>()
    }

    /// How long the text is; `None` where a range isn't in the other text, which has `base` bytes, or the sum overflows.
    pub(crate) fn length(&self, base: usize) -> Option<usize> {
        self.parts.iter().try_fold(0usize, |sum, part| {
            let length = match part {
                Part::Same(offset, length) => {
                    offset.checked_add(*length).filter(|end| *end <= base)?;
                    *length
                }
                Part::New(text) => text.len(),
            };
            sum.checked_add(length)
        })
    }

    /// Whether the text is the other one, which has `base` bytes.
    pub(crate) fn is_same(&self, base: usize) -> bool {
        self.parts == [Part::Same(0, base)]
    }

    /// The text, from the other one.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when a range isn't in the other text, or cuts a character.
    pub(crate) fn applied_to(&self, base: &str) -> Result<String> {
        let length = self.length(base.len()).ok_or_else(not_of_this)?;
        let mut text = String::with_capacity(length);
        for part in &self.parts {
            text.push_str(match part {
                Part::Same(offset, length) => {
                    base.get(*offset..offset + length).ok_or_else(not_of_this)?
                }
                Part::New(text) => text,
            });
        }
        Ok(text)
    }
}

fn not_of_this() -> Error {
    Error::damaged("a difference names a range that the text it differs from doesn't have")
}

/// How many bytes two texts have in common at their beginnings.
fn common_beginning(one: &[u8], two: &[u8]) -> usize {
    // Blocks are compared many bytes at a time, which is several times as fast as one by one.
    let blocks = one
        .chunks_exact(BLOCK_BYTES)
        .zip(two.chunks_exact(BLOCK_BYTES));
    let same = blocks.take_while(|(a, b)| a == b).count() * BLOCK_BYTES;
    let rest = one[same..].iter().zip(&two[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// How many bytes two texts have in common at their ends.
fn common_end(one: &[u8], two: &[u8]) -> usize {
    let blocks = one
        .rchunks_exact(BLOCK_BYTES)
        .zip(two.rchunks_exact(BLOCK_BYTES));
    let same = blocks.take_while(|(a, b)| a == b).count() * BLOCK_BYTES;
    let (one, two) = (&one[..one.len() - same], &two[..two.len() - same]);
    let rest = one.iter().rev().zip(two.iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Nothing where a range of this length isn't worth being named.
fn worth(length: usize) -> usize {
    if length < RANGE_BYTES_MIN { 0 } else { length }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// The places between tokens of a JSON text, as a set of bits: beside white space and punctuation outside of strings.
struct Cuts {
    bits: Vec<u64>,
    length: usize,
}

impl Cuts {
    fn of(text: &str) -> Self {
        let length = text.len();
        let mut bits = vec![0u64; length / 64 + 1];
        let mut set = |at: usize| bits[at / 64] |= 1 << (at % 64);
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = end_of_string(bytes, at + 1),
                b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                    set(at);
                    at += 1;
                    set(at);
                }
                _ => at += 1,
            }
        }
        set(0);
        set(length);
        Self { bits, length }
    }

    /// The last one up to a place.
    fn before(&self, at: usize) -> usize {
        let at = at.min(self.length);
        let (mut word, bit) = (at / 64, at % 64);
        let mut bits = self.bits[word] & (u64::MAX >> (63 - bit));
        while bits == 0 && word > 0 {
            word -= 1;
            bits = self.bits[word];
        }
        (word * 64 + 63).saturating_sub(bits.leading_zeros() as usize)
    }

    /// The first one from a place on.
    fn after(&self, at: usize) -> usize {
        if at >= self.length {
            return self.length;
        }
        let (mut word, bit) = (at / 64, at % 64);
        let mut bits = self.bits[word] & (u64::MAX << bit);
        while bits == 0 && word + 1 < self.bits.len() {
            word += 1;
            bits = self.bits[word];
        }
        word * 64 + bits.trailing_zeros() as usize
    }
}

/// Where a string ends that is open at a place.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// The places of a text's blocks, by their hash: of blocks with one hash, the first.
struct Blocks {
    /// The offset of a block, plus 1; 0 is empty.
    table: Vec<u32>,
    shift: u32,
}

impl Blocks {
    fn of(text: &[u8], first: usize) -> Self {
        let count = (text.len() - first) / BLOCK_BYTES;
        let size = (count * 2).next_power_of_two().max(64);
        let shift = 64 - size.trailing_zeros();
        let mut blocks = Self {
            table: vec![0; size],
            shift,
        };
        for (block, place) in text[first..].chunks_exact(BLOCK_BYTES).zip(0..) {
            let slot = blocks.slot(hash_of(block));
            let offset = first + place * BLOCK_BYTES;
            if blocks.table[slot] == 0
                && let Ok(offset) = u32::try_from(offset + 1)
            {
                blocks.table[slot] = offset;
            }
        }
        blocks
    }

    fn slot(&self, hash: u64) -> usize {
        // The high bits of a product depend on all bits of the hash.
        let high = hash.wrapping_mul(MULTIPLIER) >> self.shift;
        usize::try_from(high).expect("it is less than the length of the table")
    }

    fn find(&self, hash: u64, block: &[u8], text: &[u8]) -> Option<usize> {
        let offset = (self.table[self.slot(hash)] as usize).checked_sub(1)?;
        (text.get(offset..offset + BLOCK_BYTES)? == block).then_some(offset)
    }
}

fn hash_of(block: &[u8]) -> u64 {
    block.iter().fold(0, |hash: u64, byte| {
        hash.wrapping_mul(MULTIPLIER).wrapping_add(u64::from(*byte))
    })
}

/// The hash of the block one byte further.
fn rolled(hash: u64, first: u8, next: u8) -> u64 {
    hash.wrapping_mul(MULTIPLIER)
        .wrapping_add(u64::from(next))
        .wrapping_sub(FIRST_OUT.wrapping_mul(u64::from(first)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(count: usize) -> String {
        let message = |it| {
            format!(
                r#"{{"role":"user","content":"message {it} says \"hé\\\" {}"}}"#,
                "x".repeat(it % 90)
            )
        };
        let messages: Vec<String> = (0..count).map(message).collect();
        format!(r#"{{"messages":[{}],"model":"m-1"}}"#, messages.join(","))
    }

    fn new_bytes(diff: &TextDiff) -> usize {
        diff.new_texts().map(str::len).sum()
    }

    #[test]
    fn what_is_added_is_all_that_a_difference_has() {
        let (base, text) = (messages(300), messages(301));
        let diff = TextDiff::between(&base, &text);
        assert_eq!(diff.applied_to(&base).unwrap(), text);
        assert!(new_bytes(&diff) < 150, "{diff:?}");
        let same = TextDiff::between(&base, &base);
        assert_eq!(same.parts, [Part::Same(0, base.len())]);
    }

    #[test]
    fn what_lies_between_two_changes_is_used_again() {
        let space = |count: u32, status: &str| {
            let document = messages(200);
            format!(r#"{{"attempt":{count},"document":{document},"status":"{status}","z":[1,2]}}"#)
        };
        let (base, text) = (space(9, "drafting"), space(10, "to be checked"));
        let diff = TextDiff::between(&base, &text);
        assert_eq!(diff.applied_to(&base).unwrap(), text);
        assert!(new_bytes(&diff) < 100, "{diff:?}");
    }

    #[test]
    fn strings_are_whole_in_the_difference_or_not_in_it() {
        let with = |key: &str| {
            format!(
                r#"{{"a":"{}","key":"sk-live-{key}","b":["{}"]}}"#,
                "y".repeat(200),
                "y".repeat(200)
            )
        };
        let diff = TextDiff::between(&with("AAAA1111"), &with("AAAA2222"));
        let new: Vec<&str> = diff.new_texts().collect();
        assert_eq!(new, [r#""sk-live-AAAA2222""#]);
        let number = |number: &str| format!(r#"{{"a":"{}","n":{number}}}"#, "y".repeat(200));
        let diff = TextDiff::between(&number("1234"), &number("1235"));
        assert_eq!(diff.new_texts().collect::<Vec<_>>(), ["1235}"]);
    }

    #[test]
    fn a_range_outside_of_the_text_is_damage() {
        for json in [
            "[[0,9]]",
            "[[9,1]]",
            "[[18446744073709551615,2]]",
            "[[1,1]]",
        ] {
            let diff: TextDiff = serde_json::from_str(json).unwrap();
            let error = diff.applied_to("\"é\"").unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Damaged, "{json}");
        }
    }

    #[test]
    fn long_strings_that_are_alike_cost_no_more_than_their_length() {
        let string = |end: &str| {
            format!(
                r#"{{"a":"{}{end}","b":"{}"}}"#,
                "ab".repeat(1 << 16),
                "ba".repeat(1 << 16)
            )
        };
        let (base, text) = (string("1"), string("2"));
        let diff = TextDiff::between(&base, &text);
        assert_eq!(diff.applied_to(&base).unwrap(), text);
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Into::into),
            any::<bool>().prop_map(Into::into),
            "[a-c\"\\\\é\u{1f600}]{0,60}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::hash_map("[a-e]{1,20}", inner, 0..8)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_text_comes_back_byte_for_byte(parts in prop::collection::vec(json(), 1..8), other in prop::collection::vec(json(), 0..4), at in 0usize..8, pretty in any::<bool>()) {
            let write = |values: &[serde_json::Value]| if pretty {
                serde_json::to_string_pretty(values).unwrap()
            } else {
                serde_json::to_string(values).unwrap()
            };
            let base = write(&parts);
            let mut changed = parts.clone();
            let at = at.min(changed.len());
            changed.splice(at.., other.iter().chain(&parts[at..]).cloned().collect::<Vec<_>>());
            changed.extend(parts[..at].iter().cloned());
            let text = write(&changed);
            let diff = TextDiff::between(&base, &text);
            let stored = serde_json::to_string(&diff).unwrap();
            prop_assert!(stored.len() <= diff.json_bytes());
            let read: TextDiff = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(read.length(base.len()), Some(text.len()));
            prop_assert_eq!(read.applied_to(&base).unwrap(), text);
            // Each piece of new text lies between tokens: its strings are closed.
            for new in diff.new_texts() {
                prop_assert!(Cuts::of(new).bits.len() > new.len() / 64);
                let quotes = Cuts::closed(new);
                prop_assert!(quotes, "{}", new);
            }
        }
    }

    impl Cuts {
        /// Whether no string is open at the end of a text.
        fn closed(text: &str) -> bool {
            let mut in_string = false;
            let mut bytes = text.bytes();
            while let Some(byte) = bytes.next() {
                match byte {
                    b'"' => in_string = !in_string,
                    b'\\' if in_string => drop(bytes.next()),
                    _ => {}
                }
            }
            !in_string
        }
    }
}
