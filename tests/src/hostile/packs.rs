//! Packs that somebody made to hurt: their image, their index, their blocks and the table of these, under checksums that are right.

use runlog_engine::{Codec, CompactOptions, OpenOptions};

use super::{change_checkpoint, change_files, change_header_field, change_small, value};
use crate::{
    checker::{self, Files, SegmentFacts},
    damage,
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    forge::{
        self, BLOCK_HEADER_BYTES, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RECORDS_BEGIN,
        TRAILER_BYTES, put,
    },
    host::TestHost,
    random::Random,
    script::Line,
};

/// A sound store whose records of every kind are in a pack, and a few in the segment behind it.
pub struct PackTemplate {
    files: Files,
    pack: String,
    facts: SegmentFacts,
    /// Where its records begin in its image.
    records: Vec<usize>,
}

impl PackTemplate {
    /// One whose pack isn't compressed, so that its image is there to be changed.
    ///
    /// # Panics
    /// If the engine doesn't make it.
    pub fn new() -> Self {
        let files = files();
        let checked = checker::check_files(&files, None).expect("a sound store");
        let facts = checked.segments.first().expect("it has files").clone();
        assert!(facts.is_pack(), "the first file is a pack");
        let pack = crate::alike::pack_of(&files).expect("there is one");
        let (image, _) = forge::unpacked(&files[&pack]);
        let data_end = usize::try_from(facts.data_end).expect("small");
        let mut records = Vec::new();
        let mut start = RECORDS_BEGIN;
        while start < data_end {
            records.push(start);
            start += forge::record_bytes(&image, start).expect("a record");
        }
        Self {
            files,
            pack,
            facts,
            records,
        }
    }

    /// A hostile store: a few changes of a seed.
    pub fn hostile(&self, seed: u64) -> Files {
        let mut random = Random::new(seed);
        let mut files = self.files.clone();
        let (mut image, mut cuts) = forge::unpacked(&files[&self.pack]);
        if random.one_in(8) {
            cuts.retain(|cut| *cut == RECORDS_BEGIN || random.one_in(2));
        }
        for _ in 0..random.below(3) {
            self.change_image(&mut image, &mut random);
        }
        let mut pack = forge::packed(&image, &cuts);
        if random.one_in(2) {
            change_pack(&mut pack, cuts.len(), &mut random);
        }
        files.insert(self.pack.clone(), pack);
        match random.below(8) {
            0 => change_checkpoint(&mut files, &mut random),
            1 => change_small(&mut files, &mut random),
            2 => change_files(&mut files, &mut random),
            3 => self.change_name(&mut files, &mut random),
            4 | 5 => drop(files.remove("CHECKPOINT")),
            _ => {}
        }
        files
    }

    fn change_image(&self, image: &mut [u8], random: &mut Random) {
        let (data_end, trailer) = (self.facts.data_end, image.len() - TRAILER_BYTES);
        let data_end = usize::try_from(data_end).expect("small");
        let seed = forge::seed(image);
        match random.below(10) {
            0..3 => {
                let start = self.records[random.place(self.records.len())];
                let bytes = forge::record_bytes(image, start).unwrap_or(RECORD_HEADER_BYTES);
                let bytes = bytes.clamp(RECORD_HEADER_BYTES, data_end - start);
                let field = if random.one_in(2) {
                    2 + 2 * random.place(13)
                } else {
                    random.place(bytes)
                };
                let length = 1 + random.place(8);
                put(image, start + field, &value(random).to_le_bytes()[..length]);
                forge::record(image, start, seed);
            }
            3..7 => {
                // The header at its end is as long as all the rest.
                let end = trailer - if random.one_in(8) { 0 } else { HEADER_BYTES };
                for _ in 0..=random.below(3) {
                    let place = data_end + random.place((end - data_end) / 4) * 4;
                    put(image, place, &value(random).to_le_bytes()[..4]);
                }
                forge::index(image, data_end, seed);
            }
            7 => {
                let field = trailer + 8 + 4 * random.place(29);
                let length = 4 + 4 * random.place(2);
                put(image, field, &value(random).to_le_bytes()[..length]);
                forge::trailer(image);
            }
            8 => {
                change_header_field(&mut image[..HEADER_BYTES], random);
                forge::header(image);
            }
            _ => {
                change_header_field(&mut image[..HEADER_BYTES], random);
                forge::header(image);
                let (header, seed) = (image[..HEADER_BYTES].to_vec(), forge::seed(image));
                for start in &self.records {
                    forge::record(image, *start, seed);
                }
                put(image, trailer - HEADER_BYTES, &header);
                put(image, trailer + 12, &header[56..60]);
                put(image, trailer + 24, &header[32..40]);
                forge::index(image, data_end, seed);
            }
        }
    }

    /// The pack has another name, too, or instead: it stands for others, or more than one stands for the same.
    fn change_name(&self, files: &mut Files, random: &mut Random) {
        let (first, last) = (u64::from(self.facts.id), u64::from(self.facts.last_id));
        let mut number = |near: u64| match random.below(4) {
            0 => near,
            1 => near + 1,
            2 => near.saturating_sub(1),
            _ => value(random),
        };
        let name = format!(
            "{:08}-{:08}.{}.pack",
            number(first),
            number(last),
            number(1)
        );
        let bytes = files[&self.pack].clone();
        if random.one_in(2) {
            files.remove(&self.pack);
        }
        files.insert(name, bytes);
    }
}

impl Default for PackTemplate {
    fn default() -> Self {
        Self::new()
    }
}

fn files() -> Files {
    let (host, storage) = (TestHost::new(3), FaultyStorage::new());
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let place = Place::Faulty(storage.clone());
    let mut driver = Driver::new(place, host.clone(), options).expect("a new store");
    for line in crate::script::in_three_segments(&damage::PASS) {
        match line {
            Line::Commit(work) => driver.commit(&work).expect("it commits"),
            Line::Pass(ms) => host.pass_ms(ms),
            _ => unreachable!("no other lines"),
        }
    }
    let options = CompactOptions {
        codec: Codec::Plain,
        ..CompactOptions::default()
    };
    driver.try_compact(options).expect("it compacts");
    driver.leave(Leave::Close).expect("it closes");
    storage.files()
}

/// Changes how a pack stores its image.
fn change_pack(pack: &mut [u8], blocks: usize, random: &mut Random) {
    let seed = forge::seed(pack);
    let footer = pack.len() - FOOTER_BYTES;
    let table = footer - blocks * 8;
    let block = random.place(blocks);
    let start = u32::from_le_bytes(pack[table + 8 * block..][..4].try_into().expect("4 bytes"));
    let start = start as usize * 8;
    match random.below(4) {
        0 => {
            let length = 4 + 4 * random.place(2);
            let row = table + 4 * random.place(2 * blocks);
            put(pack, row, &value(random).to_le_bytes()[..length]);
            forge::table(pack, table, seed);
        }
        1 => {
            let length = 4 + 4 * random.place(2);
            let field = footer + 8 + 4 * random.place(13);
            put(pack, field, &value(random).to_le_bytes()[..length]);
            forge::structure(&mut pack[footer..]);
        }
        2 => {
            let length = 1 + random.place(4);
            let field = start + 4 + random.place(BLOCK_HEADER_BYTES - 4);
            put(pack, field, &value(random).to_le_bytes()[..length]);
            forge::block(pack, start, seed);
        }
        _ => {
            // What is stored is said to be encoded, and may say of itself that it is longer than anything.
            put(
                pack,
                start + 4,
                &[1 + u8::try_from(random.below(3)).expect("small")],
            );
            let stored = u32::from_le_bytes(pack[start + 8..start + 12].try_into().expect("4"));
            let frame = [
                &[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..],
                &value(random).to_le_bytes(),
                // A block of one byte, two million times.
                &[0x03, 0, 0xff, b'0'].repeat(8),
            ]
            .concat();
            let content = start + BLOCK_HEADER_BYTES;
            put(pack, content, &frame[..frame.len().min(stored as usize)]);
            let crc = crc32fast::hash(&pack[content..content + stored as usize]);
            put(pack, start + 24, &crc.to_le_bytes());
            forge::block(pack, start, seed);
        }
    }
}
