//! The real command on a full device: what it says, how it ends, and what it leaves there. Nothing half done looks whole,
//! what was read from stays as it is, and the same command goes on once there is room.

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::BTreeMap,
        fs,
        path::{Path, PathBuf},
        process::{Command, ExitCode, Stdio},
        thread,
        time::Duration,
    };

    use runlog_tests::{
        command,
        mounts::{self, Device, NotRun, Test},
        random::Random,
    };

    const TESTS: [Test; 6] = [
        ("file_that_has_no_room_is_not_left_half_written", files),
        (
            "backup_that_has_no_room_is_a_sound_store_and_goes_on",
            backup,
        ),
        ("import_that_has_no_room_loses_nothing_and_goes_on", || {
            import(false)
        }),
        (
            "import_of_an_archive_that_has_no_room_shows_nothing_of_it_and_goes_on",
            || import(true),
        ),
        ("repair_that_has_no_room_changes_nothing", repair),
        (
            "compaction_killed_on_a_device_of_little_room_loses_nothing",
            compaction,
        ),
    ];
    const ROOM_MIB: u32 = 4;
    const CONVERSATIONS: usize = 200;

    pub(super) fn main() -> ExitCode {
        mounts::main(&TESTS)
    }

    /// What the command said, and how it ended.
    #[derive(Debug)]
    struct Said {
        code: i32,
        out: String,
        err: String,
    }

    impl Said {
        /// It failed for want of room, and says so.
        #[track_caller]
        fn is_full(&self) {
            assert_eq!(self.code, 1, "{self:?}");
            let last = self.err.lines().last().unwrap_or_default();
            assert!(last.contains(r#""kind":"storage_full""#), "{self:?}");
            assert!(last.to_lowercase().contains("no space left"), "{self:?}");
        }

        #[track_caller]
        fn is_done(&self) {
            assert_eq!(self.code, 0, "{self:?}");
        }
    }

    fn runlog(store: &Path, arguments: &[&str]) -> Said {
        let output = Command::new(command::runlog())
            .args(["--json", "--store"])
            .arg(store)
            .args(arguments)
            .output()
            .expect("it starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said {
            code: output.status.code().expect("no signal ended it"),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    fn text(path: &Path) -> &str {
        path.to_str().expect("a path of text")
    }

    /// Conversations, a line each, and a store that has them; more than there is room for.
    struct Recorded {
        folder: tempfile::TempDir,
    }

    impl Recorded {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let recorded = Self { folder };
            let mut random = Random::new(3);
            let mut lines = String::new();
            for number in 0..CONVERSATIONS {
                let words: Vec<String> = (0..3000)
                    .map(|_| format!("{:x}", random.next_u64()))
                    .collect();
                let words = words.join(" ");
                lines += &format!(
                    r#"{{"messages":[{{"role":"user","content":"{number}"}},{{"role":"assistant","content":"{words}"}}]}}"#
                );
                lines.push('\n');
            }
            fs::write(recorded.chats(), lines).expect("there is room");
            runlog(&recorded.store(), &["import", text(&recorded.chats())]).is_done();
            recorded
        }

        fn chats(&self) -> PathBuf {
            self.folder.path().join("chats.jsonl")
        }

        fn store(&self) -> PathBuf {
            self.folder.path().join("store")
        }
    }

    /// The files of a folder but for the lock's, whose content says who had it last.
    fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| entry.expect("it reads"))
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read(entry.path()).expect("it reads"))
            })
            .filter(|(name, _)| name != "LOCK")
            .collect()
    }

    fn sessions(store: &Path) -> usize {
        let said = runlog(store, &["ls", "--limit", "1000"]);
        said.is_done();
        said.out.lines().count()
    }

    fn give_room(device: &Device) {
        device.mount.remount("size=200m").expect("it can grow");
    }

    /// Takes all room but so many bytes, by a file at a path.
    fn leave(device: &Device, taken: &Path, bytes: usize) {
        let output = Command::new("df")
            .args(["--output=avail", "-B1"])
            .arg(device.mount.folder())
            .output()
            .expect("df runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let free: Option<usize> = said.lines().nth(1).and_then(|it| it.trim().parse().ok());
        let free = free.expect("how much is free");
        fs::write(taken, vec![1; free - bytes]).expect("there is room");
    }

    fn files() -> Result<(), NotRun> {
        let recorded = Recorded::new();
        let before = content(&recorded.store());
        let device = Device::new(ROOM_MIB);
        let path = device.mount.folder().join("file");
        let commands: [&[&str]; 4] = [
            &["export", "--all", "-o"],
            &["export", "--all", "--skip-damaged", "-o"],
            &["export", "@last", "--format", "events", "-o"],
            &["salvage", "--out"],
        ];
        for command in commands {
            let mut arguments = command.to_vec();
            arguments.push(text(&path));
            if command.contains(&"@last") {
                // One session alone is small.
                let taken = vec![1; (usize::try_from(ROOM_MIB).expect("few") << 20) - 8192];
                fs::write(device.mount.folder().join("taken"), taken).expect("there is room");
            }
            runlog(&recorded.store(), &arguments).is_full();
            let _ = fs::remove_file(device.mount.folder().join("taken"));
            let left = content(device.mount.folder());
            assert!(left.is_empty(), "{command:?}: {:?}", left.keys());
        }
        give_room(&device);
        for command in commands {
            let mut arguments = command.to_vec();
            arguments.push(text(&path));
            runlog(&recorded.store(), &arguments).is_done();
            let said = runlog(&recorded.store(), &arguments);
            assert_eq!(
                said.code, 4,
                "it never takes the place of another: {said:?}"
            );
            fs::remove_file(&path).expect("it is there");
        }
        assert!(
            content(&recorded.store()) == before,
            "the store was changed"
        );
        Ok(())
    }

    fn backup() -> Result<(), NotRun> {
        let recorded = Recorded::new();
        let before = content(&recorded.store());
        let device = Device::new(ROOM_MIB);
        let copy = device.store();
        for _ in 0..2 {
            runlog(&recorded.store(), &["backup", text(&copy)]).is_full();
            runlog(&copy, &["verify"]).is_done();
        }
        give_room(&device);
        runlog(&recorded.store(), &["backup", text(&copy)]).is_done();
        runlog(&copy, &["verify"]).is_done();
        assert_eq!(sessions(&copy), CONVERSATIONS);
        assert!(
            content(&recorded.store()) == before,
            "the store was changed"
        );
        Ok(())
    }

    fn import(is_archive: bool) -> Result<(), NotRun> {
        let recorded = Recorded::new();
        let archive = recorded.folder.path().join("archive.jsonl");
        let file = if is_archive {
            runlog(
                &recorded.store(),
                &["export", "--all", "-o", text(&archive)],
            )
            .is_done();
            archive
        } else {
            recorded.chats()
        };
        let device = Device::new(ROOM_MIB);
        let store = device.store();
        for _ in 0..2 {
            runlog(&store, &["import", text(&file)]).is_full();
            runlog(&store, &["verify"]).is_done();
            let shown = sessions(&store);
            assert!(shown < CONVERSATIONS, "{shown}");
            if is_archive {
                assert_eq!(shown, 0, "their content isn't there yet");
            }
        }
        give_room(&device);
        runlog(&store, &["import", text(&file)]).is_done();
        runlog(&store, &["verify"]).is_done();
        let exported = |store: &Path| {
            let said = runlog(store, &["export", "--all", "--format", "runlog"]);
            said.is_done();
            said.out.lines().count()
        };
        assert_eq!(sessions(&store), CONVERSATIONS);
        assert_eq!(exported(&store), exported(&recorded.store()));
        Ok(())
    }

    /// With a reader beside it each time, in a process of its own.
    fn compaction() -> Result<(), NotRun> {
        let recorded = Recorded::new();
        let keep = (CONVERSATIONS / 3).to_string();
        runlog(&recorded.store(), &["retain", "--keep-last", &keep]).is_done();
        let files = content(&recorded.store());
        let exported = |store: &Path| {
            let said = runlog(store, &["export", "--all"]);
            said.is_done();
            said.out
        };
        let expected = exported(&recorded.store());
        let mut random = Random::new(11);
        let mut refused = 0;
        for round in 0..8 {
            let device = Device::new(64);
            let store = device.store();
            fs::create_dir(&store).expect("there is room");
            for (name, bytes) in &files {
                fs::write(store.join(name), bytes).expect("there is room");
            }
            let taken = device.mount.folder().join("taken");
            leave(
                &device,
                &taken,
                [8 << 10, 64 << 10, 1 << 20, 4 << 20][round % 4],
            );
            for scope in ["sparse", "sealed", "all"] {
                let mut compaction = Command::new(command::runlog())
                    .args(["--json", "compact", "--scope", scope, "--store"])
                    .arg(&store)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .expect("it starts");
                if random.one_in(2) {
                    thread::sleep(Duration::from_millis(random.below(300)));
                    let _ = compaction.kill();
                }
                assert!(
                    exported(&store) == expected,
                    "round {round}, beside {scope}"
                );
                let output = compaction.wait_with_output().expect("it ends");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                match output.status.code() {
                    // Done, or killed.
                    Some(0) | None => {}
                    Some(_) => {
                        assert!(said.contains(r#""kind":"storage_full""#), "{said}");
                        refused += 1;
                    }
                }
                assert!(exported(&store) == expected, "round {round}, after {scope}");
                runlog(&store, &["verify"]).is_done();
            }
            fs::remove_file(&taken).expect("it is there");
            runlog(&store, &["compact"]).is_done();
            assert!(exported(&store) == expected, "round {round}, with room");
        }
        assert!(refused > 0, "there was always room");
        Ok(())
    }

    /// What is overwritten is saved in a file of its own before, which has no room here.
    fn repair() -> Result<(), NotRun> {
        let recorded = Recorded::new();
        let device = Device::new(64);
        let store = device.store();
        fs::create_dir(&store).expect("there is room");
        let mut files = content(&recorded.store());
        let (_, last) = files
            .iter_mut()
            .rfind(|(name, _)| name.ends_with(".seg"))
            .expect("it has one");
        let middle = last.len() - 100;
        last[middle] ^= 1;
        for (name, bytes) in &files {
            fs::write(store.join(name), bytes).expect("there is room");
        }
        let taken = device.mount.folder().join("taken");
        // A page stays for the lock.
        leave(&device, &taken, 4096);
        runlog(&store, &["verify", "--repair"]).is_full();
        let mut left = content(&store);
        left.retain(|name, _| !name.ends_with(".tmp"));
        let changed = |name: &&String| left.get(*name) != files.get(*name);
        let changed: Vec<_> = files.keys().filter(changed).collect();
        assert!(changed.is_empty(), "{changed:?}");
        assert_eq!(left.len(), files.len(), "{:?}", left.keys());
        fs::remove_file(&taken).expect("it is there");
        let said = runlog(&store, &["verify", "--repair"]);
        assert_eq!(said.code, 5, "a record is lost: {said:?}");
        let left = content(&store);
        assert!(
            left.keys().any(|name| name.starts_with("cut-")),
            "{:?}",
            left.keys()
        );
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
        "test result: ok. 0 passed; 0 failed; 6 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    );
}
