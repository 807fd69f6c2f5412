//! Devices that are full: one that says so at once, and a thin one, which takes what it has no room for and fails when it
//! is flushed. What was acknowledged as durable is there, and once there is space appends go on.
//!
//! A thin device is a loop device over a file that is served by the test and refuses some writes: what the file system on it
//! gave out there is lost when it is flushed.

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        fs::File,
        path::{Path, PathBuf},
        process::{Command, ExitCode},
        sync::Arc,
    };

    use runlog_engine::{
        Batch, Durability, ErrorKind, Expected, NewRecord, Op, OpenOptions, Preallocation,
        ReadOptions, Store, storage::FsStorage,
    };
    use runlog_tests::{
        budget::{self, Budget},
        mounts::{self, Device, Mount, NotRun, Test, check, fill, succeeds},
        powercut::{disk::Disk, image::Image},
        processes::{payload, stream},
        random::Random,
        restarted::Restarted,
        tally::Tally,
    };

    const TESTS: [Test; 3] = [
        (
            "thin_device_that_is_full_loses_nothing_acknowledged_as_durable",
            thin_devices,
        ),
        (
            "full_device_refuses_appends_until_there_is_space_where_room_is_made_ahead",
            || full(Preallocation::Auto),
        ),
        (
            "full_device_refuses_appends_until_there_is_space_where_files_grow",
            || full(Preallocation::None),
        ),
    ];

    pub(super) fn main() -> ExitCode {
        mounts::main(&TESTS)
    }

    /// A file system on a device that takes no more writes to some blocks, those of one file's room. All else it takes, so
    /// that the file system itself meets no error.
    struct Thin {
        mount: Option<Mount>,
        disk: Disk,
        folder: tempfile::TempDir,
    }

    impl Thin {
        fn new() -> Result<Self, NotRun> {
            let folder = tempfile::tempdir().expect("a folder");
            let [image, tally, disk] =
                ["image", "tally", "disk"].map(|name| folder.path().join(name));
            File::create(&image)
                .and_then(|file| file.set_len(64 << 20))
                .expect("it is sparse");
            let make = [
                "-q",
                "-b",
                "4096",
                "-J",
                "size=4",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            ];
            succeeds(Command::new("mkfs.ext4").args(make).arg(&image)).map_err(NotRun)?;
            let tally = Tally::create(&tally).expect("a file");
            let image = Image::load(&image).expect("just made");
            let disk =
                Disk::new(&disk, image, tally).map_err(|error| NotRun(format!("FUSE: {error}")))?;
            std::fs::create_dir(folder.path().join("on")).expect("a folder");
            let mut thin = Self {
                mount: None,
                disk,
                folder,
            };
            thin.mount().map_err(NotRun)?;
            Ok(thin)
        }

        fn mount(&mut self) -> Result<(), String> {
            let mount = Mount::image(self.disk.path(), "rw", &self.folder.path().join("on"))?;
            // One write to the loop device is one to the disk: of one that was done in part the loop device says that it was
            // done.
            let mounts =
                std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
            let on = mount.folder().to_str().ok_or("the path is no text")?;
            let line = mounts
                .lines()
                .find(|line| line.split(' ').nth(1) == Some(on));
            let device = line
                .and_then(|line| line.split(' ').next()?.strip_prefix("/dev/"))
                .ok_or("no loop device")?;
            std::fs::write(format!("/sys/block/{device}/queue/max_sectors_kb"), "512")
                .map_err(|error| error.to_string())?;
            self.mount = Some(mount);
            Ok(())
        }

        /// Unmounts and mounts it, so that what was never written to the device is gone.
        fn remount(&mut self) {
            self.mount = None;
            self.mount().expect("the file system is whole");
        }

        fn place(&self, name: &str) -> PathBuf {
            self.folder.path().join("on").join(name)
        }

        /// Takes no more writes to a file's blocks from one on.
        fn be_full(&self, file: &Path, from_block: u64) -> Result<(), NotRun> {
            let ranges = extents(file)?.into_iter().map(|(first, physical, count)| {
                let skip = from_block.saturating_sub(first).min(count);
                (physical + skip) * 4096..(physical + count) * 4096
            });
            self.disk
                .be_full(ranges.filter(|range| !range.is_empty()).collect());
            Ok(())
        }
    }

    /// Where a file's blocks lie: the first of them, the first on the device, and how many.
    fn extents(file: &Path) -> Result<Vec<(u64, u64, u64)>, NotRun> {
        let output = Command::new("filefrag").arg("-v").arg(file).output();
        let output = output.map_err(|error| NotRun(format!("filefrag: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Such as `   0:        0..    1023:      34816..     35839:   1024:             last,eof`.
        let extents: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let mut parts = line.split(':').map(str::trim);
                parts.next()?.parse::<u64>().ok()?;
                let mut first = || parts.next()?.split("..").next()?.trim().parse::<u64>().ok();
                let (logical, physical) = (first()?, first()?);
                Some((logical, physical, parts.next()?.parse().ok()?))
            })
            .collect();
        if extents.is_empty() {
            Err(NotRun(format!("filefrag says: {text}")))
        } else {
            Ok(extents)
        }
    }

    fn options() -> OpenOptions {
        OpenOptions {
            segment_bytes_max: 16 << 20,
            ..OpenOptions::default()
        }
    }

    fn append(store: &Store, sequence: u64, durability: Durability) -> runlog_engine::Result<()> {
        let payload = payload(0, sequence);
        let append = Op::Append {
            stream: stream(0),
            expected: Expected::Any,
            records: vec![NewRecord::data(&payload)],
        };
        store
            .commit(&Batch::new(vec![append]).with_durability(durability))
            .map(drop)
    }

    fn last_sequence(store: &Store) -> u64 {
        store
            .stream(stream(0))
            .expect("it reads")
            .map_or(0, |info| info.last_sequence.0)
    }

    /// A store as a crash leaves it: with room in its file.
    fn left_by_a_crash(thin: &Thin) -> PathBuf {
        let store = Store::open(thin.place("store"), options()).expect("there is room");
        (1..=20).for_each(|sequence| {
            append(&store, sequence, Durability::Sync).expect("there is room")
        });
        let copied = Command::new("cp")
            .args(["-r", "--sparse=never"])
            .args([thin.place("store"), thin.place("crashed")])
            .status();
        assert!(copied.is_ok_and(|status| status.success()));
        store.close().expect("there is room");
        std::fs::remove_dir_all(thin.place("store")).expect("it is there");
        succeeds(&mut Command::new("sync")).expect("it flushes");
        thin.place("crashed")
    }

    /// Appends, mostly without a flush, until one is refused; the last that was acknowledged as durable.
    fn append_until_refused(
        store: &Store,
        random: &mut Random,
        durable: &mut u64,
        budget: &Budget,
    ) -> String {
        // On every other device none at all.
        let one_in = if random.one_in(2) {
            u64::MAX
        } else {
            1 << random.below(12)
        };
        let mut last = last_sequence(store);
        loop {
            let durability = if random.one_in(one_in) {
                Durability::Sync
            } else {
                Durability::Os
            };
            match append(store, last + 1, durability) {
                Ok(()) => {
                    last += 1;
                    budget.add("acknowledged", 1);
                    if durability == Durability::Sync {
                        *durable = last;
                    }
                }
                Err(error) => return format!("{:?}: {error}", error.kind()),
            }
            // Where everything fits.
            if last > 12_000 {
                return "nothing".to_owned();
            }
        }
    }

    /// One device that is full while a store is written to; what was lost.
    fn thin_device(seed: u64, budget: &Budget) -> Result<(), NotRun> {
        let mut random = Random::new(seed);
        let mut thin = Thin::new()?;
        let place = left_by_a_crash(&thin);
        let mut durable = 20;
        // From somewhere on the first file's room is not to be had.
        thin.be_full(&place.join("00000001.seg"), 64 + random.below(900))?;
        let store =
            Store::open(&place, options()).expect("it was sound, and reading takes no room");
        let refused = append_until_refused(&store, &mut random, &mut durable, budget);
        let last = last_sequence(&store);
        thin.disk.be_full(Vec::new());
        budget.add("refused", 1);
        // It goes on, or says that it can't. It is not opened anew on the same mount: what Linux itself still has of pages that
        // it failed to write is not what is tried here.
        let mut after = vec![format!("{durable} were durable, {last} there")];
        for sequence in last + 1..=last + 5 {
            match append(&store, sequence, Durability::Sync) {
                Ok(()) => durable = sequence,
                Err(error) => {
                    after.push(format!("append: {error}"));
                    break;
                }
            }
        }
        after.push(format!("{durable} are durable"));
        drop(store);
        thin.remount();
        let restarted = Arc::new(Restarted::new(FsStorage::new(&place), 1));
        let store = Store::open_on(restarted, options()).unwrap_or_else(|error| {
            panic!("seed {seed}: {refused}; {after:?}; after the device was seen anew: {error}")
        });
        let found = last_sequence(&store);
        assert!(
            found >= durable,
            "seed {seed}: {refused}; {after:?}; after the device was seen anew {found} are there, {} are lost",
            durable - found
        );
        for (record, sequence) in store
            .read(stream(0), ReadOptions::default())
            .expect("it is there")
            .zip(1..)
        {
            let record = record.unwrap_or_else(|error| {
                panic!("seed {seed}: {refused}; {after:?}; then sequence {sequence}: {error}")
            });
            assert!(
                record.payload == payload(0, sequence),
                "seed {seed}: sequence {sequence} is another"
            );
        }
        Ok(())
    }

    fn thin_devices() -> Result<(), NotRun> {
        let budget = budget::of("thin devices");
        let first = budget.seed() % 1_000_000_000;
        for seed in first.. {
            thin_device(seed, &budget)?;
            budget.add("devices", 1);
            if seed >= first + 2 && !budget.goes_on() {
                break;
            }
        }
        Ok(())
    }

    /// Fills a device and gives it back piece by piece: the store goes on each time there is enough, and never has to be
    /// opened anew; now and then it is, while the device is full.
    fn full(preallocation: Preallocation) -> Result<(), NotRun> {
        const PIECES: u64 = 24;
        const PIECE_BYTES: usize = 200 << 10;
        let budget = budget::of(&format!("full devices, {preallocation:?}"));
        for durability in [Durability::Sync, Durability::Os] {
            let told = format!("{durability:?}, {preallocation:?}");
            let device = Device::new(10);
            let ballast = |number| device.mount.folder().join(format!("ballast{number}"));
            (0..PIECES).for_each(|number| {
                std::fs::write(ballast(number), vec![1; PIECE_BYTES]).expect("there is room")
            });
            let options = device.options(durability, preallocation);
            let mut store = Store::open(device.store(), options.clone()).expect("there is room");
            let (first, kind) = fill(&store, 0);
            assert_eq!(kind, ErrorKind::StorageFull, "{told}: full");
            let mut acknowledged = first;
            for number in 0..PIECES {
                if number % 5 == 2 {
                    store.close().unwrap_or_else(|error| {
                        panic!("{told}, time {number}: closed while full: {error}")
                    });
                    drop(store);
                    store = Store::open(device.store(), options.clone()).unwrap_or_else(|error| {
                        panic!("{told}, time {number}: opened while full: {error}")
                    });
                    let (more, kind) = fill(&store, acknowledged);
                    assert_eq!(
                        kind,
                        ErrorKind::StorageFull,
                        "{told}, time {number}: opened while full"
                    );
                    acknowledged = more;
                }
                std::fs::remove_file(ballast(number)).expect("it is there");
                let (more, kind) = fill(&store, acknowledged);
                assert_eq!(
                    kind,
                    ErrorKind::StorageFull,
                    "{told}, time {number}: full again"
                );
                acknowledged = more;
            }
            // Of what was given back at least a half was of use.
            let least = PIECES * PIECE_BYTES as u64 / 2 / 1600;
            assert!(
                acknowledged > first + least,
                "{told}: {first}, then {acknowledged} with 4.7 MiB more"
            );
            store
                .close()
                .unwrap_or_else(|error| panic!("{told}: closed at the end: {error}"));
            drop(store);
            check(&device.store(), acknowledged, 0);
            budget.add("records", acknowledged);
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!(
        "test result: ok. 0 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    );
}
