//! The storage of the engine's files: the operations that it needs, and the two implementations.

#[cfg(not(target_family = "wasm"))]
mod fs;
mod memory;
mod traits;

#[cfg(not(target_family = "wasm"))]
pub use fs::FsStorage;
pub use memory::MemoryStorage;
pub(crate) use traits::IoContext;
pub use traits::{Access, Allocation, File, Map, Storage};
