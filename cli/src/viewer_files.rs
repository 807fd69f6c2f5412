//! The viewer's files, embedded at build time.

#[derive(rust_embed::Embed)]
#[folder = "../viewer/dist"]
pub(crate) struct Files;
