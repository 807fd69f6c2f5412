//! [`Disk`]: one file whose every write and flush is recorded, to be the disk under a loop device.
//!
//! The file is served through FUSE, as the root of a file system that is nothing but this file, by a thread that answers
//! one request after the other. It speaks as much of the protocol as a loop device asks for.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    ops::Range,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use rustix::mount::{MountFlags, UnmountFlags};

use super::image::{Event, Image};
use crate::tally::Tally;

/// The most bytes of one write.
const WRITE_BYTES_MAX: u32 = 1 << 20;
const IN_HEADER_BYTES: usize = 40;

const ENOSPC: i32 = 28;
const ENOSYS: i32 = 38;

/// A disk that is there for as long as this is.
pub struct Disk {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    serves: Option<JoinHandle<()>>,
}

struct State {
    image: Image,
    events: Vec<Event>,
    /// Where nothing can be written.
    full: Vec<Range<u64>>,
    /// Tells others how many events there were, before the one that caused an event goes on.
    tally: Tally,
}

impl Disk {
    /// Puts a disk of this content over the file at `path`, and counts what is recorded in the tally.
    ///
    /// # Errors
    /// Those of mounting, as who isn't root gets them.
    pub fn new(path: &Path, image: Image, tally: Tally) -> io::Result<Self> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")?;
        let options = format!(
            "fd={},rootmode=100600,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        File::create(path)?;
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        rustix::mount::mount(
            "runlog",
            path,
            "fuse",
            flags,
            Some(&*CString::new(options)?),
        )?;
        let state = Arc::new(Mutex::new(State {
            image,
            events: Vec::new(),
            full: Vec::new(),
            tally,
        }));
        let serves = std::thread::spawn({
            let state = state.clone();
            move || serve(&device, &state)
        });
        Ok(Self {
            path: path.to_owned(),
            state,
            serves: Some(serves),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has every write to one of these ranges fail for want of space, until others are given.
    pub fn be_full(&self, ranges: Vec<Range<u64>>) {
        locked(&self.state).full = ranges;
    }

    /// Takes the disk away; all that was recorded.
    pub fn recorded(mut self) -> Vec<Event> {
        self.unmount();
        std::mem::take(&mut locked(&self.state).events)
    }

    fn unmount(&mut self) {
        let Some(serves) = self.serves.take() else {
            return;
        };
        // The loop device lets go of it a moment after its file system was unmounted.
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            rustix::mount::unmount(&self.path, UnmountFlags::empty()).is_ok()
        });
        if gone {
            let _ = serves.join();
        } else {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut device: &File, state: &Mutex<State>) {
    let mut request = vec![0; WRITE_BYTES_MAX as usize + (64 << 10)];
    loop {
        let length = match device.read(&mut request) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A request that was taken back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Unmounted.
            Err(_) => return,
        };
        let Some(answer) = answer(&request[..length], state) else {
            continue;
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend(u32::try_from(16 + body.len()).expect("small").to_le_bytes());
        reply.extend(error.to_le_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        // One whose asker is gone needs no answer.
        let _ = device.write(&reply);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The answer to a request, if it is one that wants an answer: what is told, or the number of an error.
fn answer(request: &[u8], state: &Mutex<State>) -> Option<Result<Vec<u8>, i32>> {
    let (code, body) = (u32_at(request, 4), &request[IN_HEADER_BYTES..]);
    Some(match code {
        // FORGET, INTERRUPT, BATCH_FORGET.
        2 | 36 | 42 => return None,
        // INIT.
        26 => Ok(init(body)),
        // GETATTR, and SETATTR, which changes nothing.
        3 | 4 => Ok([&[0; 16], &attributes(locked(state).image.bytes())[..]].concat()),
        // OPEN: with FOPEN_DIRECT_IO, so that nothing is cached between the loop device and here.
        14 => Ok([&[0; 8], &1_u32.to_le_bytes()[..], &[0; 4]].concat()),
        // READ.
        15 => Ok(locked(state)
            .image
            .read(u64_at(body, 8), u32_at(body, 16) as usize)),
        // WRITE.
        16 => {
            let (offset, size) = (u64_at(body, 8), u32_at(body, 16));
            let bytes = body[40..40 + size as usize].to_vec();
            let mut state = locked(state);
            let end = offset + u64::from(size);
            if state
                .full
                .iter()
                .any(|range| range.start < end && offset < range.end)
            {
                return Some(Err(ENOSPC));
            }
            state.image.write(offset, &bytes);
            state.record(Event::Write { offset, bytes });
            Ok([size.to_le_bytes(), [0; 4]].concat())
        }
        // STATFS.
        17 => Ok(statistics()),
        // FSYNC.
        20 => {
            locked(state).record(Event::Flush);
            Ok(Vec::new())
        }
        // RELEASE, FLUSH (of a handle that is closed), DESTROY.
        18 | 25 | 38 => Ok(Vec::new()),
        _ => Err(ENOSYS),
    })
}

impl State {
    fn record(&mut self, event: Event) {
        self.events.push(event);
        self.tally
            .set(self.events.len() as u64)
            .expect("the tally can be written");
    }
}

fn init(body: &[u8]) -> Vec<u8> {
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let mut reply = Vec::new();
    reply.extend(7_u32.to_le_bytes());
    reply.extend(u32_at(body, 4).min(31).to_le_bytes());
    // How far to read ahead, as it was asked.
    reply.extend(&body[8..12]);
    reply.extend((BIG_WRITES | MAX_PAGES).to_le_bytes());
    // Requests in the background, and from how many on there are too many of them.
    reply.extend([64, 0, 48, 0]);
    reply.extend(WRITE_BYTES_MAX.to_le_bytes());
    reply.extend(1_u32.to_le_bytes());
    reply.extend(256_u16.to_le_bytes());
    reply.resize(64, 0);
    reply
}

/// A file of root's that has these bytes.
fn attributes(bytes: u64) -> Vec<u8> {
    let mut reply = Vec::new();
    for number in [1, bytes, bytes / 512, 0, 0, 0] {
        reply.extend(number.to_le_bytes());
    }
    for number in [0, 0, 0, 0o100_600, 1, 0, 0, 0, 4096, 0_u32] {
        reply.extend(number.to_le_bytes());
    }
    reply
}

fn statistics() -> Vec<u8> {
    let mut reply = vec![0; 80];
    reply[40..44].copy_from_slice(&4096_u32.to_le_bytes());
    reply[44..48].copy_from_slice(&255_u32.to_le_bytes());
    reply
}
