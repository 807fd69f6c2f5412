//! What opening does with files that check but say something else: a newer build's, an older copy, an end that is gone.

use std::sync::Arc;

use super::{
    tests::{append, options, payloads, stream},
    *,
};
use crate::{
    ErrorKind, Kind, SegmentId,
    format::{
        files::{self, End, Identity, WATERMARK_BYTES, Watermark},
        record::{self, Body, Flags},
        segment::{COPIES, COPY_BYTES, HEADER_BYTES, Header},
    },
    storage::{Access, File, MemoryStorage},
};

const FIRST: &str = "00000001.seg";

fn bytes_of(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    storage.create(name).unwrap().write_at(0, bytes).unwrap();
}

fn header_of(storage: &dyn Storage, name: &str) -> Header {
    Header::decode(&bytes_of(storage, name)[..HEADER_BYTES], name).unwrap()
}

/// A storage with a store of `count` records of one stream, closed.
fn closed(count: usize) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    for index in 0..count {
        append(&store, stream(1), &format!("record {index}"));
    }
    store.close().unwrap();
    storage
}

/// A storage with segments enough that the first is sealed, closed.
fn closed_with_segments(segments: u64) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    let store = Store::open_on(storage.clone(), options()).unwrap();
    while store.stat().unwrap().segments < segments {
        append(&store, stream(1), &"x".repeat(3000));
    }
    append(&store, stream(1), "last");
    store.close().unwrap();
    storage
}

fn kind_of_opening(storage: &Arc<MemoryStorage>, options: OpenOptions) -> Option<ErrorKind> {
    Store::open_on(storage.clone(), options)
        .err()
        .map(|error| error.kind())
}

/// The bytes of a whole record that a build wrote which knows more than this one.
fn record_of(segment: &Header, offset: u64, index: u32, kind: Kind, flags: u8) -> Vec<u8> {
    let body = Body {
        payload: b"from the future",
        ..Body::default()
    };
    let header = record::Header {
        kind,
        flags: Flags(flags),
        body_bytes: u32::try_from(body.encoded_bytes()).unwrap(),
        index,
        stream: 1,
        sequence: 4,
        time_delta_ms: 0,
        watermark: offset,
        body_crc: body.crc(),
    };
    let mut bytes = header.encode(segment.seed(), offset).to_vec();
    body.encode_into(&mut bytes);
    bytes
}

#[test]
fn record_of_a_newer_build_is_refused_by_name_and_never_overwritten() {
    for (kind, flags, word) in [
        (3, 3 | 32, "flag 32"),
        (3, 3 | 64, "flag 64"),
        (137, 3, "kind 137"),
    ] {
        let storage = closed(3);
        let mut bytes = bytes_of(&*storage, FIRST);
        let header = header_of(&*storage, FIRST);
        bytes.extend(record_of(&header, bytes.len() as u64, 4, Kind(kind), flags));
        put(&*storage, FIRST, &bytes);
        // A reader would look no further than a writer published.
        storage.remove(files::WATERMARK).unwrap();
        for options in [options(), options().read_only()] {
            let error = Store::open_on(storage.clone(), options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsupportedVersion, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
        assert_eq!(bytes_of(&*storage, FIRST), bytes, "nothing was changed");
    }
}

#[test]
fn record_that_may_be_skipped_has_a_position_and_is_left_out() {
    let storage = closed(3);
    let mut bytes = bytes_of(&*storage, FIRST);
    let header = header_of(&*storage, FIRST);
    bytes.extend(record_of(&header, bytes.len() as u64, 4, Kind(200), 3));
    put(&*storage, FIRST, &bytes);
    let store = Store::open_on(storage.clone(), options()).unwrap();
    assert_eq!(store.last_position().unwrap(), Position(5));
    assert_eq!(payloads(&store, stream(1)).len(), 3);
    assert_eq!(
        append(&store, stream(1), "after").last_position,
        Position(6)
    );
    drop(store);
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(payloads(&store, stream(1)).len(), 4);
}

#[test]
fn reserved_bytes_and_features_of_a_newer_build_are_refused_by_name() {
    let storage = closed(1);
    let identity = bytes_of(&*storage, files::IDENTITY);
    let changed = |at: usize, value: u8| {
        let mut bytes = identity[..identity.len() - 4].to_vec();
        bytes[at] = value;
        let crc = crate::checksum::crc(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        put(&*storage, files::IDENTITY, &bytes);
        (
            kind_of_opening(&storage, options()),
            kind_of_opening(&storage, options().read_only()),
        )
    };
    let unsupported = Some(ErrorKind::UnsupportedVersion);
    assert_eq!(
        changed(40, 1),
        (unsupported, unsupported),
        "an incompatible feature"
    );
    assert_eq!(
        changed(48, 2),
        (unsupported, None),
        "a read-only compatible feature"
    );
    assert_eq!(changed(56, 1), (None, None), "a compatible feature");
    assert_eq!(
        changed(100, 1),
        (unsupported, unsupported),
        "a reserved byte"
    );
    assert_eq!(changed(8, 2), (unsupported, unsupported), "a version");
}

#[test]
fn damaged_copy_of_a_header_costs_nothing_and_both_of_a_sealed_segment_neither() {
    for start in COPIES {
        let storage = closed(3);
        let mut bytes = bytes_of(&*storage, FIRST);
        bytes[start + 20] ^= 1;
        bytes[start + COPY_BYTES + 9] ^= 1;
        put(&*storage, FIRST, &bytes);
        let store = Store::open_on(storage, options()).unwrap();
        assert_eq!(payloads(&store, stream(1)).len(), 3);
    }
    let storage = closed_with_segments(3);
    let mut bytes = bytes_of(&*storage, FIRST);
    bytes[..HEADER_BYTES].fill(0xff);
    put(&*storage, FIRST, &bytes);
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(payloads(&store, stream(1)).last().unwrap(), "last");
}

#[test]
fn lost_end_of_a_closed_store_is_told_when_it_is_opened() {
    for from in [0.5, 0.9] {
        let storage = closed(20);
        let mut bytes = bytes_of(&*storage, FIRST);
        let record_bytes = bytes.len() - HEADER_BYTES;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let start = HEADER_BYTES + (record_bytes as f64 * from) as usize;
        bytes[start..].fill(0);
        put(&*storage, FIRST, &bytes);
        for options in [options(), options().read_only()] {
            assert_eq!(kind_of_opening(&storage, options), Some(ErrorKind::Damaged));
        }
    }
}

#[test]
fn end_of_an_earlier_close_still_holds_after_a_crash() {
    let storage = closed(5);
    let store = Store::open_on(storage.clone(), options()).unwrap();
    append(&store, stream(1), "after the close");
    let crashed = Arc::new(MemoryStorage::new());
    for name in storage.list().unwrap() {
        put(&*crashed, &name, &bytes_of(&*storage, &name));
    }
    let store = Store::open_on(crashed.clone(), options()).unwrap();
    assert!(!store.recovery().clean);
    assert_eq!(payloads(&store, stream(1)).len(), 6);
    drop(store);
    assert!(Store::open_on(crashed, options()).unwrap().recovery().clean);
}

#[test]
fn end_that_does_not_check_vouches_for_nothing_and_one_of_a_newer_build_is_refused() {
    let storage = closed(3);
    let mut bytes = bytes_of(&*storage, files::END);
    bytes[40] ^= 1;
    put(&*storage, files::END, &bytes);
    let store = Store::open_on(storage.clone(), options()).unwrap();
    assert!(!store.recovery().clean);
    drop(store);
    let mut bytes = bytes_of(&*storage, files::END);
    bytes.truncate(124);
    bytes[8] = 7;
    let crc = crate::checksum::crc(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    put(&*storage, files::END, &bytes);
    assert_eq!(
        kind_of_opening(&storage, options()),
        Some(ErrorKind::UnsupportedVersion)
    );
}

#[test]
fn older_copy_of_a_sealed_segment_is_told() {
    let storage = closed_with_segments(4);
    // A copy with one record's worth of another index: the header of the next segment names the index that was.
    let mut header = header_of(&*storage, "00000003.seg");
    header.predecessor_index_crc ^= 1;
    let mut bytes = bytes_of(&*storage, "00000003.seg");
    bytes[..HEADER_BYTES].copy_from_slice(&header.encode_both());
    put(&*storage, "00000003.seg", &bytes);
    let error = Store::open_on(storage, options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("does not follow 00000002.seg"),
        "{error}"
    );
}

#[test]
fn writers_are_told_apart_by_their_epochs() {
    let storage = Arc::new(MemoryStorage::new());
    for epoch in 1..=3 {
        let store = Store::open_on(storage.clone(), options()).unwrap();
        append(&store, stream(1), "one of this writer");
        assert_eq!(store.shared().epoch, epoch);
        store.close().unwrap();
        let end = End::decode(&bytes_of(&*storage, files::END), "x").unwrap();
        assert_eq!(
            (end.epoch, end.next_position),
            (epoch, u64::from(epoch) + 2)
        );
    }
    // As after crashes that left nothing but the log: its marks tell.
    for name in [files::END, files::CHECKPOINT, files::WATERMARK] {
        storage.remove(name).unwrap();
    }
    let store = Store::open_on(storage, options()).unwrap();
    assert_eq!(store.shared().epoch, 4);
    let positions: Vec<_> = store
        .scan(Position::FIRST)
        .unwrap()
        .map(|record| record.unwrap().position.0)
        .collect();
    assert_eq!(positions, [1, 2, 3, 4], "marks have no positions");
    assert_eq!(
        store.record(Position(4)).unwrap().unwrap().sequence,
        Sequence(3)
    );
}

#[test]
fn file_longer_than_a_segment_is_refused_without_being_read() {
    struct Long(MemoryStorage);
    struct LongFile(Arc<dyn File>);
    impl File for LongFile {
        fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
            assert!(bytes.len() <= 4096, "a look at the header is enough");
            self.0.read_at(offset, bytes)
        }
        fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
            self.0.write_at(offset, bytes)
        }
        fn sync(&self) -> std::io::Result<()> {
            self.0.sync()
        }
        fn set_len(&self, bytes: u64) -> std::io::Result<()> {
            self.0.set_len(bytes)
        }
        fn len(&self) -> std::io::Result<u64> {
            Ok(16 << 40)
        }
    }
    impl Storage for Long {
        fn create(&self, name: &str) -> std::io::Result<Arc<dyn File>> {
            self.0.create(name)
        }
        fn open(&self, name: &str, access: Access) -> std::io::Result<Arc<dyn File>> {
            let file = self.0.open(name, access)?;
            Ok(if name == FIRST {
                Arc::new(LongFile(file))
            } else {
                file
            })
        }
        fn list(&self) -> std::io::Result<Vec<String>> {
            self.0.list()
        }
        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.0.remove(name)
        }
        fn sync_dir(&self) -> std::io::Result<()> {
            self.0.sync_dir()
        }
        fn create_dir(&self) -> std::io::Result<()> {
            self.0.create_dir()
        }
        fn lock(
            &self,
            name: &str,
            holder: &str,
        ) -> std::result::Result<Box<dyn Send + Sync>, std::io::Result<String>> {
            self.0.lock(name, holder)
        }
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn boot_id(&self) -> Option<[u8; 16]> {
            self.0.boot_id()
        }
    }
    let storage = closed(3);
    let error = Store::open_on(Arc::new(Long((*storage).clone())), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("a segment has at most"),
        "{error}"
    );
}

#[test]
fn watermark_that_a_writer_cannot_open_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), options()).unwrap());
    let watermark = folder.path().join(files::WATERMARK);
    #[allow(
        clippy::disallowed_methods,
        reason = "a test changes the folder itself"
    )]
    {
        std::fs::remove_file(&watermark).unwrap();
        std::fs::create_dir(&watermark).unwrap();
    }
    let error = Store::open(folder.path(), options()).unwrap_err();
    assert!(
        error.to_string().contains("WATERMARK is a folder"),
        "{error}"
    );
}

#[test]
fn reader_refuses_the_watermark_of_a_newer_build() {
    let storage = closed(3);
    let mut bytes = vec![0; WATERMARK_BYTES];
    bytes[..8].copy_from_slice(b"RUNLOGWM");
    (bytes[8], bytes[12]) = (2, 96);
    let crc = crate::checksum::crc(&bytes[..WATERMARK_BYTES - 4]);
    bytes[WATERMARK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    put(&*storage, files::WATERMARK, &bytes);
    assert_eq!(
        kind_of_opening(&storage, options().read_only()),
        Some(ErrorKind::UnsupportedVersion)
    );
}

#[test]
fn reader_without_a_boot_id_is_not_held_back_by_a_watermark_that_outlived_a_loss_of_power() {
    /// A system that can't tell when the machine was started.
    #[derive(Clone)]
    struct NoBootId(MemoryStorage);
    impl Storage for NoBootId {
        fn create(&self, name: &str) -> std::io::Result<Arc<dyn File>> {
            self.0.create(name)
        }
        fn open(&self, name: &str, access: Access) -> std::io::Result<Arc<dyn File>> {
            self.0.open(name, access)
        }
        fn list(&self) -> std::io::Result<Vec<String>> {
            self.0.list()
        }
        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.0.remove(name)
        }
        fn sync_dir(&self) -> std::io::Result<()> {
            self.0.sync_dir()
        }
        fn create_dir(&self) -> std::io::Result<()> {
            self.0.create_dir()
        }
        fn lock(
            &self,
            name: &str,
            holder: &str,
        ) -> std::result::Result<Box<dyn Send + Sync>, std::io::Result<String>> {
            self.0.lock(name, holder)
        }
        fn describe(&self) -> String {
            self.0.describe()
        }
        fn boot_id(&self) -> Option<[u8; 16]> {
            None
        }
    }
    let storage = NoBootId(MemoryStorage::new());
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let mut old = Vec::new();
    for index in 0..10 {
        append(&store, stream(1), &format!("record {index}"));
        if index == 1 {
            old = bytes_of(&storage, files::WATERMARK);
        }
    }
    let crashed = NoBootId(MemoryStorage::new());
    for name in storage.list().unwrap() {
        put(&crashed, &name, &bytes_of(&storage, &name));
    }
    put(&crashed, files::WATERMARK, &old);
    assert_eq!(
        Watermark::decode(&old).unwrap().unwrap().segment,
        SegmentId(1)
    );
    let reader = Store::open_on(Arc::new(crashed), options().read_only()).unwrap();
    // All but the last, whose durability no later record proves.
    assert_eq!(payloads(&reader, stream(1)).len(), 9);
}

#[test]
fn lost_identity_says_how_to_make_it_again() {
    let storage = closed(3);
    let mut bytes = bytes_of(&*storage, files::IDENTITY);
    bytes[30] ^= 1;
    put(&*storage, files::IDENTITY, &bytes);
    let error = Store::open_on(storage.clone(), options()).unwrap_err();
    assert!(error.to_string().contains("--repair"), "{error}");
    let header = header_of(&*storage, FIRST);
    bytes[30] ^= 1;
    let identity = Identity::decode(&bytes, "x").unwrap();
    assert_eq!(
        (identity.store, identity.hash_key),
        (header.store, header.hash_key),
        "a segment has all of it"
    );
}

#[test]
fn reader_that_sees_an_older_folder_reads_what_was_published_by_then() {
    let storage = MemoryStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let (mut old, mut published) = (Vec::new(), 0);
    for index in 0.. {
        let segments = store.stat().unwrap().segments;
        if segments > 2 {
            break;
        }
        if segments == 2 {
            (old, published) = (bytes_of(&storage, files::WATERMARK), index);
        }
        append(&store, stream(1), &"x".repeat(3000));
    }
    // The second segment is sealed by now; a browser tells of the third, and of the watermark, when it is asked again.
    let seen = MemoryStorage::new();
    for name in storage.list().unwrap() {
        if name != "00000003.seg" && name != files::CHECKPOINT {
            put(&seen, &name, &bytes_of(&storage, &name));
        }
    }
    put(&seen, files::WATERMARK, &old);
    let seen: Arc<dyn Storage> = Arc::new(seen);
    let reader = Store::open_on(seen.clone(), options().read_only()).unwrap();
    assert!(payloads(&reader, stream(1)).len() >= published);
    put(&*seen, "00000003.seg", &bytes_of(&storage, "00000003.seg"));
    let watermark = seen.open(files::WATERMARK, Access::Write).unwrap();
    watermark
        .write_at(0, &bytes_of(&storage, files::WATERMARK))
        .unwrap();
    assert!(
        payloads(&reader, stream(1)) == payloads(&store, stream(1)),
        "it goes on where the older folder ended"
    );
}
