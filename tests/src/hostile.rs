//! Files that somebody made to hurt: bytes that are wrong under checksums that are right.

mod packs;

pub use packs::PackTemplate;

use crate::{
    checker::{self, Checked, Files, LogRecord, SegmentFacts},
    forge::{
        self, HEADER_BYTES, HEADER_COPIES, RECORD_HEADER_BYTES, RECORDS_BEGIN, TRAILER_BYTES, put,
    },
    random::Random,
};

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
        match random.below(16) {
            0..3 => self.change_record(files, random),
            3 => self.change_meaning(files, random),
            4 => self.lose_record(files, random),
            5 => self.change_header(files, random),
            6 => self.change_all_under_header(files, random),
            7..9 => self.change_trailer(files, random),
            9..11 => self.change_block(files, random),
            11 | 12 => change_checkpoint(files, random),
            13 | 14 => change_small(files, random),
            _ => change_files(files, random),
        }
    }

    /// Any record, with padding and marks, where it begins, and its segment.
    fn any_record(&self, random: &mut Random) -> (&LogRecord, usize, &SegmentFacts) {
        let (records, marks) = (&self.checked.records, &self.checked.marks);
        let place = random.place(records.len() + marks.len());
        let record = records
            .get(place)
            .unwrap_or_else(|| &marks[place - records.len()]);
        let segment = &self.checked.segments[record.segment as usize - 1];
        (
            record,
            usize::try_from(record.offset).expect("small"),
            segment,
        )
    }

    fn change_record(&self, files: &mut Files, random: &mut Random) {
        let (record, start, segment) = self.any_record(random);
        let Some(bytes) = files.get_mut(&name_of(record.segment)) else {
            return;
        };
        // Sometimes a copy of it elsewhere, with the checksums of there.
        let elsewhere = random.place(bytes.len() / 8) * 8;
        let to = if random.one_in(4) {
            elsewhere.max(RECORDS_BEGIN)
        } else {
            start
        };
        let length = usize::try_from(record.bytes).expect("small");
        let Some(mut copy) = bytes.get(start..start + length).map(<[u8]>::to_vec) else {
            return;
        };
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
                put(
                    &mut copy,
                    place,
                    &value(random).to_le_bytes()[..1 + random.place(8)],
                );
            }
            _ => {}
        }
        put(bytes, to, &copy);
        forge::record(bytes, to, segment.seed);
    }

    /// Another kind, or other flags, with and without what the kind needs: a record becomes a mark, padding, or what
    /// only a newer build knows.
    fn change_meaning(&self, files: &mut Files, random: &mut Random) {
        let (record, start, segment) = self.any_record(random);
        let Some(bytes) = files.get_mut(&name_of(record.segment)) else {
            return;
        };
        if random.one_in(3) {
            let flag = [4, 8, 16, 32, 64, 128, 3][random.place(7)];
            put(bytes, start + 3, &[record.flags ^ flag]);
        } else {
            let kind = [
                128, 129, 130, 131, 132, 133, 134, 135, 136, 138, 139, 191, 192, 255,
            ][random.place(14)];
            put(bytes, start + 2, &[kind]);
            if random.one_in(2) {
                // Alone in its batch, of no stream: as padding and marks are.
                put(bytes, start + 3, &[3]);
                put(bytes, start + 12, &[0; 8]);
            }
        }
        forge::record(bytes, start, segment.seed);
    }

    /// Damages a record in a segment whose index says that a repair made it.
    fn lose_record(&self, files: &mut Files, random: &mut Random) {
        let (record, start, segment) = self.any_record(random);
        let Some(bytes) = files
            .get_mut(&name_of(record.segment))
            .filter(|_| segment.sealed)
        else {
            return;
        };
        put(bytes, start + 4, &value(random).to_le_bytes()[..4]);
        let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES) else {
            return;
        };
        put(bytes, trailer + 68, &[1]);
        if random.one_in(2) {
            put(bytes, trailer + 32, &value(random).to_le_bytes());
        }
        forge::trailer(bytes);
    }

    fn change_header(&self, files: &mut Files, random: &mut Random) {
        let id = self.any_segment(random);
        let Some(bytes) = files
            .get_mut(&name_of(id))
            .filter(|bytes| bytes.len() >= RECORDS_BEGIN)
        else {
            return;
        };
        if random.one_in(4) {
            // One copy only, or two that differ.
            let start = HEADER_COPIES[random.place(2)];
            change_header_field(&mut bytes[start..start + HEADER_BYTES], random);
            if random.one_in(2) {
                forge::structure(&mut bytes[start..start + HEADER_BYTES]);
            }
            return;
        }
        change_header_field(&mut bytes[..HEADER_BYTES], random);
        forge::header(bytes);
    }

    /// Another header, and every checksum of the segment made for it.
    fn change_all_under_header(&self, files: &mut Files, random: &mut Random) {
        let segment = &self.checked.segments[self.any_segment(random) as usize - 1];
        let Some(bytes) = files
            .get_mut(&name_of(segment.id))
            .filter(|bytes| bytes.len() >= RECORDS_BEGIN)
        else {
            return;
        };
        change_header_field(&mut bytes[..HEADER_BYTES], random);
        forge::header(bytes);
        let (header, seed) = (bytes[..HEADER_BYTES].to_vec(), forge::seed(bytes));
        let records = self.checked.records.iter().chain(&self.checked.marks);
        for record in records.filter(|record| record.segment == segment.id) {
            forge::record(bytes, usize::try_from(record.offset).expect("small"), seed);
        }
        if segment.sealed
            && let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES + HEADER_BYTES)
        {
            put(bytes, trailer, &header);
            let trailer = trailer + HEADER_BYTES;
            put(bytes, trailer + 12, &header[56..60]);
            put(bytes, trailer + 24, &header[32..40]);
            let crc = forge::index(
                bytes,
                usize::try_from(segment.data_end).expect("small"),
                seed,
            );
            follow(files, segment.id, crc, Some(&header[56..60]));
        }
    }

    fn change_trailer(&self, files: &mut Files, random: &mut Random) {
        let id = self.any_segment(random);
        let Some(bytes) = files
            .get_mut(&name_of(id))
            .filter(|bytes| bytes.len() > RECORDS_BEGIN + TRAILER_BYTES)
        else {
            return;
        };
        let start = bytes.len() - TRAILER_BYTES;
        put(
            bytes,
            start + 8 + 4 * random.place(29),
            &value(random).to_le_bytes()[..4],
        );
        if random.one_in(4) {
            put(bytes, start + 68, &[1, 0, 0, 0]);
        }
        forge::trailer(bytes);
    }

    /// Changes the index block, and makes both CRCs right again; sometimes of one that a repair made.
    fn change_block(&self, files: &mut Files, random: &mut Random) {
        let segment = &self.checked.segments[self.any_segment(random) as usize - 1];
        let Some(bytes) = files
            .get_mut(&name_of(segment.id))
            .filter(|_| segment.sealed)
        else {
            return;
        };
        let (from, to) = (
            usize::try_from(segment.data_end).expect("small"),
            bytes.len().saturating_sub(TRAILER_BYTES),
        );
        if from >= to {
            return;
        }
        // The header at its end is as long as all the rest.
        let end = if random.one_in(8) {
            to
        } else {
            to.saturating_sub(HEADER_BYTES).max(from + 4)
        };
        for _ in 0..=random.below(3) {
            let place = from + random.place((end - from) / 4) * 4;
            put(bytes, place, &value(random).to_le_bytes()[..4]);
        }
        if random.one_in(3) {
            put(bytes, to + 68, &[1]);
        }
        let crc = forge::index(bytes, from, segment.seed);
        follow(files, segment.id, crc, None);
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

fn change_header_field(header: &mut [u8], random: &mut Random) {
    // What is behind the fields is reserved.
    let field = if random.one_in(8) {
        168 + 4 * random.place(85)
    } else {
        8 + 4 * random.place(40)
    };
    put(
        header,
        field,
        &value(random).to_le_bytes()[..4 + 4 * random.place(2)],
    );
}

/// Makes the next segment's header agree with a changed segment.
fn follow(files: &mut Files, segment: u32, index_crc: Option<u32>, salt: Option<&[u8]>) {
    let Some((next, crc)) = files.get_mut(&name_of(segment + 1)).zip(index_crc) else {
        return;
    };
    put(next, 120, &crc.to_le_bytes());
    put(next, 60, salt.unwrap_or_default());
    forge::header(next);
}

fn change_checkpoint(files: &mut Files, random: &mut Random) {
    let Some(bytes) = files.get_mut("CHECKPOINT").filter(|bytes| bytes.len() > 40) else {
        return;
    };
    for _ in 0..=random.below(3) {
        let place = 32 + random.place((bytes.len() - 32) / 4) * 4;
        put(
            bytes,
            place,
            &value(random).to_le_bytes()[..4 + 4 * random.place(2)],
        );
    }
    if random.one_in(8) {
        bytes.truncate(32 + random.place(bytes.len() - 32));
        let length = bytes.len() as u64 - 32;
        put(bytes, 16, &length.to_le_bytes());
    }
    if random.one_in(2) {
        // It ends in the trailer of the active segment's index.
        forge::trailer(bytes);
    }
    forge::checkpoint(bytes);
}

fn change_small(files: &mut Files, random: &mut Random) {
    let name = ["RUNLOG", "END", "END", "WATERMARK"][random.place(4)];
    let Some(bytes) = files.get_mut(name).filter(|bytes| bytes.len() >= 96) else {
        return;
    };
    let field = 4 * random.place(bytes.len() / 4 - 1);
    put(
        bytes,
        field,
        &value(random).to_le_bytes()[..4 + 4 * random.place(2)],
    );
    if name == "WATERMARK" && random.one_in(4) {
        // Another length is allowed, within limits.
        bytes.resize([96, 104, 4096, 4097, 8192][random.place(5)], 0);
        let length = u32::try_from(bytes.len()).expect("small");
        put(bytes, 12, &length.to_le_bytes());
    }
    forge::structure(bytes);
}

/// Files that are swapped, missing, too many, too long, or full of anything.
fn change_files(files: &mut Files, random: &mut Random) {
    let names: Vec<String> = files.keys().cloned().collect();
    let (one, other) = (
        &names[random.place(names.len())],
        &names[random.place(names.len())],
    );
    match random.below(6) {
        0 => {
            let bytes = files[one].clone();
            files.insert(other.clone(), bytes);
        }
        1 => drop(files.remove(one)),
        2 => {
            let bytes = files[one].clone();
            let number =
                [0, 5, 99_999_999, 4_294_967_295, 4_294_967_296, u64::MAX][random.place(6)];
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
