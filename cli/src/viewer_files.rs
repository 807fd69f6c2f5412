//! The viewer's files, as they were when the command was built.

#[derive(rust_embed::Embed)]
#[folder = "../viewer/dist"]
pub(crate) struct Files;
