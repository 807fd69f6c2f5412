//! The descriptors of files that are open for reading: a bounded number at a time, however many segments there are.

use std::{fs, io};

use crate::bounded::Bounded;

/// At most this many files are kept open for reading, in the whole process, whatever the number of stores. Besides them a
/// store that is open for writing has a handful: its folder, two locks, the segment appended to, the watermark, and for a
/// moment what is being made.
pub(super) const READ_HANDLES_MAX: usize = 64;

pub(super) static OPEN: Bounded<fs::File> = Bounded::new(READ_HANDLES_MAX);

/// Opens a file; if the process or the system has no descriptors left, closes those that can be reopened and retries
/// once.
pub(super) fn with_descriptors<T, E: Into<io::Error>>(
    open: impl Fn() -> Result<T, E>,
) -> io::Result<T> {
    match open().map_err(Into::into) {
        Err(error) if is_out_of_descriptors(&error) => {
            OPEN.clear();
            open().map_err(Into::into)
        }
        opened => opened,
    }
}

/// Whether an error says that the process or the system has no descriptors left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        [Errno::MFILE, Errno::NFILE]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}
