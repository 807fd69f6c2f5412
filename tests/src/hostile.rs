//! Files that somebody made to hurt: bytes that are wrong under checksums that are right.

use crate::{
    checker::{self, Checked, Files},
    random::Random,
};

const RECORD_HEADER_BYTES: usize = 32;
const TRAILER_BYTES: usize = 96;
const SEGMENT_HEADER_BYTES: usize = 4096;

/// A well-formed store to start from, and where its parts are.
pub struct Template {
    files: Files,
    checked: Checked,
}

impl Template {
    /// One from the files of a sound store.
    pub fn new(files: Files) -> Self {
        let checked = checker::check_files(&files, None).expect("a sound store");
        Self { files, checked }
    }

    /// A hostile store: a few changes of a seed.
    pub fn hostile(&self, seed: u64) -> Files {
        let mut random = Random::new(seed);
        let mut files = self.files.clone();
        for _ in 0..=random.below(3) {
            self.change(&mut files, &mut random);
        }
        files
    }

    fn change(&self, files: &mut Files, random: &mut Random) {
        match random.below(12) {
            0..3 => self.change_record(files, random),
            3 => self.change_header(files, random),
            4..6 => self.change_trailer(files, random),
            6..8 => self.change_block(files, random),
            8 | 9 => change_checkpoint(files, random),
            10 => change_small(files, random),
            _ => change_files(files, random),
        }
    }

    fn change_record(&self, files: &mut Files, random: &mut Random) {
        let record = &self.checked.records[random.place(self.checked.records.len())];
        let segment = &self.checked.segments[record.segment as usize - 1];
        let start = usize::try_from(record.offset).expect("small");
        let Some(bytes) = files.get_mut(&name_of(record.segment)) else { return };
        // Sometimes a copy of it elsewhere, with the checksums of there.
        let elsewhere = random.place(bytes.len() / 8) * 8;
        let to = if random.one_in(4) { elsewhere.max(SEGMENT_HEADER_BYTES) } else { start };
        let length = usize::try_from(record.bytes).expect("small");
        let Some(mut copy) = bytes.get(start..start + length).map(<[u8]>::to_vec) else { return };
        match random.below(3) {
            0 => {
                let field = 2 + 2 * random.place(13);
                put(&mut copy, field, &value(random).to_le_bytes()[..2]);
            }
            1 => {
                let field = 4 + 4 * random.place(6);
                put(&mut copy, field, &value(random).to_le_bytes()[..4]);
            }
            _ if copy.len() > RECORD_HEADER_BYTES => {
                let place = RECORD_HEADER_BYTES + random.place(copy.len() - RECORD_HEADER_BYTES);
                put(&mut copy, place, &value(random).to_le_bytes()[..1 + random.place(8)]);
            }
            _ => {}
        }
        put(bytes, to, &copy);
        seal_record(bytes, to, segment.salt);
    }

    fn change_header(&self, files: &mut Files, random: &mut Random) {
        let id = self.any_segment(random);
        let Some(bytes) = files.get_mut(&name_of(id)).filter(|bytes| bytes.len() >= SEGMENT_HEADER_BYTES) else {
            return;
        };
        let field = 8 + 4 * random.place(16);
        put(bytes, field, &value(random).to_le_bytes()[..4 + 4 * random.place(2)]);
        let crc = crc32fast::hash(&bytes[..4092]);
        put(bytes, 4092, &crc.to_le_bytes());
    }

    fn change_trailer(&self, files: &mut Files, random: &mut Random) {
        let id = self.any_segment(random);
        let Some(bytes) =
            files.get_mut(&name_of(id)).filter(|bytes| bytes.len() > SEGMENT_HEADER_BYTES + TRAILER_BYTES)
        else {
            return;
        };
        let start = bytes.len() - TRAILER_BYTES;
        put(bytes, start + 8 + 4 * random.place(21), &value(random).to_le_bytes()[..4]);
        seal_trailer(bytes, start);
    }

    /// Changes the index block, and makes both CRCs right again; sometimes with more of its own in the trailer.
    fn change_block(&self, files: &mut Files, random: &mut Random) {
        let segment = &self.checked.segments[self.any_segment(random) as usize - 1];
        let Some(bytes) = files.get_mut(&name_of(segment.id)).filter(|_| segment.sealed) else { return };
        let (from, to) = (usize::try_from(segment.data_end).expect("small"), bytes.len().saturating_sub(TRAILER_BYTES));
        if from >= to {
            return;
        }
        for _ in 0..=random.below(3) {
            let place = from + random.place((to - from) / 4) * 4;
            put(bytes, place, &value(random).to_le_bytes()[..4]);
        }
        let mut hasher = crc32fast::Hasher::new_with_initial(segment.salt);
        hasher.update(&segment.data_end.to_le_bytes());
        hasher.update(&bytes[from..to]);
        put(bytes, to + 80, &hasher.finalize().to_le_bytes());
        seal_trailer(bytes, to);
    }

    fn any_segment(&self, random: &mut Random) -> u32 {
        self.checked.segments[random.place(self.checked.segments.len())].id
    }
}

/// A number that is more likely to hurt than another.
fn value(random: &mut Random) -> u64 {
    let small = random.below(300);
    [
        0,
        1,
        small,
        small * 8,
        u64::from(u32::MAX),
        u64::from(u32::MAX) - small,
        u64::MAX,
        u64::MAX - small,
        1 << random.below(64),
        random.next_u64(),
        0x7fff_ffff,
        0x8000_0000,
    ][random.place(12)]
}

fn name_of(segment: u32) -> String {
    format!("{segment:08}.seg")
}

/// Writes what fits.
fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    let end = bytes.len().min(at + new.len());
    if at < end {
        bytes[at..end].copy_from_slice(&new[..end - at]);
    }
}

/// Makes a record's two checksums right for where it is.
fn seal_record(bytes: &mut [u8], start: usize, salt: u32) {
    let Some(header) = bytes.get(start..start + RECORD_HEADER_BYTES) else { return };
    let body = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes")) as usize;
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&(start as u64).to_le_bytes());
    hasher.update(&header[2..28]);
    let h = hasher.finalize();
    let body = bytes.get(start + RECORD_HEADER_BYTES..start + RECORD_HEADER_BYTES + body.next_multiple_of(8));
    let crc = crc32fast::hash(body.unwrap_or_default()) ^ h;
    put(bytes, start, &h.to_le_bytes()[..2]);
    put(bytes, start + 28, &crc.to_le_bytes());
}

fn seal_trailer(bytes: &mut [u8], start: usize) {
    let crc = crc32fast::hash(&bytes[start..start + 92]);
    put(bytes, start + 92, &crc.to_le_bytes());
}

fn change_checkpoint(files: &mut Files, random: &mut Random) {
    let Some(bytes) = files.get_mut("CHECKPOINT").filter(|bytes| bytes.len() > 40) else { return };
    for _ in 0..=random.below(3) {
        let place = 32 + random.place((bytes.len() - 32) / 4) * 4;
        put(bytes, place, &value(random).to_le_bytes()[..4 + 4 * random.place(2)]);
    }
    if random.one_in(8) {
        bytes.truncate(32 + random.place(bytes.len() - 32));
        let length = bytes.len() as u64 - 32;
        put(bytes, 16, &length.to_le_bytes());
    }
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..24]);
    hasher.update(&bytes[32..]);
    put(bytes, 24, &hasher.finalize().to_le_bytes());
}

fn change_small(files: &mut Files, random: &mut Random) {
    let (name, end) = if random.one_in(2) { ("RUNLOG", 60) } else { ("WATERMARK", 52) };
    let Some(bytes) = files.get_mut(name).filter(|bytes| bytes.len() >= end + 4) else { return };
    put(bytes, 4 * random.place(end / 4), &value(random).to_le_bytes()[..4]);
    let crc = crc32fast::hash(&bytes[..end]);
    put(bytes, end, &crc.to_le_bytes());
}

/// Files that are swapped, missing, too many, too long, or full of anything.
fn change_files(files: &mut Files, random: &mut Random) {
    let names: Vec<String> = files.keys().cloned().collect();
    let (one, other) = (&names[random.place(names.len())], &names[random.place(names.len())]);
    match random.below(6) {
        0 => {
            let bytes = files[one].clone();
            files.insert(other.clone(), bytes);
        }
        1 => drop(files.remove(one)),
        2 => {
            let bytes = files[one].clone();
            let number = [0, 5, 99_999_999, 4_294_967_295, 4_294_967_296, u64::MAX][random.place(6)];
            files.insert(format!("{number:08}.seg"), bytes);
        }
        3 => {
            let mut more = vec![0; random.place(9000)];
            random.fill(&mut more);
            files.get_mut(one).expect("it is there").extend(more);
        }
        4 => {
            let bytes = files.get_mut(one).expect("it is there");
            let length = bytes.len();
            bytes.truncate(random.place(length + 1));
        }
        _ => {
            let bytes = files.get_mut(one).expect("it is there");
            let start = random.place(bytes.len() + 1);
            let end = (start + random.place(200)).min(bytes.len());
            random.fill(&mut bytes[start..end]);
        }
    }
}
