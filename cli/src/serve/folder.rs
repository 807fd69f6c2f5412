//! Notices that the folder of the served store is no longer there.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How often it is looked for.
const PERIOD: Duration = Duration::from_secs(2);

/// The folder of a store, as it was when the store was opened.
pub(super) struct Folder {
    path: PathBuf,
    identity: Option<Identity>,
}

impl Folder {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            identity: identity(path).ok(),
        }
    }

    /// Waits until the folder was removed or renamed, or another one has its name; says so. What is open then goes on
    /// being of a store that nobody sees: every later request would fail, or answer from it.
    pub(super) async fn gone(&self) -> String {
        loop {
            tokio::time::sleep(PERIOD).await;
            let path = self.path.display();
            match identity(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return format!("the folder {path} was removed or renamed while it was served");
                }
                Ok(now) if self.identity.is_some_and(|then| then != now) => {
                    return format!(
                        "the folder {path} was replaced by another one while it was served; start the server again to serve that one"
                    );
                }
                // A file system that doesn't answer at the moment may do so again.
                _ => {}
            }
        }
    }
}

/// The device and the number of a folder.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Folders have no number that the standard library knows; the system refuses to remove one with open files.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    fs::metadata(path).map(|_| (0, 0))
}
