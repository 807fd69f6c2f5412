//! Recovers the seed of a segment of which every copy of the header is lost, from any whole record.
//!
//! A record's CRC field is the CRC of its body combined with that of its header, and the header's continues the seed.
//! All other inputs are known, so the CRC can be computed backwards to the seed. The record repeats sixteen bits of it
//! as a check; a next record that is valid with the same seed confirms it.

use super::survey::Source;
use crate::{
    Result, checksum,
    format::{
        Fields, aligned,
        record::{self, Flags},
    },
    log::scan::whole_zero_units,
};

/// What may be read of bodies, in multiples of the range.
const BUDGET_FACTOR: u64 = 4;
const WINDOW_BYTES: u64 = 256 << 10;

/// At most this many seeds are found in one file.
const SEEDS_MAX: usize = 16;

/// The seeds of the records between two offsets, that of the most records first. Each has two whole records that follow each
/// other, or the first of a segment. There are several where a part of another file was written over this one: records
/// that are moved by a power of two look like such of another segment. `shift` is where the first byte of the source stands
/// in the segment: a part of one may have been saved alone.
pub(crate) fn find(source: &dyn Source, from: u64, end: u64, shift: u64) -> Result<Vec<u32>> {
    let header_bytes = record::HEADER_BYTES as u64;
    let mut budget = end
        .saturating_sub(from)
        .saturating_add(WINDOW_BYTES)
        .saturating_mul(BUDGET_FACTOR);
    let (mut window, mut window_start) = (bytes::Bytes::new(), 0);
    let mut offset = from;
    let mut found: Vec<(u32, u64)> = Vec::new();
    while end.saturating_sub(offset) >= header_bytes {
        if offset < window_start || offset + header_bytes > window_start + window.len() as u64 {
            window = source.read(offset, WINDOW_BYTES.min(end - offset))?;
            window_start = offset;
        }
        let at = usize::try_from(offset - window_start).expect("the window is in memory");
        if let Some(zeros) = whole_zero_units(&window[at..]) {
            offset += zeros;
            continue;
        }
        let bytes = window[at..]
            .first_chunk::<{ record::HEADER_BYTES }>()
            .expect("it was just read");
        let mut step = aligned(1) as u64;
        if let Some(body_bytes) = plausible_body(bytes, offset + shift, end - offset) {
            let Some(left) = budget.checked_sub(body_bytes) else {
                break;
            };
            budget = left;
            let body = source.read(offset + header_bytes, body_bytes)?;
            let next = offset + header_bytes + body_bytes;
            if let Some(seed) = seed_of(bytes, &body, offset + shift) {
                let known = found.iter_mut().find(|(other, _)| *other == seed);
                let is_known = known.map(|(_, count)| *count += 1).is_some();
                if is_known || is_confirmed(source, bytes, seed, next, end, shift)? {
                    if !is_known && found.len() < SEEDS_MAX {
                        found.push((seed, 1));
                    }
                    step = next - offset;
                }
            }
        }
        offset += step;
    }
    // Stable: of as many, the first.
    runlog_log::order::sort_by_key(&mut found, |(_, count)| std::cmp::Reverse(*count));
    Ok(found.into_iter().map(|(seed, _)| seed).collect())
}

/// The length of the padded body, if this may be a header at all.
fn plausible_body(bytes: &[u8; record::HEADER_BYTES], place: u64, room: u64) -> Option<u64> {
    let mut fields = Fields::new(&bytes[2..]);
    let (kind, flags) = (fields.get::<u8>(), fields.get::<u8>());
    let (body, _, stream, sequence) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
    let (_, watermark) = (fields.u32(), u64::from(fields.u32()) * aligned(1) as u64);
    let body_bytes = aligned(body as usize) as u64;
    let is_known = kind <= record::MARK.0 && flags < 1 << 5;
    let has_stream = stream != 0 || kind >= record::PADDING.0;
    let is_possible =
        is_known && has_stream && watermark <= place && !(kind < 128 && sequence == 0);
    let fits =
        body as usize <= record::BODY_BYTES_MAX && body_bytes + record::HEADER_BYTES as u64 <= room;
    (is_possible && fits).then_some(body_bytes)
}

fn seed_of(bytes: &[u8; record::HEADER_BYTES], body: &[u8], place: u64) -> Option<u32> {
    let header_crc = Fields::new(&bytes[28..]).u32() ^ checksum::crc(body);
    if header_crc.to_le_bytes()[..2] != bytes[..2] {
        return None;
    }
    let before = checksum::rewind(header_crc, &bytes[2..28]);
    Some(checksum::rewind(before, &place.to_le_bytes()))
}

/// Whether a record whose seed would be this is followed by another with the same, or is the first of its segment.
fn is_confirmed(
    source: &dyn Source,
    bytes: &[u8; record::HEADER_BYTES],
    seed: u32,
    next: u64,
    end: u64,
    shift: u64,
) -> Result<bool> {
    let mut fields = Fields::new(&bytes[2..]);
    let (kind, flags, _, index) = (
        fields.get::<u8>(),
        Flags(fields.get()),
        fields.u32(),
        fields.u32(),
    );
    let header_bytes = record::HEADER_BYTES as u64;
    if end.saturating_sub(next) >= header_bytes {
        let following = source.read(next, header_bytes)?;
        let header = following
            .first_chunk()
            .and_then(|bytes| record::Header::decode(bytes, seed, next + shift));
        if let Some(header) = header.filter(|header| header.frame_bytes() <= end - next) {
            let body = source.read(next + header_bytes, header.padded_body_bytes() as u64)?;
            if checksum::crc(&body) == header.body_crc {
                return Ok(true);
            }
        }
    }
    Ok(kind == record::MARK.0
        && index == 0
        && flags.has(Flags::BATCH_FIRST)
        && flags.has(Flags::BATCH_LAST))
}

/// A uuid for a header whose segment has this seed: what isn't given is solved for.
pub(crate) fn uuid_for(store: &[u8; 16], salt: u32, seed: u32) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..12].copy_from_slice(&store[..12]);
    let before = checksum::crc_of_parts(&[store, &uuid[..12]]);
    let after = checksum::rewind(seed, &salt.to_le_bytes());
    uuid[12..].copy_from_slice(&checksum::bridge(before, after));
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_leads_to_any_seed() {
        for seed in [0, 1, 0xdead_beef, u32::MAX] {
            let uuid = uuid_for(&[7; 16], 99, seed);
            assert_eq!(
                checksum::crc_of_parts(&[&[7; 16], &uuid, &99_u32.to_le_bytes()]),
                seed
            );
        }
    }
}
