//! How many events each stream has: what a store of keys has to be asked for once, before its next key is known.

use std::{collections::HashMap, io, sync::Mutex};

#[derive(Default)]
pub struct Tails(Mutex<HashMap<u32, u32>>);

impl Tails {
    /// The number of the next event of a stream, of which `count` are taken; `last` finds the last one that is stored.
    pub fn take(
        &self,
        stream: u32,
        count: usize,
        last: impl FnOnce() -> io::Result<u32>,
    ) -> io::Result<u32> {
        let mut tails = self.0.lock().map_err(|_| io::Error::other("poisoned"))?;
        let tail = match tails.get_mut(&stream) {
            Some(tail) => tail,
            None => {
                let last = last()?;
                tails.entry(stream).or_insert(last)
            }
        };
        let first = *tail + 1;
        *tail += u32::try_from(count).map_err(io::Error::other)?;
        Ok(first)
    }
}
