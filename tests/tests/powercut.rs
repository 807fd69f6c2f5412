//! The power goes under a real file system: all that was acknowledged as durable is there, and nothing that never was.
//!
//! A process works on a store on a real file system, whose disk is a loop device over a file that records every write and
//! every flush. From the recording come the states that a loss of power may leave: what was flushed, and of the rest
//! all, none, or some writes, blocks or sectors. Each is mounted, so that the file system recovers; then the store is
//! opened. One of the states is what the next process goes on with.

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        fs::File,
        path::{Path, PathBuf},
        process::{Command, ExitCode, Stdio},
        sync::Arc,
        time::Duration,
    };

    use runlog_engine::{ErrorKind, Missing, OpenOptions, Store, storage::FsStorage};
    use runlog_tests::{
        budget::{self, Budget},
        checker,
        mounts::{self, Mount, NotRun, Test, succeeds},
        powercut::{
            disk::Disk,
            image::{Event, Image, Kept},
            work::{Past, Possible},
        },
        random::Random,
        restarted::Restarted,
        tally::Tally,
    };

    const TESTS: [Test; 4] = [
        (
            "loss_of_power_under_ext4_loses_nothing_acknowledged",
            || cut_again_and_again(&EXT4),
        ),
        ("loss_of_power_under_xfs_loses_nothing_acknowledged", || {
            cut_again_and_again(&XFS)
        }),
        (
            "loss_of_power_under_btrfs_loses_nothing_acknowledged",
            || cut_again_and_again(&BTRFS),
        ),
        ("disk_that_loses_what_it_flushed_is_noticed", lying_disk),
    ];

    /// A file system, how large its disk has to be, and how it may be mounted.
    struct FileSystem {
        name: &'static str,
        mebibytes: u64,
        make: &'static [&'static str],
        mount: &'static [&'static str],
    }

    const EXT4: FileSystem = FileSystem {
        name: "ext4",
        mebibytes: 32,
        make: &[
            "-q",
            "-b",
            "4096",
            "-J",
            "size=4",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        ],
        mount: &[
            "data=ordered",
            "data=ordered",
            "data=writeback",
            "data=journal",
        ],
    };
    const XFS: FileSystem = FileSystem {
        name: "xfs",
        mebibytes: 320,
        make: &["-q"],
        mount: &["rw"],
    };
    const BTRFS: FileSystem = FileSystem {
        name: "btrfs",
        mebibytes: 160,
        make: &["-q", "-M"],
        mount: &["rw"],
    };

    pub(super) fn main() -> ExitCode {
        mounts::main(&TESTS)
    }

    /// Whether there is what is needed beyond a mount namespace: who makes the file system, a recorded disk, and a loop
    /// device on it.
    fn can_be_run(kind: &FileSystem) -> Result<(), NotRun> {
        if Command::new(format!("mkfs.{}", kind.name))
            .arg("-V")
            .output()
            .is_err()
        {
            return Err(NotRun(format!("there is no mkfs.{}", kind.name)));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let tally = Tally::create(&folder.path().join("tally")).expect("a file");
        let disk = Disk::new(
            &folder.path().join("disk"),
            made(kind, folder.path()),
            tally,
        )
        .map_err(|error| NotRun(format!("FUSE: {error}")))?;
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted).expect("a folder");
        Mount::image(disk.path(), kind.mount[0], &mounted)
            .map(drop)
            .map_err(NotRun)
    }

    /// A new file system.
    fn made(kind: &FileSystem, folder: &Path) -> Image {
        let path = folder.join("made");
        File::create(&path)
            .and_then(|file| file.set_len(kind.mebibytes << 20))
            .expect("there is room");
        succeeds(
            Command::new(format!("mkfs.{}", kind.name))
                .args(kind.make)
                .arg(&path),
        )
        .expect("it is made");
        let image = Image::load(&path).expect("just made");
        std::fs::remove_file(&path).expect("just made");
        image
    }

    /// What a process did and what its disk recorded.
    struct Recording {
        events: Vec<Event>,
        acknowledged: Vec<Acknowledged>,
    }

    #[derive(Clone, Copy)]
    struct Acknowledged {
        thread: usize,
        number: u64,
        position: u64,
        /// How much was recorded then at the latest.
        events: usize,
        is_durable: bool,
    }

    impl Acknowledged {
        /// Reads a line of the process; one that was cut off is none.
        fn parse(line: &str) -> Option<Self> {
            let mut words = line.split(' ');
            let mut number = || words.next()?.parse::<u64>().ok();
            let (thread, number, position, events) = (number()?, number()?, number()?, number()?);
            let is_durable = words.next() == Some("durable");
            let [thread, events] =
                [thread, events].map(|number| usize::try_from(number).expect("small"));
            Some(Self {
                thread,
                number,
                position,
                events,
                is_durable,
            })
        }
    }

    /// The folders of a test, in memory where that can be.
    struct Bench {
        kind: &'static FileSystem,
        folder: tempfile::TempDir,
        options: &'static str,
        /// How often the machine was started.
        starts: u64,
    }

    const THREADS: u64 = 3;

    /// A run after a past, from an image.
    struct Run<'a> {
        base: &'a Image,
        past: &'a Past,
        seed: u64,
        operations: u64,
    }

    impl Bench {
        fn new(kind: &'static FileSystem) -> Self {
            let folder = tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .expect("a folder");
            std::fs::create_dir(folder.path().join("mounted")).expect("a folder");
            Self {
                kind,
                folder,
                options: kind.mount[0],
                starts: 0,
            }
        }

        fn mounted(&self) -> PathBuf {
            self.folder.path().join("mounted")
        }

        /// Has a process work on the disk, and ends it early after so many milliseconds, if it is to be.
        fn record(
            &mut self,
            run: &Run<'_>,
            killed_after: Option<u64>,
            random: &mut Random,
        ) -> Recording {
            self.starts += 1;
            self.options = self.kind.mount[random.place(self.kind.mount.len())];
            let tally = self.folder.path().join("tally");
            let disk = Disk::new(
                &self.folder.path().join("disk"),
                run.base.clone(),
                Tally::create(&tally).expect("it is made"),
            )
            .expect("it was tried before");
            let said = self.folder.path().join("said");
            let mount = Mount::image(disk.path(), self.options, &self.mounted())
                .expect("the disk is sound");
            let mut child = Command::new(env!("CARGO_BIN_EXE_powercut"))
                .args([mount.folder().join("store"), tally])
                .args([
                    self.starts.to_string(),
                    run.past.to_string(),
                    run.seed.to_string(),
                ])
                .args([THREADS.to_string(), run.operations.to_string()])
                .stdout(Stdio::from(File::create(&said).expect("it is made")))
                .spawn()
                .expect("the process starts");
            if let Some(ms) = killed_after {
                std::thread::sleep(Duration::from_millis(ms));
                let _ = child.kill();
            }
            let status = child.wait().expect("it ends");
            assert!(
                killed_after.is_some() || status.success(),
                "the process that worked: {status}"
            );
            drop(mount);
            let said = std::fs::read_to_string(&said).expect("it was made");
            let acknowledged = said.lines().filter_map(Acknowledged::parse).collect();
            Recording {
                events: disk.recorded(),
                acknowledged,
            }
        }

        /// What was wrong with the store after a loss of power; else the operations of each thread that stayed. `None`
        /// when the file system itself can't be mounted any more.
        fn examine(
            &mut self,
            run: &Run<'_>,
            recording: &Recording,
            cut: &Cut,
        ) -> Option<Result<Vec<u64>, String>> {
            self.starts += 1;
            let path = self.folder.path().join("state");
            cut.image.save(&path).expect("there is room");
            let mount = Mount::image(&path, self.options, &self.mounted()).ok()?;
            let durable = recording.durable_position(cut.events);
            let possible = Possible::new(run.past, run.seed, THREADS, run.operations);
            Some(self.examine_store(&mount.folder().join("store"), run, durable, &possible).and_then(|stayed| {
                for line in &recording.acknowledged {
                    if line.position <= durable && stayed[line.thread] < line.number {
                        return Err(format!(
                            "thread {}: operation {} at position {} was durable up to {durable}, only {} are there",
                            line.thread, line.number, line.position, stayed[line.thread]
                        ));
                    }
                }
                Ok(stayed)
            }))
        }

        fn examine_store(
            &self,
            folder: &Path,
            run: &Run<'_>,
            durable: u64,
            possible: &Possible,
        ) -> Result<Vec<u64>, String> {
            let open = |options: OpenOptions| {
                let storage = Restarted::new(FsStorage::new(folder), self.starts);
                let options = OpenOptions {
                    segment_bytes_max: 64 << 10,
                    missing: Missing::Fail,
                    ..options
                };
                Store::open_on(Arc::new(storage), options)
            };
            let before_any_writer = match open(OpenOptions::default().read_only()) {
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && durable == 0
                        && run.past.is_empty() =>
                {
                    return Ok(vec![0; usize::try_from(THREADS).expect("few")]);
                }
                Err(error) => return Err(format!("opening to read: {:?}: {error}", error.kind())),
                Ok(store) => possible
                    .stayed(&store)
                    .map_err(|error| format!("read before any writer: {error}"))?,
            };
            let mut stayed = Vec::new();
            for time in 1..=2 {
                let store = open(OpenOptions::default())
                    .map_err(|error| format!("opening, time {time}: {error}"))?;
                let last = store.last_position().map_err(|error| error.to_string())?.0;
                if last < durable {
                    return Err(format!(
                        "opening, time {time}: ends at {last}, but {durable} was durable"
                    ));
                }
                let found = possible
                    .stayed(&store)
                    .map_err(|error| format!("opening, time {time}: {error}"))?;
                store
                    .close()
                    .map_err(|error| format!("closing, time {time}: {error}"))?;
                if time == 2 && found != stayed {
                    return Err(format!("opened once: {stayed:?}, twice: {found:?}"));
                }
                stayed = found;
            }
            if before_any_writer != stayed {
                return Err(format!(
                    "a reader saw {before_any_writer:?}, then a writer {stayed:?}"
                ));
            }
            checker::check(folder).map_err(|problem| format!("checker: {problem}"))?;
            Ok(stayed)
        }
    }

    impl Recording {
        /// The highest position that was durable when so many events had happened.
        fn durable_position(&self, events: usize) -> u64 {
            let durable = self
                .acknowledged
                .iter()
                .filter(|line| line.is_durable && line.events <= events);
            durable.map(|line| line.position).max().unwrap_or(0)
        }

        /// A moment for the power to go: any, right after an acknowledgement, or just before a flush.
        fn moment(&self, random: &mut Random) -> usize {
            let any = random.place(self.events.len() + 1);
            match random.below(3) {
                0 if !self.acknowledged.is_empty() => self.acknowledged
                    [random.place(self.acknowledged.len())]
                .events
                .min(self.events.len()),
                1 => {
                    let flush = self.events[any..]
                        .iter()
                        .position(|event| matches!(event, Event::Flush));
                    flush.map_or(any, |flush| any + flush)
                }
                _ => any,
            }
        }
    }

    /// A state after a loss of power.
    struct Cut {
        events: usize,
        kept: Kept,
        image: Image,
    }

    fn cut_again_and_again(kind: &'static FileSystem) -> Result<(), NotRun> {
        can_be_run(kind)?;
        let budget = budget::of(&format!("power cut under {}", kind.name));
        let first = budget.seed() % 1_000_000_000;
        for seed in first.. {
            // Three processes one after the other, the second and third on what the one before left.
            chain(kind, seed, &budget);
            if !budget.goes_on() {
                break;
            }
        }
        Ok(())
    }

    /// The harness itself: what was flushed late is taken away, as no disk may, and that doesn't pass.
    fn lying_disk() -> Result<(), NotRun> {
        can_be_run(&EXT4)?;
        let (mut bench, mut random) = (Bench::new(&EXT4), Random::new(1));
        let (base, past) = (made(&EXT4, bench.folder.path()), Past::default());
        let run = Run {
            base: &base,
            past: &past,
            seed: 1,
            operations: 60,
        };
        let mut recording = bench.record(&run, None, &mut random);
        for kept in [Kept::All, Kept::None] {
            // A third of what happened before the last acknowledgement is gone.
            let events = recording.events.len() / 3;
            let image = base.after_power_cut(&recording.events[..events], kept, &mut random);
            let cut = Cut {
                events: recording.events.len(),
                kept,
                image,
            };
            let told = bench
                .examine(&run, &recording, &cut)
                .expect("it was whole then")
                .expect_err("a loss");
            assert!(told.contains("durable"), "{told}");
        }
        // And a record that nobody wrote: of another seed.
        let run = Run { seed: 2, ..run };
        recording.acknowledged.clear();
        let image = base.after_power_cut(&recording.events, Kept::All, &mut random);
        let cut = Cut {
            events: recording.events.len(),
            kept: Kept::All,
            image,
        };
        let told = bench
            .examine(&run, &recording, &cut)
            .expect("it is whole")
            .expect_err("an invention");
        assert!(told.contains("never was"), "{told}");
        Ok(())
    }

    fn chain(kind: &'static FileSystem, seed: u64, budget: &Budget) {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(kind);
        let (mut base, mut past) = (made(kind, bench.folder.path()), Past::default());
        let (states, operations) = if budget::is_torture() {
            (60, 400)
        } else {
            (12, 120)
        };
        for generation in 1..=3_u64 {
            let run = Run {
                base: &base,
                past: &past,
                seed: seed * 10 + generation,
                operations,
            };
            let killed_after = random.one_in(3).then(|| 30 + random.below(400));
            let recording = bench.record(&run, killed_after, &mut random);
            budget.add("writes recorded", recording.events.len() as u64);
            budget.add(
                "operations acknowledged",
                recording.acknowledged.len() as u64,
            );
            let mut next = None;
            for number in 1..=states {
                let kept = Kept::ALL[random.place(Kept::ALL.len())];
                let events = recording.moment(&mut random);
                let image = base.after_power_cut(&recording.events[..events], kept, &mut random);
                let cut = Cut {
                    events,
                    kept,
                    image,
                };
                match bench.examine(&run, &recording, &cut) {
                    None => budget.add("states that the file system did not survive", 1),
                    Some(Ok(stayed)) => {
                        budget.add("states survived", 1);
                        next = Some((cut.image, stayed));
                    }
                    Some(Err(wrong)) => panic!(
                        "seed {seed}, process {generation}, state {number} ({}, {:?} after {} of {} events): {wrong}",
                        bench.options,
                        cut.kept,
                        cut.events,
                        recording.events.len(),
                    ),
                }
            }
            let (image, stayed) = next.expect("the file system survives some");
            past = past.and(run.seed, stayed);
            base = image;
        }
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
