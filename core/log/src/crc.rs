//! [`Hasher`]: the one CRC-32 (ISO-HDLC, as in zip).
//!
//! It is `crc32fast`'s, but in WebAssembly: there its tables, 16 KiB that no compression makes smaller, would be downloaded.
//! They are made when the first CRC is instead, which takes a few microseconds.

#[cfg(not(target_family = "wasm"))]
pub use crc32fast::Hasher;
#[cfg(target_family = "wasm")]
pub use small::Hasher;

/// The CRC of some bytes.
///
/// ```
/// assert_eq!(runlog_log::crc::hash(b"123456789"), 0xcbf4_3926);
/// ```
pub fn hash(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(any(test, target_family = "wasm"))]
#[cfg_attr(
    not(target_family = "wasm"),
    allow(dead_code, unreachable_pub, reason = "only its test is there")
)]
mod small {
    use std::sync::OnceLock;

    const POLYNOMIAL: u32 = 0xedb8_8320;

    /// What a byte does to the CRC when so many others come after it.
    type Tables = [[u32; 256]; 16];

    static TABLES: OnceLock<Box<Tables>> = OnceLock::new();

    /// A CRC-32 that goes on.
    #[derive(Clone, Default, Debug)]
    pub struct Hasher(u32);

    impl Hasher {
        /// One of no bytes.
        pub fn new() -> Self {
            Self::default()
        }

        /// One of the bytes that have this CRC.
        pub fn new_with_initial(crc: u32) -> Self {
            Self(crc)
        }

        /// Takes in what comes next.
        pub fn update(&mut self, bytes: &[u8]) {
            let tables = TABLES.get_or_init(tables);
            let (blocks, rest) = bytes.as_chunks::<16>();
            let crc = blocks.iter().fold(!self.0, |crc, block| {
                let mut block = *block;
                for (byte, of_crc) in block.iter_mut().zip(crc.to_le_bytes()) {
                    *byte ^= of_crc;
                }
                let mut crc = 0;
                for (table, byte) in tables.iter().rev().zip(block) {
                    crc ^= table[usize::from(byte)];
                }
                crc
            });
            let crc = rest.iter().fold(crc, |crc, byte| {
                (crc >> 8) ^ tables[0][usize::from(crc.to_le_bytes()[0] ^ byte)]
            });
            self.0 = !crc;
        }

        /// The CRC.
        pub fn finalize(self) -> u32 {
            self.0
        }
    }

    fn tables() -> Box<Tables> {
        let mut tables: Box<Tables> = Box::new([[0; 256]; 16]);
        for (crc, byte) in tables[0].iter_mut().zip(0_u32..) {
            *crc = (0..8).fold(byte, |crc, _| (crc >> 1) ^ ((crc & 1) * POLYNOMIAL));
        }
        let of_last = tables[0];
        for place in 1..tables.len() {
            let before = tables[place - 1];
            for (crc, before) in tables[place].iter_mut().zip(before) {
                *crc = (before >> 8) ^ of_last[usize::from(before.to_le_bytes()[0])];
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_one_says_what_the_fast_one_says() {
        let bytes: Vec<u8> = (0..400_u32).map(|at| (at * at).to_le_bytes()[0]).collect();
        for start in 0..20 {
            for end in start..bytes.len() {
                let (first, rest) = bytes[start..end].split_at((end - start) / 3);
                let mut fast = Hasher::new_with_initial(7);
                let mut small = small::Hasher::new_with_initial(7);
                for part in [first, rest] {
                    fast.update(part);
                    small.update(part);
                }
                assert_eq!(small.finalize(), fast.finalize(), "{start}..{end}");
            }
        }
    }
}
