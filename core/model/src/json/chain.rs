//! [`TextChain`] decides which earlier text each of a series of texts is saved as the difference from.
//!
//! If each differed from the one before, the last of a thousand would need all of them to be read. If each differed from
//! the first, the differences would grow. So they form levels, as the digits of the text's number to the base 16 say:
//! number 0x123 differs from 0x122, 0x120 from 0x110, 0x100 from the first.
//!
//! ```text
//! 00 <- 01 <- 02 ... <- 0f        a text of n needs at most 15 differences for each digit of n,
//! 00 <- 10 <- 11 ... <- 1f        and all n texts take n · log n of what one adds
//!       10 <- 20 <- 21 ...
//! ```

use super::{RawJson, diff::TextDiff};

/// Shorter texts are always saved whole.
const TEXT_BYTES_MIN: usize = 512;
/// The base of the levels.
const TEXTS_PER_LEVEL: u64 = 16;

/// A series of texts, each with an id by which it is found again.
#[derive(Clone, Debug)]
pub(crate) struct TextChain<Id> {
    /// How many texts it has.
    count: u64,
    first: Option<Kept<Id>>,
    /// The last text whose number ends with so many zeros as the place says, to the base 16. Where there is none, it is
    /// the first.
    levels: Vec<Kept<Id>>,
}

#[derive(Clone, Debug)]
struct Kept<Id> {
    id: Id,
    text: RawJson,
}

impl<Id> Default for TextChain<Id> {
    fn default() -> Self {
        Self {
            count: 0,
            first: None,
            levels: Vec::new(),
        }
    }
}

impl<Id: Clone> TextChain<Id> {
    /// How many bytes its texts keep in memory, at most: two of them may be one.
    pub(crate) fn bytes(&self) -> usize {
        self.texts().map(<[u8]>::len).sum()
    }

    /// The texts that it keeps, some of which may be the same one in memory.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let kept = self.levels.iter().chain(&self.first);
        kept.map(|kept| kept.text.as_bytes())
    }

    /// Which earlier text the next one is saved as the difference from, and that difference; `None` where it is saved whole.
    pub(crate) fn next(&mut self, id: Id, text: &RawJson) -> Option<(Id, TextDiff)> {
        if text.as_bytes().len() < TEXT_BYTES_MIN {
            return None;
        }
        let before = self.levels.first();
        if let Some(before) = before.filter(|before| before.text == *text) {
            // It isn't put into the chain, so that unchanged texts don't lengthen it.
            return Some(before.diff_of(text));
        }
        let level = level_of(self.count);
        let base = self.levels.get(level).or(self.first.as_ref());
        let found = base.map(|base| base.diff_of(text));
        let whole_bytes = text.as_bytes().len();
        let worth = found.filter(|(_, diff)| diff.json_bytes() < whole_bytes / 4 * 3);
        let kept = Kept {
            id,
            text: text.clone(),
        };
        if worth.is_some() {
            let levels = self.levels.len().max(level + 1);
            self.levels.resize(levels, kept.clone());
            self.levels[..=level].fill(kept);
            self.count += 1;
        } else {
            *self = Self {
                count: 1,
                levels: vec![kept.clone()],
                first: Some(kept),
            };
        }
        worth
    }
}

impl<Id: Clone> Kept<Id> {
    fn diff_of(&self, text: &RawJson) -> (Id, TextDiff) {
        let diff = TextDiff::between(self.text.as_str(), text.as_str());
        (self.id.clone(), diff)
    }
}

/// How many zeros a number ends with, to the base of the levels.
fn level_of(mut number: u64) -> usize {
    let mut level = 0;
    while number > 0 && number.is_multiple_of(TEXTS_PER_LEVEL) {
        number /= TEXTS_PER_LEVEL;
        level += 1;
    }
    level
}
