//! What is stored: events as agents write them, JSON text of some kilobytes, the same in every run.

use runlog_benches::workload::Random;

/// The size of an event of the plain rows.
pub const EVENT_BYTES: usize = 1024;
/// So many different events are made before they repeat: more than any store's window of compression holds.
const POOL: u64 = 10_000;

const SYLLABLES: [&str; 64] = [
    "a", "con", "ti", "the", "re", "file", "in", "er", "to", "an", "de", "s", "en", "tion", "is",
    "test", "of", "al", "it", "ro", "for", "ar", "no", "ex", "pre", "ate", "line", "or", "be",
    "un", "log", "par", "on", "run", "le", "ing", "as", "code", "ver", "so", "me", "out", "pro",
    "tool", "ed", "ma", "sub", "sta", "tus", "er", "ror", "path", "name", "by", "up", "data", "at",
    "per", "form", "not", "we", "can", "will", "ly",
];

/// Words of a text: few of them often, many seldom.
fn words(random: &mut Random, text: &mut String, bytes: usize) {
    while text.len() < bytes {
        let number = random.next();
        // The lower of two draws: the first syllables come more often.
        let pick = |from: u64| SYLLABLES[((from % 64).min((from >> 6) % 64)) as usize];
        text.push_str(pick(number));
        if number & (1 << 40) == 0 {
            text.push_str(pick(number >> 16));
        }
        text.push(if number & (7 << 50) == 0 { ',' } else { ' ' });
    }
    text.truncate(bytes);
}

/// An event of so many bytes.
pub fn event(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let (id, kind) = (
        random.next(),
        ["user", "assistant", "tool"][(seed % 3) as usize],
    );
    let mut text = format!("{{\"id\":\"{id:016x}\",\"role\":\"{kind}\",\"text\":\"");
    words(&mut random, &mut text, bytes.saturating_sub(2));
    text.push_str("\"}");
    text.into_bytes()
}

/// The events of the plain rows, over and over.
pub struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub fn new() -> Self {
        Self((0..POOL).map(|seed| event(seed, EVENT_BYTES)).collect())
    }

    pub fn event(&self, number: u64) -> &[u8] {
        &self.0[(number % POOL) as usize]
    }

    /// So many in a row.
    pub fn batch(&self, number: u64, count: u64) -> Vec<&[u8]> {
        (number..number + count)
            .map(|number| self.event(number))
            .collect()
    }
}

/// The size of a message in a conversation: what people say is short, what tools give back is long.
pub fn message_bytes(number: u64) -> usize {
    let mut random = Random::new(number.wrapping_mul(31));
    let draw = (random.next() % 1000) as usize;
    match number % 4 {
        0 => 120 + draw / 4,
        1 => 300 + draw * 2,
        2 => 160 + draw / 3,
        _ => 500 + draw * draw / 150,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_of_json_of_their_size() {
        for seed in 0..100 {
            let event = event(seed, EVENT_BYTES);
            assert_eq!(event.len(), EVENT_BYTES);
            assert!(serde_json::from_slice::<serde_json::Value>(&event).is_ok());
        }
    }
}
