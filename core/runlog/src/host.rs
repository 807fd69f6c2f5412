//! [`Host`]: the clock and the source of randomness, so that nothing else asks the machine for them.

use std::fmt;

use uuid::Uuid;

use crate::Result;

/// What a backend needs of the machine it runs on. Tests and browsers bring their own.
pub trait Host: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> u64;

    /// Fills the bytes with randomness that nobody can guess.
    ///
    /// # Errors
    /// When the machine has none to give.
    fn fill_random(&self, bytes: &mut [u8]) -> Result<()>;
}

/// A fresh time-ordered id (UUID version 7).
///
/// # Errors
/// When the host has no randomness to give.
pub fn new_id(host: &dyn Host) -> Result<Uuid> {
    let mut random = [0; 10];
    host.fill_random(&mut random)?;
    Ok(uuid::Builder::from_unix_timestamp_millis(host.now_ms(), &random).into_uuid())
}

/// The machine's own clock and randomness. Not there on `wasm32-unknown-unknown`, which has neither.
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeHost;

#[cfg(not(target_family = "wasm"))]
impl Host for NativeHost {
    fn now_ms(&self) -> u64 {
        // The one place where the clock is read; a clock before 1970 reads as 1970.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn fill_random(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|source| {
            crate::Error::new(crate::ErrorKind::Io, format!("the system gave no randomness: {source}"))
        })
    }
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}
