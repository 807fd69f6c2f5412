//! A number that one process counts up and others read at any moment, in a small file outside the store: what was
//! acknowledged, or how far a recording is.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

/// The number's file, held open. The one that counts and those that read each have their own.
pub struct Tally {
    file: Mutex<File>,
}

impl Tally {
    /// A new number, 0.
    ///
    /// # Errors
    /// Those of making a file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let tally = Self {
            file: Mutex::new(File::create(path)?),
        };
        tally.set(0)?;
        Ok(tally)
    }

    /// That of another, to read.
    ///
    /// # Errors
    /// Those of opening a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(File::open(path)?),
        })
    }

    /// Changes it.
    ///
    /// # Errors
    /// Those of writing.
    pub fn set(&self, number: u64) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&(!number).to_le_bytes());
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes)
    }

    /// What it is. A look that fell into the middle of a change is taken again.
    ///
    /// # Errors
    /// Those of reading.
    pub fn get(&self) -> io::Result<u64> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let (mut number, mut inverse) = ([0; 8], [0; 8]);
            file.seek(SeekFrom::Start(0))?;
            let mut bytes = [0; 16];
            file.read_exact(&mut bytes)?;
            number.copy_from_slice(&bytes[..8]);
            inverse.copy_from_slice(&bytes[8..]);
            let number = u64::from_le_bytes(number);
            if number == !u64::from_le_bytes(inverse) {
                return Ok(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_read_as_it_was_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tally");
        let (counts, reads) = (
            Tally::create(&path).expect("made"),
            Tally::open(&path).expect("it is there"),
        );
        for number in [0, 1, u64::MAX, 7] {
            counts.set(number).expect("it is written");
            assert_eq!(reads.get().expect("it is read"), number);
        }
    }
}
