//! The page and the engine agree: what the engine writes is read by a reader written from the page alone.

use runlog_engine::{
    Batch, Expected, Kind, NewRecord, Op, OpenOptions, Position, Sequence, Store, StreamId,
};
use runlog_tests::checker;

fn id(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

/// Every kind of record, over several segments.
fn write_everything(store: &Store) -> runlog_engine::Result<()> {
    let meta = br#"{"a":1}"#;
    let long = vec![b'x'; 9000];
    for round in 0..30_u8 {
        for stream in 1..=3 {
            let record = NewRecord {
                labels: &[],
                kind: Kind(round % 5),
                meta: if round % 2 == 0 { meta } else { &[] },
                payload: &long[..usize::from(round) * 100],
            };
            let op = Op::Append {
                stream: id(stream),
                expected: Expected::Any,
                records: vec![record; usize::from(stream)],
            };
            let key = [round, stream];
            store.commit(&Batch::new(vec![op]).with_key(&key))?;
        }
        store.snapshot(id(1), Sequence(u64::from(round) / 2), b"state")?;
    }
    store.fork(id(1), Sequence(20), id(4))?;
    store.append(id(4), Expected::Any, &[NewRecord::data(b"in the fork")])?;
    store.truncate(id(1), Sequence(15))?;
    store.append(id(1), Expected::Any, &[NewRecord::data(b"after the cut")])?;
    store.fork(id(4), Sequence(0), id(5))?;
    store.snapshot(id(5), Sequence(0), b"of nothing")?;
    store.snapshot(id(4), Sequence(3), b"of what is shared")?;
    store.redact(Position(2), "a secret")?;
    store.delete(id(2))?;
    store.append(id(6), Expected::Any, &[])?;
    store.append(id(1), Expected::Any, &[NewRecord::data(&long)])?;
    store.append(id(3), Expected::Any, &[NewRecord::data(&vec![7; 200_000])])?;
    store.append(id(3), Expected::Any, &[NewRecord::data(&long)])?;
    Ok(())
}

#[test]
fn the_checker_reads_what_the_engine_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    write_everything(&store).unwrap();
    let open = checker::check(folder.path()).unwrap();
    store.close().unwrap();
    let closed = checker::check(folder.path()).unwrap();
    assert_eq!(open.records, closed.records);
    assert!(closed.checkpoint.is_some());
    let read = store.scan(Position::FIRST).unwrap().count();
    assert_eq!(closed.records.len(), read);
}
