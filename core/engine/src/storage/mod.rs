//! Where the engine keeps its files: the operations it needs of such a place, and the two places there are.

#[cfg(not(target_family = "wasm"))]
mod fs;
mod memory;
mod traits;

#[cfg(not(target_family = "wasm"))]
pub use fs::FsStorage;
pub use memory::MemoryStorage;
pub(crate) use traits::IoContext;
pub use traits::{Access, Allocation, File, Map, Storage};
