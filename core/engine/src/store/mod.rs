//! The engine itself, from below:
//!
//! - [`options`]; [`files`], the small files beside the segments; [`segments`], how segment files follow each other
//! - [`published`] and [`place`]: the state of the log that readers see
//! - [`staging`]: what the writer has staged and not yet published
//! - [`commit`]: one open store, and what its threads do with it
//! - [`read`], [`scan`] and [`readers`]: reading it
//! - [`open`]: recovery, and putting an open store together
//! - [`tools`]: verify, repair, salvage and backup
//! - [`handle`]: the public [`Store`]

mod commit;
mod files;
mod handle;
mod open;
mod options;
mod place;
mod published;
mod read;
mod readers;
mod scan;
mod segments;
mod staging;
mod stat;
mod tools;

pub use commit::future::Commit;
pub use handle::Store;
pub use options::{Missing, Mode, OpenOptions, Preallocation};
pub use read::Reader;
pub use scan::{LogReader, Subscription};
pub use tools::{
    repair::repair,
    salvage::{Salvage, Salvaged, salvage},
    verify::{verify, verify_with},
};
