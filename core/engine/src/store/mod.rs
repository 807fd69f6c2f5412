//! The engine itself, from the bottom layer up:
//!
//! - [`options`]; [`files`], the small files beside the segments; [`segments`], how segment files follow each other
//! - [`published`] and [`place`]: the state of the log that readers see; [`lost`]: of records that can't be read, their positions
//! - [`staging`]: the writer's batches that are staged and not yet published
//! - [`commit`]: one open store, and the operations of its threads
//! - [`read`] with what is [`upcoming`], [`find`], [`scan`] with its [`page`]s, [`record_ref`], [`snapshots`] and [`readers`]: reading it
//! - [`open`]: recovery, and putting an open store together
//! - [`tools`]: verify, repair, salvage and backup
//! - [`handle`]: the public [`Store`]

mod commit;
mod compact;
mod files;
mod find;
mod framed;
mod handle;
mod lost;
mod open;
mod options;
mod page;
mod place;
mod published;
mod read;
mod readers;
mod record_ref;
mod scan;
mod segments;
mod snapshots;
mod staging;
mod stat;
mod tools;
mod upcoming;
mod written;

pub use commit::future::Commit;
pub use find::Finder;
pub use handle::Store;
pub use options::{Missing, Mode, OpenOptions, Preallocation};
pub(crate) use published::watch::Waiter;
pub use read::Reader;
pub use record_ref::RecordRef;
pub use scan::{LogReader, Subscription};
pub use tools::{
    repair::repair,
    salvage::{Salvage, Salvaged, salvage},
    verify::{verify, verify_with},
};
