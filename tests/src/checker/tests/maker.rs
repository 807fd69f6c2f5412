//! A small writer of format v1, from the page alone: it shares nothing with the reader but CRC-32 and SipHash. Streams
//! only grow here, so a record's ordinal is its sequence.

use std::collections::BTreeMap;

use crate::checker::{Files, siphash::siphash_2_4};

pub(super) const STORE: [u8; 16] = *b"the store's id..";
pub(super) const HASH_KEY: [u8; 16] = *b"the key of keys.";
pub(super) const BOOT: [u8; 16] = *b"since that boot.";
/// Flags of a batch of one record.
pub(super) const ALONE: u8 = 1 | 2;

pub(super) fn crc(before: u32, parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// Changes bytes and makes the CRC in the last 4 right again.
pub(super) fn change(bytes: &mut [u8], at: usize, new: &[u8]) {
    put(bytes, at, new);
    let end = bytes.len() - 4;
    let crc = crc(0, &[&bytes[..end]]);
    put(bytes, end, &crc.to_le_bytes());
}

fn structure(bytes: usize, magic: &[u8; 8], fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut made = vec![0; bytes];
    put(&mut made, 0, magic);
    put(&mut made, 8, &1_u32.to_le_bytes());
    for (at, field) in fields {
        put(&mut made, *at, field);
    }
    change(&mut made, 0, &magic[..]);
    made
}

pub(super) fn runlog() -> Vec<u8> {
    structure(
        128,
        b"RUNLOGST",
        &[(16, &STORE), (32, &77_u64.to_le_bytes()), (64, &HASH_KEY)],
    )
}

/// A record to be written.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) sequence: u32,
    pub(super) time: u32,
    /// Its extension fields, without their length.
    pub(super) fields: Option<Vec<u8>>,
    /// What the index says that it has.
    pub(super) labels: Vec<u64>,
    pub(super) key: Option<&'static [u8]>,
    pub(super) payload: Vec<u8>,
    /// Other than the next one.
    pub(super) index: Option<u32>,
    /// Other than 0.
    pub(super) watermark: Option<u64>,
    pub(super) padding: u8,
}

pub(super) fn entry(kind: u8, stream: u32, sequence: u32, payload: &[u8]) -> Entry {
    Entry {
        kind,
        flags: ALONE,
        stream,
        sequence,
        time: 0,
        fields: None,
        labels: Vec::new(),
        key: None,
        payload: payload.to_vec(),
        index: None,
        watermark: None,
        padding: 0,
    }
}

pub(super) fn data(stream: u32, sequence: u32) -> Entry {
    entry(
        1,
        stream,
        sequence,
        format!("record {sequence} of stream {stream}").as_bytes(),
    )
}

/// An extension field.
pub(super) fn field(number: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_le_bytes();
    [&[number, flags][..], &length, value].concat()
}

/// A data record that has labels.
pub(super) fn labelled(stream: u32, sequence: u32, labels: &[u64]) -> Entry {
    let value: Vec<u8> = labels
        .iter()
        .flat_map(|label| label.to_le_bytes())
        .collect();
    Entry {
        fields: Some(field(1, 0, &value)),
        labels: labels.to_vec(),
        ..data(stream, sequence)
    }
}

pub(super) fn make(stream: u8) -> Entry {
    entry(128, u32::from(stream), 0, &[stream; 16])
}

pub(super) fn mark(epoch: u32) -> Entry {
    entry(
        135,
        0,
        0,
        &[epoch.to_le_bytes(), 0x0001_0000_u32.to_le_bytes()].concat(),
    )
}

pub(super) fn padding(bytes: usize) -> Entry {
    entry(134, 0, 0, &vec![0xaa; bytes])
}

/// A segment that is being written.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) base_position: u64,
    pub(super) next_stream: u32,
    pub(super) header: Vec<u8>,
    pub(super) seed: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) index: u32,
    /// What stands where, with its index; padding and marks are not among them.
    written: Vec<(Entry, u32, u64)>,
    pub(super) last_time: u32,
    pub(super) index_crc: u32,
    /// Where the records end.
    pub(super) end: u64,
    /// If it is the image of a pack.
    pub(super) pack: Option<Pack>,
}

/// What makes an image of a segment.
#[derive(Clone)]
pub(super) struct Pack {
    pub(super) to: u32,
    pub(super) generation: u32,
    pub(super) next_position: u64,
    /// Stream and ordinal of each data record that is left out.
    pub(super) gone: Vec<(u32, u32)>,
    /// Of the last record that there was.
    pub(super) last_time: u32,
}

const BASE_TIME: u64 = 1000;

impl Segment {
    pub(super) fn first() -> Self {
        Self::with(1, 1, 1, 1, (0, 0, 0))
    }

    /// The one after this, by the writer of an epoch.
    pub(super) fn next(&self, epoch: u32) -> Self {
        let position = self.base_position + u64::from(self.index);
        let before = (self.end, salt(self.id), self.index_crc);
        Self::with(self.id + 1, position, self.next_stream, epoch, before)
    }

    fn with(
        id: u32,
        base_position: u64,
        next_stream: u32,
        epoch: u32,
        before: (u64, u32, u32),
    ) -> Self {
        let uuid = [u8::try_from(id).unwrap() + 100; 16];
        let header = structure(
            512,
            b"RUNLOGSG",
            &[
                (12, &id.to_le_bytes()),
                (16, &STORE),
                (32, &base_position.to_le_bytes()),
                (40, &BASE_TIME.to_le_bytes()),
                (48, &before.0.to_le_bytes()),
                (56, &salt(id).to_le_bytes()),
                (60, &before.1.to_le_bytes()),
                (64, &next_stream.to_le_bytes()),
                (68, &[1, 1]),
                (72, &uuid),
                (112, &epoch.to_le_bytes()),
                (120, &before.2.to_le_bytes()),
                (152, &HASH_KEY),
            ],
        );
        let seed = crc(0, &[&STORE, &uuid, &salt(id).to_le_bytes()]);
        let mut bytes = vec![0; 4096];
        put(&mut bytes, 0, &header);
        put(&mut bytes, 2048, &header);
        Self {
            id,
            base_position,
            next_stream,
            header,
            seed,
            bytes,
            index: 0,
            written: Vec::new(),
            last_time: 0,
            index_crc: 0,
            end: 4096,
            pack: None,
        }
    }

    /// The image of the pack that stands for sealed segments, the first of which is the first of the log; without records.
    pub(super) fn pack(first: &Self, last: &Self) -> Self {
        let mut pack = Self::with(first.id, first.base_position, 1, 1, (0, 0, 0));
        let generation = 1_u32;
        let fields: [(usize, &[u8]); 7] = [
            (68, &[2]),
            (124, &generation.to_le_bytes()),
            (128, &first.id.to_le_bytes()),
            (132, &last.id.to_le_bytes()),
            (168, &last.end.to_le_bytes()),
            (176, &salt(last.id).to_le_bytes()),
            (180, &last.index_crc.to_le_bytes()),
        ];
        for (at, field) in fields {
            pack.change_header(at, field);
        }
        pack.next_stream = last.next_stream;
        pack.pack = Some(Pack {
            to: last.id,
            generation,
            next_position: last.base_position + u64::from(last.index),
            gone: Vec::new(),
            last_time: last.last_time,
        });
        pack
    }

    /// Adds a record that has a position, as a pack has it.
    pub(super) fn keep(&mut self, position: u64, entry: &Entry) {
        let index = u32::try_from(position - self.base_position).unwrap();
        let streams = self.next_stream;
        self.add(&Entry {
            index: Some(index),
            ..entry.clone()
        });
        self.next_stream = streams;
    }

    /// The name and the file of a pack, its image cut in blocks of so many bytes, each with the encoding if that saves room.
    pub(super) fn packed(&self, encoding: u8, bytes: usize) -> (String, Vec<u8>) {
        let pack = self.pack.as_ref().unwrap();
        let name = format!("{:08}-{:08}.{}.pack", self.id, pack.to, pack.generation);
        let mut file = self.bytes[..4096].to_vec();
        let mut table = Vec::new();
        let mut count = 0_u32;
        for (raw, nth) in self.bytes[4096..].chunks(bytes).zip(0..) {
            let (used, stored) = match encode(encoding, raw) {
                Some(stored) if stored.len() < raw.len() => (encoding, stored),
                _ => (0, raw.to_vec()),
            };
            let image_at = u32::try_from((4096 + nth * bytes) / 8).unwrap();
            table.extend(u32::try_from(file.len() / 8).unwrap().to_le_bytes());
            table.extend(image_at.to_le_bytes());
            file.extend(self.block_header(file.len(), used, &stored, raw, image_at));
            file.extend(&stored);
            file.resize(file.len().next_multiple_of(8), 0);
            count += 1;
        }
        let at = (file.len() as u64).to_le_bytes();
        let footer = structure(
            64,
            b"RUNLOGPK",
            &[
                (12, &salt(self.id).to_le_bytes()),
                (16, &(self.bytes.len() as u64).to_le_bytes()),
                (24, &at),
                (32, &count.to_le_bytes()),
                (36, &crc(self.seed, &[&at, &table]).to_le_bytes()),
            ],
        );
        file.extend(table);
        file.extend(footer);
        (name, file)
    }

    fn block_header(
        &self,
        place: usize,
        encoding: u8,
        stored: &[u8],
        raw: &[u8],
        image_at: u32,
    ) -> Vec<u8> {
        let mut header = vec![0, 0, 0, 0, encoding, 0, 0, 0];
        let words = [
            u32::try_from(stored.len()).unwrap(),
            u32::try_from(raw.len()).unwrap(),
            image_at,
            crc(0, &[raw]),
            crc(0, &[stored]),
            0,
        ];
        header.extend(words.into_iter().flat_map(u32::to_le_bytes));
        self.change_block(&mut header, place, 4, &[encoding]);
        header
    }

    /// Changes the header of the block at a place of the file, with a CRC that is right.
    pub(super) fn change_block(&self, header: &mut [u8], place: usize, at: usize, new: &[u8]) {
        put(header, at, new);
        let crc = crc(self.seed, &[&(place as u64).to_le_bytes(), &header[4..32]]);
        put(header, 0, &crc.to_le_bytes());
    }

    /// Changes both copies of the header, with CRCs that are right.
    pub(super) fn change_header(&mut self, at: usize, new: &[u8]) {
        change(&mut self.header, at, new);
        let header = self.header.clone();
        put(&mut self.bytes, 0, &header);
        put(&mut self.bytes, 2048, &header);
    }

    pub(super) fn add(&mut self, entry: &Entry) -> u64 {
        let offset = self.bytes.len() as u64;
        let mut body = Vec::new();
        let mut flags = entry.flags;
        if let Some(fields) = &entry.fields {
            body.extend(u16::try_from(fields.len()).unwrap().to_le_bytes());
            body.extend(fields);
            flags |= 128;
        }
        if let Some(key) = entry.key {
            body.push(u8::try_from(key.len()).unwrap());
            body.extend(key);
            flags |= 8;
        }
        body.extend(&entry.payload);
        let length = u32::try_from(body.len()).unwrap();
        body.resize(body.len().next_multiple_of(8), entry.padding);
        let index = entry.index.unwrap_or(self.index);
        let mut header = vec![0, 0, entry.kind, flags];
        let watermark = u32::try_from(entry.watermark.unwrap_or(0) / 8).unwrap();
        for word in [
            length,
            index,
            entry.stream,
            entry.sequence,
            entry.time,
            watermark,
        ] {
            header.extend(word.to_le_bytes());
        }
        let h = crc(self.seed, &[&offset.to_le_bytes(), &header[2..28]]);
        put(&mut header, 0, &h.to_le_bytes()[..2]);
        header.extend((crc(0, &[&body]) ^ h).to_le_bytes());
        self.bytes.extend(header);
        self.bytes.extend(body);
        self.last_time = entry.time;
        if entry.kind == 139 {
            self.written.push((entry.clone(), index, offset));
        } else if entry.kind != 134 && entry.kind != 135 {
            self.written.push((entry.clone(), index, offset));
            self.index = index + 1;
        }
        self.next_stream += u32::from(entry.kind == 128);
        self.end = self.bytes.len() as u64;
        offset
    }

    pub(super) fn all(mut self, entries: &[Entry]) -> Self {
        for entry in entries {
            self.add(entry);
        }
        self
    }

    /// Where the n-th record with a position is, from 0.
    pub(super) fn offset_of(&self, nth: usize) -> u64 {
        self.written[nth].2
    }

    /// Leaves the labels of the n-th record out of its index.
    pub(super) fn take_labels(&mut self, nth: usize) {
        self.written[nth].0.labels.clear();
    }

    /// Ends it with an index block and a trailer that has the flags.
    pub(super) fn seal(&mut self, flags: u32) {
        let end = self.end;
        let (block, table, sections) = self.block();
        let begin = end.to_le_bytes();
        let understood: Vec<u8> = table
            .chunks(32)
            .filter(|row| row[2] == 1)
            .flatten()
            .copied()
            .collect();
        self.index_crc = crc(self.seed, &[&begin, &understood, &self.header]);
        let table_crc = crc(self.seed, &[&begin, &table, &self.header]);
        let pack = self.pack.as_ref();
        let records = self.written.iter().filter(|(entry, ..)| entry.kind != 139);
        let records = u32::try_from(records.count()).unwrap();
        let next_position = pack.map_or(self.base_position + u64::from(self.index), |pack| {
            pack.next_position
        });
        let last = pack.map(|pack| (0, pack.last_time));
        let times = last.unwrap_or(match self.written.as_slice() {
            [] => (0, 0),
            [first, .., last] => (first.0.time, last.0.time),
            [only] => (only.0.time, only.0.time),
        });
        let words = [
            self.id,
            records,
            self.next_stream,
            flags,
            self.index_crc,
            table_crc,
            sections,
        ];
        let words: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let trailer = structure(
            128,
            b"RUNLOGIX",
            &[
                (12, &salt(self.id).to_le_bytes()),
                (16, &end.to_le_bytes()),
                (24, &self.base_position.to_le_bytes()),
                (32, &next_position.to_le_bytes()),
                (40, &(BASE_TIME + u64::from(times.0)).to_le_bytes()),
                (48, &(BASE_TIME + u64::from(times.1)).to_le_bytes()),
                (56, &words),
                (84, &(block.len() as u64).to_le_bytes()),
            ],
        );
        self.bytes.extend(block);
        self.bytes.extend(trailer);
    }

    pub(super) fn sealed(mut self) -> Self {
        self.seal(0);
        self
    }

    /// The index block, the table in it, and how many rows that has.
    fn block(&self) -> (Vec<u8>, Vec<u8>, u32) {
        let units = |offset: u64| u32::try_from(offset / 8).unwrap();
        let (mut samples, mut steps, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut streams: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        let gone = self.pack.iter().flat_map(|pack| &pack.gone);
        for (stream, ordinal) in gone {
            streams.entry(*stream).or_default().push((*ordinal, 0));
        }
        for (entry, index, offset) in &self.written {
            if entry.kind == 139 {
                let hash = siphash_2_4(&HASH_KEY, entry.key.unwrap_or_default());
                keys.push((entry.stream, hash, units(*offset)));
                continue;
            }
            if index % 64 == 0 || self.pack.is_some() {
                samples.push((*index, units(*offset)));
            }
            if entry.kind < 128 {
                streams
                    .entry(entry.stream)
                    .or_default()
                    .push((entry.sequence, units(*offset)));
            } else {
                let mut step = vec![0; 48];
                step[0] = entry.kind;
                put(&mut step, 4, &entry.stream.to_le_bytes());
                put(&mut step, 8, &entry.sequence.to_le_bytes());
                put(&mut step, 16, &units(*offset).to_le_bytes());
                if entry.kind == 128 {
                    put(&mut step, 32, &entry.payload);
                }
                steps.push(step);
            }
            if entry.kind == 133 {
                put(steps.last_mut().unwrap(), 24, &entry.payload[..8]);
            }
            if let Some(key) = entry.key.filter(|_| self.pack.is_none()) {
                keys.push((entry.stream, siphash_2_4(&HASH_KEY, key), units(*offset)));
            }
        }
        samples.sort_unstable();
        let samples = samples
            .into_iter()
            .map(|(index, offset)| [index.to_le_bytes(), offset.to_le_bytes()].concat())
            .collect();
        keys.sort_unstable();
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(stream, hash, offset)| {
                [
                    &stream.to_le_bytes()[..],
                    &offset.to_le_bytes(),
                    &hash.to_le_bytes(),
                ]
                .concat()
            })
            .collect();
        let (mut rows, mut postings) = (Vec::new(), Vec::new());
        streams
            .values_mut()
            .for_each(|records| records.sort_unstable());
        for (stream, records) in &streams {
            let words = [
                *stream,
                records[0].0,
                u32::try_from(records.len()).unwrap(),
                u32::try_from(postings.len()).unwrap(),
            ];
            let mut row: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            row.extend([u8::try_from(*stream).unwrap(); 16]);
            rows.push(row);
            postings.extend(
                records
                    .iter()
                    .map(|(_, offset)| offset.to_le_bytes().to_vec()),
            );
        }
        let [labels, label_postings, filter] = self.labels(&postings);
        let sections = [
            rows,
            postings,
            samples,
            steps,
            keys,
            labels,
            label_postings,
            filter,
        ];
        let (mut block, mut table) = (Vec::new(), Vec::new());
        for (section, number) in sections
            .iter()
            .zip(1_u16..)
            .filter(|(rows, _)| !rows.is_empty())
        {
            let (offset, bytes) = (self.end + block.len() as u64, section.concat());
            let length = bytes.len() as u64;
            let mut padded = bytes;
            padded.resize(padded.len().next_multiple_of(8), 0);
            table.extend(number.to_le_bytes());
            table.extend(u16::from(number < 6).to_le_bytes());
            let words = [
                u32::try_from(section[0].len()).unwrap(),
                u32::try_from(section.len()).unwrap(),
                crc(self.seed, &[&offset.to_le_bytes(), &padded]),
            ];
            table.extend(words.into_iter().flat_map(u32::to_le_bytes));
            table.extend(offset.to_le_bytes());
            table.extend(length.to_le_bytes());
            block.extend(padded);
        }
        let rows = u32::try_from(table.len() / 32).unwrap();
        block.extend(&table);
        block.extend(&self.header);
        (block, table, rows)
    }

    /// The elements of the sections of labels.
    fn labels(&self, postings: &[Vec<u8>]) -> [Vec<Vec<u8>>; 3] {
        // Records are written by rising position.
        let mut labels: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (entry, _, offset) in &self.written {
            let posting = u32::try_from(offset / 8).unwrap().to_le_bytes();
            for label in &entry.labels {
                let place = postings.iter().position(|other| *other == posting);
                labels.entry(*label).or_default().push(place.unwrap());
            }
        }
        let mut ends = Vec::new();
        let mut places = Vec::new();
        for (label, records) in &labels {
            places.extend(records.iter().map(|place| {
                let place = u32::try_from(*place).unwrap();
                place.to_le_bytes().to_vec()
            }));
            let end = u32::try_from(places.len()).unwrap();
            ends.push([&label.to_le_bytes()[..], &end.to_le_bytes()].concat());
        }
        [ends, places, filter(labels.keys().copied().collect())]
    }

    /// END, as a writer of an epoch that closes now leaves it.
    pub(super) fn end(&self, epoch: u32) -> Vec<u8> {
        let last = self.written.last().map_or(0, |(_, _, offset)| *offset);
        let at = usize::try_from(last).unwrap();
        let crc = if last == 0 {
            [0; 4]
        } else {
            self.bytes[at + 28..at + 32].try_into().unwrap()
        };
        let next_position = self.base_position + u64::from(self.index);
        let fields: [(usize, &[u8]); 8] = [
            (16, &STORE),
            (32, &self.id.to_le_bytes()),
            (36, &salt(self.id).to_le_bytes()),
            (40, &self.end.to_le_bytes()),
            (48, &next_position.to_le_bytes()),
            (56, &last.to_le_bytes()),
            (64, &crc),
            (68, &epoch.to_le_bytes()),
        ];
        structure(128, b"RUNLOGEN", &fields)
    }

    /// WATERMARK of so many bytes, when all is published.
    pub(super) fn watermark(&self, epoch: u32, bytes: usize) -> Vec<u8> {
        let position = self.base_position + u64::from(self.index) - 1;
        let fields: [(usize, &[u8]); 7] = [
            (12, &u32::try_from(bytes).unwrap().to_le_bytes()),
            (16, &STORE),
            (32, &BOOT),
            (48, &epoch.to_le_bytes()),
            (52, &self.id.to_le_bytes()),
            (56, &position.to_le_bytes()),
            (64, &self.end.to_le_bytes()),
        ];
        structure(bytes, b"RUNLOGWM", &fields)
    }

    /// CHECKPOINT of a store that has this segment alone, and in it stream 1 with so many records.
    pub(super) fn checkpoint(&self, epoch: u32, records: u32) -> Vec<u8> {
        let mut sealed = Self {
            bytes: Vec::new(),
            ..self.clone()
        };
        sealed.seal(0);
        let word = |word: u32| word.to_le_bytes().to_vec();
        let long = |long: u64| long.to_le_bytes().to_vec();
        let last_time = BASE_TIME + u64::from(self.written.last().expect("records").0.time);
        let place = [
            STORE.to_vec(),
            word(self.id),
            word(salt(self.id)),
            long(self.end),
            word(self.index),
            long(BASE_TIME + u64::from(self.written[0].0.time)),
            long(last_time),
            long(self.base_position + u64::from(self.index)),
            word(epoch),
        ];
        // One stream with one run, and no snapshot or fork.
        let counts = [word(1), word(1), word(0), word(0)];
        let same = |number: u32| [word(number), vec![0]].concat();
        let one = |number: u32| [word(number), vec![1, 0]].concat();
        let none = || [word(0), vec![1]].concat();
        let of_stream = [same(records), same(1), same(1), same(0), same(1), same(0)];
        let rest = [vec![one(1), one(1)], (0..11).map(|_| none()).collect()].concat();
        let piece = [
            counts.concat(),
            vec![1; 16],
            vec![0],
            of_stream.concat(),
            rest.concat(),
        ]
        .concat();
        let rest = [
            place.concat(),
            long(1),
            long(piece.len() as u64),
            piece,
            long(0),
            long(0),
        ];
        let rest = [rest.concat(), long(sealed.bytes.len() as u64), sealed.bytes].concat();
        checkpoint(&rest)
    }
}

/// The filter of labels, bit by bit.
fn filter(labels: Vec<u64>) -> Vec<Vec<u8>> {
    const SALTS: [u64; 8] = [
        0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947,
        0x5C6BFB31,
    ];
    let count = labels.len().div_ceil(16);
    let mut filter = vec![vec![0; 32]; count];
    for label in labels {
        let element = (label >> 32) * count as u64 / (1 << 32);
        for (word, salt) in SALTS.into_iter().enumerate() {
            let bit = usize::try_from((label % (1 << 32) * salt) % (1 << 32) / (1 << 27)).unwrap();
            filter[usize::try_from(element).unwrap()][word * 4 + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// A block with this encoding; `None` where this small writer can't.
fn encode(encoding: u8, raw: &[u8]) -> Option<Vec<u8>> {
    match encoding {
        1 => Some(lz4_flex::block::compress(raw)),
        // A zstd frame of one block, in which one byte is repeated.
        2 if raw.iter().all(|byte| *byte == raw[0]) => {
            let length = u32::try_from(raw.len()).unwrap();
            let block = (length << 3 | 1 << 1 | 1).to_le_bytes();
            let magic = 0xfd2f_b528_u32.to_le_bytes();
            Some(
                [
                    &magic[..],
                    &[0xa0],
                    &length.to_le_bytes(),
                    &block[..3],
                    &raw[..1],
                ]
                .concat(),
            )
        }
        _ => None,
    }
}

/// The payload of a receipt: steps of kind, stream, records, last sequence, first and last position; and what is left.
pub(super) fn receipt(
    steps: &[(u8, u32, u32, u32, u64, u64)],
    left: &[(u32, u32, u64)],
) -> Vec<u8> {
    let count = |length: usize| u32::try_from(length).unwrap().to_le_bytes();
    let mut payload = [count(steps.len()), count(left.len())].concat();
    for (kind, stream, records, last_sequence, first, last) in steps {
        payload.extend([*kind, 0, 0, 0]);
        payload.extend(
            [*stream, *records, *last_sequence]
                .into_iter()
                .flat_map(u32::to_le_bytes),
        );
        payload.extend([*first, *last].into_iter().flat_map(u64::to_le_bytes));
    }
    for (stream, sequence, position) in left {
        payload.extend([*stream, *sequence].into_iter().flat_map(u32::to_le_bytes));
        payload.extend(position.to_le_bytes());
    }
    payload
}

/// The file of a checkpoint that says this.
pub(super) fn checkpoint(rest: &[u8]) -> Vec<u8> {
    let mut header = b"RUNLOGCP\x01\0\0\0\0\0\0\0".to_vec();
    header.extend((rest.len() as u64).to_le_bytes());
    let crc = crc(0, &[&header, rest]);
    [&header, &crc.to_le_bytes()[..], &[0; 4], rest].concat()
}

pub(super) fn salt(segment: u32) -> u32 {
    0x5a17_0000 + segment
}

/// The files of a store that has these segments.
pub(super) fn files(segments: &[&Segment]) -> Files {
    let mut files = Files::from([("RUNLOG".to_owned(), runlog())]);
    for segment in segments {
        files.insert(format!("{:08}.seg", segment.id), segment.bytes.clone());
    }
    files
}
