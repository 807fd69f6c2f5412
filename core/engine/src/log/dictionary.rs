//! The dictionary of a pack: what its records have in common, so that Zstandard needn't store it in each block again.
//!
//! Its bytes have the format of Zstandard's own (RFC 8878, section 5). [`Dictionary`] decodes with one, and [`train`] makes one where the
//! library can be built that does.

use crate::format::pack::DICTIONARY_BYTES_MAX;

/// The level that Zstandard encodes with: the next ones take twice as long for a tenth less.
#[cfg(not(target_family = "wasm"))]
pub(super) const ZSTD_LEVEL: i32 = 3;

/// The magic of a dictionary. Zstandard treats other bytes as a raw content dictionary; here they are damage.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// A dictionary, prepared once for all blocks that are decoded with it.
pub(crate) struct Dictionary {
    #[cfg(not(target_family = "wasm"))]
    prepared: zstd::dict::DecoderDictionary<'static>,
    #[cfg(target_family = "wasm")]
    decoder: portable::Decoder,
}

impl Dictionary {
    /// The dictionary of these bytes; `None` when they are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&MAGIC) || !(8..=DICTIONARY_BYTES_MAX).contains(&bytes.len()) {
            return None;
        }
        Some(Self {
            #[cfg(not(target_family = "wasm"))]
            prepared: zstd::dict::DecoderDictionary::try_copy(bytes).ok()?,
            #[cfg(target_family = "wasm")]
            decoder: portable::Decoder::new(bytes)?,
        })
    }

    /// A block that was encoded with it, which has at most `raw_bytes`.
    pub(super) fn decode_block(&self, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
        #[cfg(not(target_family = "wasm"))]
        return zstd::bulk::Decompressor::with_prepared_dictionary(&self.prepared)
            .and_then(|mut decoder| decoder.decompress(stored, raw_bytes))
            .ok();
        #[cfg(target_family = "wasm")]
        return self.decoder.decode(stored, raw_bytes);
    }
}

/// How many runs of records samples are.
pub(crate) const RUNS: u64 = 16;
/// The most bytes of one run.
pub(crate) const RUN_BYTES: u64 = 256 << 10;
/// One run in this many is held back from training, to evaluate the dictionary.
#[cfg(not(target_family = "wasm"))]
const RUNS_PER_TRIAL: usize = 8;
/// Twice this size saves 5 % with conversations, but training then takes longer than compressing everything.
#[cfg(not(target_family = "wasm"))]
const MADE_BYTES_MAX: u64 = 256 << 10;
/// A dictionary is at most this fraction of the bytes it is made for.
#[cfg(not(target_family = "wasm"))]
const PART: u64 = 64;
/// No dictionary is made for less than this, which is one or two blocks.
#[cfg(not(target_family = "wasm"))]
const REPRESENTED_BYTES_MIN: u64 = 256 << 10;

/// Sampled bodies of records to train a dictionary: runs of consecutive ones.
#[derive(Default)]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    /// How long each body is.
    lengths: Vec<usize>,
    /// Where the runs begin, among the bodies and in the bytes.
    runs: Vec<(usize, usize)>,
    /// The size in bytes of all the data that was sampled.
    represented: u64,
}

impl Samples {
    /// Sets the size in bytes of the data that the samples represent.
    pub(crate) fn represent(&mut self, bytes: u64) {
        self.represented = bytes;
    }

    /// Starts a new run of consecutive bodies.
    pub(crate) fn begin_run(&mut self) {
        self.runs.push((self.lengths.len(), self.bytes.len()));
    }

    /// Adds the body of a record.
    pub(crate) fn add(&mut self, body: &[u8]) {
        self.bytes.extend_from_slice(body);
        self.lengths.push(body.len());
    }
}

/// Trains a dictionary, deterministically; `None` if the data wouldn't become smaller with it, counting the
/// dictionary's copies.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn train(samples: &Samples, copies: u64) -> Option<Vec<u8>> {
    if samples.represented < REPRESENTED_BYTES_MIN {
        return None;
    }
    let mut learned = (Vec::new(), Vec::new());
    let mut trials = Vec::new();
    for (nth, (first, start)) in samples.runs.iter().enumerate() {
        let next = samples.runs.get(nth + 1);
        let all = (samples.lengths.len(), samples.bytes.len());
        let (end, stop) = *next.unwrap_or(&all);
        let run = &samples.bytes[*start..stop];
        if nth % RUNS_PER_TRIAL == RUNS_PER_TRIAL / 2 {
            trials.push(run);
        } else {
            learned.0.extend_from_slice(run);
            learned.1.extend_from_slice(&samples.lengths[*first..end]);
        }
    }
    let bytes_max = usize::try_from((samples.represented / PART).min(MADE_BYTES_MAX)).ok()?;
    let dictionary = zstd::dict::from_continuous(&learned.0, &learned.1, bytes_max).ok()?;
    pays(&dictionary, &trials, samples.represented, copies)?.then_some(dictionary)
}

/// Whether the dictionary saves more than its copies take, extrapolated from these blocks.
#[cfg(not(target_family = "wasm"))]
fn pays(dictionary: &[u8], trials: &[&[u8]], represented: u64, copies: u64) -> Option<bool> {
    let mut without = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()?;
    let mut with = zstd::bulk::Compressor::with_dictionary(ZSTD_LEVEL, dictionary).ok()?;
    let cost = copies * without.compress(dictionary).ok()?.len() as u64;
    let (mut bytes, mut saved) = (0, 0);
    for trial in trials {
        bytes += trial.len() as u64;
        let plain = without.compress(trial).ok()?.len() as u64;
        saved += plain.saturating_sub(with.compress(trial).ok()?.len() as u64);
    }
    // Trials shorter than a block would overestimate the savings, so each is counted as a whole block.
    let blocks = trials.len() as u64;
    let per_block = saved.checked_div(blocks)?;
    let of_all = (represented / RUN_BYTES).max(1);
    Some(bytes > 0 && per_block * of_all > cost)
}

/// A build that can't encode Zstandard trains no dictionary.
#[cfg(target_family = "wasm")]
pub(crate) fn train(_samples: &Samples, _copies: u64) -> Option<Vec<u8>> {
    None
}

/// The decoder in pure Rust.
#[cfg(any(test, target_family = "wasm"))]
pub(super) mod portable {
    use std::sync::{Mutex, PoisonError};

    use ruzstd::decoding::{Dictionary, FrameDecoder};

    /// The largest window that a frame may request. A block's frame has a window of the block's size, which is smaller;
    /// every decoder should support 8 MiB.
    const WINDOW_BYTES_MAX: u64 = 8 << 20;

    /// A decoder with a dictionary, whose tables it copies for each block.
    pub(crate) struct Decoder(Mutex<FrameDecoder>);

    impl Decoder {
        pub(crate) fn new(dictionary: &[u8]) -> Option<Self> {
            let mut decoder = plain();
            let dictionary = Dictionary::decode_dict(dictionary).ok()?;
            decoder.add_dict(dictionary).ok()?;
            Some(Self(Mutex::new(decoder)))
        }

        pub(crate) fn decode(&self, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
            // Poisoning is harmless: each block resets the decoder's state.
            let mut decoder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all(&mut decoder, stored, raw_bytes)
        }
    }

    fn plain() -> FrameDecoder {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        decoder
    }

    fn all(decoder: &mut FrameDecoder, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
        let mut raw = vec![0; raw_bytes];
        let length = decoder.decode_all(stored, &mut raw).ok()?;
        raw.truncate(length);
        Some(raw)
    }

    /// A block that was encoded without a dictionary.
    pub(crate) fn decode(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
        all(&mut plain(), stored, raw_bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bodies of conversations: one of sixty instructions each, and words of its own.
    pub(in crate::log) fn conversations(count: u32) -> Vec<Vec<u8>> {
        let word = |number: u32| format!("{:x} ", number.wrapping_mul(2_654_435_761) >> 8);
        let of = |number: u32| {
            let instructions: String = (0..60).map(|nth| word(number % 60 * 60 + nth)).collect();
            let own: String = (0..6)
                .map(|nth| word((!number).wrapping_mul(6).wrapping_add(nth)))
                .collect();
            format!("{{\"role\":\"system\",\"content\":\"{instructions}\"}} {own}").into_bytes()
        };
        (0..count).map(of).collect()
    }

    fn samples(runs: usize, bodies: &[Vec<u8>], represented: u64) -> Samples {
        let mut samples = Samples::default();
        samples.represent(represented);
        for run in bodies.chunks(bodies.len().div_ceil(runs).max(1)) {
            samples.begin_run();
            run.iter().for_each(|body| samples.add(body));
        }
        samples
    }

    #[test]
    fn same_samples_give_the_same_dictionary_and_both_decoders_take_it() {
        let bodies = conversations(2000);
        let train = || train(&samples(16, &bodies, 4 << 20), 2).unwrap();
        let made = train();
        assert_eq!(made, train());
        assert!(made.len() as u64 <= (4 << 20) / PART);
        assert!(Dictionary::decode(&made).is_some());
        assert!(portable::Decoder::new(&made).is_some());
    }

    #[test]
    fn none_is_made_where_it_does_not_pay() {
        let bodies = conversations(2000);
        assert!(train(&samples(16, &bodies, REPRESENTED_BYTES_MIN - 1), 2).is_none());
        assert!(train(&samples(16, &[], 4 << 20), 2).is_none());
        assert!(train(&samples(1, &bodies, 4 << 20), 2).is_none());
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_le_bytes()[7]
        };
        let noise: Vec<Vec<u8>> = (0..2000)
            .map(|_| (0..700).map(|_| random()).collect())
            .collect();
        assert!(train(&samples(16, &noise, 4 << 20), 2).is_none());
    }

    #[test]
    fn what_is_no_dictionary_is_refused_and_no_changed_byte_of_one_makes_decoding_panic() {
        let huge = [&MAGIC[..], &vec![0; DICTIONARY_BYTES_MAX]].concat();
        let text = b"words that Zstandard would refer to".repeat(50);
        for bytes in [&[][..], &[0; 4096], &[0xff; 4096], &MAGIC, &text, &huge] {
            assert!(Dictionary::decode(bytes).is_none(), "{} bytes", bytes.len());
        }
        let bodies = conversations(300);
        let made = zstd::dict::from_samples(&bodies, 4096).unwrap();
        let block = bodies[..20].concat();
        let encoder = zstd::bulk::Compressor::with_dictionary(ZSTD_LEVEL, &made);
        let stored = encoder.unwrap().compress(&block).unwrap();
        // Its tables come first; behind them, any bytes will do.
        for at in 0..600 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = made.clone();
                changed[at] = value;
                if let Some(library) = Dictionary::decode(&changed) {
                    let _ = library.decode_block(&stored, block.len());
                }
                if let Some(rust) = portable::Decoder::new(&changed) {
                    let _ = rust.decode(&stored, block.len());
                }
            }
        }
        for length in 0..600 {
            let cut = &made[..length];
            drop((Dictionary::decode(cut), portable::Decoder::new(cut)));
        }
    }
}
