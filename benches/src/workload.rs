//! What is stored, and where.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use runlog_engine::StreamId;

/// The payload of an event: 1 KiB.
pub const PAYLOAD_BYTES: usize = 1024;
/// The streams of the prepared store.
pub const STREAMS: u32 = 1000;
/// The events of each stream of the prepared store: a million in all.
pub const EVENTS_PER_STREAM: u32 = 1000;

/// Numbers that look random and are the same in every run (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A payload that does not compress.
#[must_use]
pub fn payload(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
    while payload.len() < PAYLOAD_BYTES {
        payload.extend_from_slice(&random.next().to_le_bytes());
    }
    payload
}

/// The stream with a number.
#[must_use]
pub fn stream(number: u32) -> StreamId {
    let mut random = Random::new(u64::from(number) << 20);
    let mut bytes = [0; 16];
    for (byte, random) in bytes
        .iter_mut()
        .zip(std::iter::repeat_with(|| random.next().to_be_bytes()).flatten())
    {
        *byte = random;
    }
    StreamId::from_bytes(bytes)
}

/// A new folder on the disk that `target/` is on, gone when dropped. `RUNLOG_BENCH_DIR` names another disk.
///
/// # Errors
///
/// Those of the file system.
pub fn folder() -> io::Result<tempfile::TempDir> {
    let parent = match env::var_os("RUNLOG_BENCH_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => target_folder()?.join("bench-data"),
    };
    fs::create_dir_all(&parent)?;
    tempfile::Builder::new()
        .prefix("runlog-")
        .tempdir_in(parent)
}

/// The target folder this program was built into: the nearest one above it that cargo has tagged as a cache.
fn target_folder() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").exists());
    target
        .map(Path::to_path_buf)
        .ok_or_else(|| io::Error::other("this program is not in a target folder"))
}

/// The kind of file system that a path is on, such as `ext4`; `unknown` where the system does not tell.
///
/// A benchmark of durable writes on `tmpfs` measures nothing, so reports name it.
#[must_use]
pub fn file_system(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.len())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}

/// The files of a folder, those in folders of it included.
///
/// # Errors
///
/// Those of the file system.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Writes out and drops what the page cache holds of a folder's files, so that the next read comes from the device.
///
/// # Errors
///
/// Those of the file system.
pub fn evict(folder: &Path) -> io::Result<()> {
    for path in files(folder)? {
        let file = fs::File::open(path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// The bytes of a folder's files without the zeros at their ends: space that was made ahead of need is not counted.
///
/// # Errors
///
/// Those of the file system.
pub fn bytes_used(folder: &Path) -> io::Result<u64> {
    use std::os::unix::fs::FileExt as _;
    let mut used = 0;
    let mut chunk = vec![0; 1 << 20];
    for path in files(folder)? {
        let file = fs::File::open(path)?;
        let mut end = file.metadata()?.len();
        while end > 0 {
            let start = end.saturating_sub(chunk.len() as u64);
            let count = usize::try_from(end - start).map_err(io::Error::other)?;
            let chunk = chunk.get_mut(..count).unwrap_or_default();
            file.read_exact_at(chunk, start)?;
            if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
                used += start + last as u64 + 1;
                break;
            }
            end = start;
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn streams_and_payloads_differ() {
        let streams: HashSet<StreamId> = (0..STREAMS).map(stream).collect();
        assert_eq!(streams.len(), STREAMS as usize);
        assert_ne!(payload(1), payload(2));
        assert_eq!(payload(1).len(), PAYLOAD_BYTES);
    }

    #[test]
    fn zeros_at_the_end_of_a_file_are_not_used_bytes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut bytes = vec![0; 3 << 20];
        fs::write(folder.path().join("spare"), &bytes).expect("a file");
        bytes[1_500_000] = 1;
        fs::create_dir(folder.path().join("more")).expect("a folder");
        fs::write(folder.path().join("more/active"), &bytes).expect("a file");
        assert_eq!(bytes_used(folder.path()).expect("the folder"), 1_500_001);
    }
}
