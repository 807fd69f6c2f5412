//! Transcripts, archives and tables into a store.

pub(crate) mod archive;
mod importer;
mod namesakes;
mod outcome;
mod place;
pub(crate) mod source;
pub(crate) mod tables;
mod target;

pub(crate) use importer::Importer;
pub(crate) use outcome::Outcome;
