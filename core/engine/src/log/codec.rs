//! Encoding and decoding the bytes of a block.
//!
//! LZ4 and the decoding of Zstandard are Rust alone, so that a store opens everywhere it is carried to. Zstandard is encoded,
//! and decoded faster, by the library itself where that can be built.

use crate::format::pack::Encoding;

/// The level that Zstandard encodes with: the next ones take twice as long for a tenth less.
#[cfg(not(target_family = "wasm"))]
const ZSTD_LEVEL: i32 = 3;

/// Whether this build can encode so.
pub(crate) const fn can_encode(encoding: Encoding) -> bool {
    !matches!(encoding, Encoding::Zstd) || cfg!(not(target_family = "wasm"))
}

/// The bytes encoded, with the encoding that was used: as they are where that takes no more room.
pub(crate) fn encode(encoding: Encoding, raw: &[u8]) -> (Encoding, Vec<u8>) {
    let encoded = match encoding {
        Encoding::Raw => None,
        Encoding::Lz4 => Some(lz4_flex::block::compress(raw)),
        #[cfg(not(target_family = "wasm"))]
        Encoding::Zstd => zstd::bulk::compress(raw, ZSTD_LEVEL).ok(),
        #[cfg(target_family = "wasm")]
        Encoding::Zstd => None,
    };
    match encoded.filter(|encoded| encoded.len() < raw.len()) {
        Some(encoded) => (encoding, encoded),
        None => (Encoding::Raw, raw.to_vec()),
    }
}

/// The raw bytes, exactly `raw_bytes` of them; `None` when the bytes don't decode to as many. No more than these are
/// allocated, whatever the bytes claim.
pub(crate) fn decode(encoding: Encoding, stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
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
        Encoding::Zstd => decode_zstd_portably(stored, raw_bytes)?,
    };
    (decoded.len() == raw_bytes).then_some(decoded)
}

#[cfg(any(test, target_family = "wasm"))]
fn decode_zstd_portably(stored: &[u8], raw_bytes: usize) -> Option<Vec<u8>> {
    let mut raw = vec![0; raw_bytes];
    let length = ruzstd::decoding::FrameDecoder::new()
        .decode_all(stored, &mut raw)
        .ok()?;
    raw.truncate(length);
    Some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Encoding; 3] = [Encoding::Raw, Encoding::Lz4, Encoding::Zstd];

    fn samples() -> Vec<Vec<u8>> {
        let random: Vec<u8> = (0..10_000_u32)
            .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
            .collect();
        vec![
            b"{\"role\":\"user\"}".repeat(500),
            vec![0; 100_000],
            random,
            vec![7],
        ]
    }

    #[test]
    fn every_encoding_decodes_to_the_same_bytes() {
        for encoding in ALL {
            for raw in samples() {
                let (used, stored) = encode(encoding, &raw);
                assert!(stored.len() <= raw.len());
                assert_eq!(decode(used, &stored, raw.len()).as_deref(), Some(&raw[..]));
            }
        }
    }

    #[test]
    fn zstandard_decodes_alike_with_and_without_the_library() {
        for raw in samples() {
            let (used, stored) = encode(Encoding::Zstd, &raw);
            if used == Encoding::Zstd {
                assert_eq!(decode_zstd_portably(&stored, raw.len()), Some(raw));
            }
        }
    }

    #[test]
    fn bytes_that_claim_another_length_are_refused() {
        for encoding in ALL {
            let raw = &samples()[0];
            let (used, stored) = encode(encoding, raw);
            for length in [0, 1, raw.len() - 1, raw.len() + 1] {
                assert_eq!(decode(used, &stored, length), None, "{encoding:?} {length}");
                if used == Encoding::Zstd {
                    let portably = decode_zstd_portably(&stored, length);
                    assert!(portably.is_none_or(|raw| raw.len() != length));
                }
            }
        }
    }

    #[test]
    fn no_changed_byte_makes_decoding_panic() {
        for encoding in ALL {
            let raw = &samples()[0];
            let (used, stored) = encode(encoding, raw);
            for at in 0..stored.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = stored.clone();
                    changed[at] = value;
                    let _ = decode(used, &changed, raw.len());
                    if used == Encoding::Zstd {
                        let _ = decode_zstd_portably(&changed, raw.len());
                    }
                }
            }
        }
    }
}
