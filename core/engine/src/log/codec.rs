//! Encoding and decoding the bytes of a block.
//!
//! LZ4 and the decoding of Zstandard are Rust alone, so that a store opens everywhere it is carried to. Zstandard is encoded,
//! and decoded faster, by the library itself where that can be built.

use std::io;

use super::dictionary::Dictionary;
#[cfg(not(target_family = "wasm"))]
use super::dictionary::ZSTD_LEVEL;
#[cfg(target_family = "wasm")]
use super::dictionary::portable;
use crate::format::pack::{Encoding, RATIO_MAX};

/// Whether this build can encode this way.
pub(crate) const fn can_encode(encoding: Encoding) -> bool {
    !matches!(encoding, Encoding::Zstd) || cfg!(not(target_family = "wasm"))
}

/// Encodes blocks, all of a pack alike.
pub(crate) struct Encoder {
    encoding: Encoding,
    #[cfg(not(target_family = "wasm"))]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// The same with the dictionary.
    #[cfg(not(target_family = "wasm"))]
    zstd_with_dictionary: Option<zstd::bulk::Compressor<'static>>,
}

impl Encoder {
    /// An encoder, with a dictionary if there is one.
    pub(crate) fn new(encoding: Encoding, dictionary: Option<&[u8]>) -> io::Result<Self> {
        #[cfg(target_family = "wasm")]
        let _ = dictionary;
        #[cfg(not(target_family = "wasm"))]
        let is_zstd = encoding == Encoding::Zstd;
        Ok(Self {
            encoding,
            #[cfg(not(target_family = "wasm"))]
            zstd: is_zstd
                .then(|| zstd::bulk::Compressor::new(ZSTD_LEVEL))
                .transpose()?,
            #[cfg(not(target_family = "wasm"))]
            zstd_with_dictionary: dictionary
                .filter(|_| is_zstd)
                .map(|bytes| zstd::bulk::Compressor::with_dictionary(ZSTD_LEVEL, bytes))
                .transpose()?,
        })
    }

    /// The encoded bytes, with the encoding that was used: plain if encoding doesn't make them smaller.
    pub(crate) fn encode(&mut self, raw: &[u8], with_dictionary: bool) -> (Encoding, Vec<u8>) {
        let fewest = raw.len() / RATIO_MAX as usize;
        let is_allowed = |stored: &Vec<u8>| stored.len() < raw.len() && stored.len() > fewest;
        #[cfg(not(target_family = "wasm"))]
        {
            let with = self.zstd_with_dictionary.as_mut();
            let encoded = match (with.filter(|_| with_dictionary), self.zstd.as_mut()) {
                (Some(with), _) => Some((Encoding::ZstdDictionary, with.compress(raw))),
                (None, Some(without)) => Some((Encoding::Zstd, without.compress(raw))),
                (None, None) => None,
            };
            if let Some((encoding, Ok(stored))) = encoded {
                if is_allowed(&stored) {
                    return (encoding, stored);
                }
                // Only uniform bytes exceed the ratio that the format allows. LZ4 stays within it.
                if stored.len() >= raw.len() {
                    return (Encoding::Raw, raw.to_vec());
                }
            }
        }
        #[cfg(target_family = "wasm")]
        let _ = with_dictionary;
        let lz4 = (self.encoding != Encoding::Raw)
            .then(|| lz4_flex::block::compress(raw))
            .filter(is_allowed);
        match lz4 {
            Some(stored) => (Encoding::Lz4, stored),
            None => (Encoding::Raw, raw.to_vec()),
        }
    }
}

/// The raw bytes, exactly `raw_bytes` of them; `None` if the bytes don't decode to that length, or need a dictionary
/// that isn't given. No more than that is allocated, whatever the bytes claim.
pub(crate) fn decode(
    encoding: Encoding,
    stored: &[u8],
    raw_bytes: usize,
    dictionary: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    let decoded = match encoding {
        Encoding::Raw => stored.to_vec(),
        Encoding::Lz4 => {
            let mut raw = vec![0; raw_bytes];
            let length = lz4_flex::block::decompress_into(stored, &mut raw).ok()?;
            raw.truncate(length);
            raw
        }
        #[cfg(not(target_family = "wasm"))]
        Encoding::Zstd => zstd::bulk::decompress(stored, raw_bytes).ok()?,
        #[cfg(target_family = "wasm")]
        Encoding::Zstd => portable::decode(stored, raw_bytes)?,
        Encoding::ZstdDictionary => dictionary?.decode_block(stored, raw_bytes)?,
    };
    (decoded.len() == raw_bytes).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::dictionary::{portable, tests::conversations};

    const ALL: [Encoding; 4] = [
        Encoding::Raw,
        Encoding::Lz4,
        Encoding::Zstd,
        Encoding::ZstdDictionary,
    ];

    fn samples() -> Vec<Vec<u8>> {
        let random: Vec<u8> = (0..10_000_u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
            .collect();
        vec![
            conversations(1).concat().repeat(3),
            b"{\"role\":\"user\"}".repeat(500),
            vec![0; 100_000],
            vec![0; 1 << 20],
            random,
            vec![7],
        ]
    }

    fn dictionary() -> Vec<u8> {
        let bodies = conversations(40);
        zstd::dict::from_samples(&bodies, 4096).unwrap()
    }

    /// What an encoder of this encoding makes of the bytes, and both decoders of what it used.
    fn encoded(encoding: Encoding, raw: &[u8]) -> (Encoding, Vec<u8>) {
        let with = encoding == Encoding::ZstdDictionary;
        let plain = if with { Encoding::Zstd } else { encoding };
        let dictionary = dictionary();
        let dictionary = with.then_some(&dictionary[..]);
        let mut encoder = Encoder::new(plain, dictionary).unwrap();
        encoder.encode(raw, with)
    }

    fn decode_portably(encoding: Encoding, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
        match encoding {
            Encoding::Zstd => portable::decode(stored, raw_bytes),
            Encoding::ZstdDictionary => {
                portable::Decoder::new(&dictionary())?.decode(stored, raw_bytes)
            }
            _ => decode(encoding, stored, raw_bytes, None),
        }
    }

    #[test]
    fn every_encoding_decodes_to_the_same_bytes_with_and_without_the_library() {
        let dictionary = Dictionary::decode(&dictionary()).unwrap();
        for encoding in ALL {
            for raw in samples() {
                let (used, stored) = encoded(encoding, &raw);
                assert!(stored.len() <= raw.len());
                assert!(raw.len() <= stored.len() * RATIO_MAX as usize, "{used:?}");
                let decoded = decode(used, &stored, raw.len(), Some(&dictionary));
                assert_eq!(decoded.as_deref(), Some(&raw[..]));
                assert_eq!(decode_portably(used, &stored, raw.len()), Some(raw));
            }
            let (used, _) = encoded(encoding, &samples()[0]);
            assert_eq!(used, encoding);
        }
    }

    #[test]
    fn what_needs_a_dictionary_is_refused_without_it_and_with_another() {
        let raw = conversations(1).concat();
        let (_, stored) = encoded(Encoding::ZstdDictionary, &raw);
        let decode = |dictionary| decode(Encoding::ZstdDictionary, &stored, raw.len(), dictionary);
        assert_eq!(decode(None), None);
        let others: Vec<Vec<u8>> = (0..400)
            .map(|n: u32| n.to_string().repeat(60).into())
            .collect();
        let other = zstd::dict::from_samples(&others, 4096).unwrap();
        let other = Dictionary::decode(&other).unwrap();
        assert_ne!(decode(Some(&other)), Some(raw.clone()));
    }

    #[test]
    fn bytes_that_claim_another_length_are_refused() {
        let dictionary = Dictionary::decode(&dictionary()).unwrap();
        for encoding in ALL {
            let raw = &samples()[0];
            let (used, stored) = encoded(encoding, raw);
            for length in [0, 1, raw.len() - 1, raw.len() + 1] {
                let decoded = decode(used, &stored, length, Some(&dictionary));
                assert_eq!(decoded, None, "{encoding:?} {length}");
                if used != Encoding::Raw {
                    let portably = decode_portably(used, &stored, length);
                    assert!(portably.is_none_or(|raw| raw.len() != length));
                }
            }
        }
    }

    #[test]
    fn no_changed_byte_makes_decoding_panic() {
        let dictionary = dictionary();
        let whole = Dictionary::decode(&dictionary).unwrap();
        let portably = portable::Decoder::new(&dictionary).unwrap();
        for encoding in ALL {
            let raw = &samples()[0];
            let (used, stored) = encoded(encoding, raw);
            for at in 0..stored.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = stored.clone();
                    changed[at] = value;
                    let _ = decode(used, &changed, raw.len(), Some(&whole));
                    match used {
                        Encoding::Zstd => drop(portable::decode(&changed, raw.len())),
                        Encoding::ZstdDictionary => drop(portably.decode(&changed, raw.len())),
                        _ => {}
                    }
                }
            }
        }
    }
}
