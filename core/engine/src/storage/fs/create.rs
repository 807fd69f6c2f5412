//! Making the folder of a store so that its name, and those of the folders above it, are durable.
//!
//! A name is durable once the folder it stands in was flushed. Each folder that is made is flushed into its parent
//! before anything is made inside it. So among the folders that exist already, only the lowest may not be durable: the
//! process that made it may have crashed before the flush. It is flushed into its parent too.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A step of the plan.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    /// Flush a folder that holds the name of one that was found.
    FlushFound(PathBuf),
    Make(PathBuf),
    /// Flush a folder that holds the name of one that was just made.
    FlushMade(PathBuf),
}

/// Makes a folder and those above it that are missing.
pub(super) fn create(folder: &Path) -> io::Result<()> {
    plan(folder, |path| path.exists())
        .iter()
        .try_for_each(|step| match step {
            Step::Make(path) => make(path),
            Step::FlushMade(path) => flush(path),
            Step::FlushFound(path) => match flush(path) {
                // Another user owns it, and it may not be readable by anyone, such as the parent of a mount point.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                flushed => flushed,
            },
        })
}

fn plan(folder: &Path, exists: impl Fn(&Path) -> bool) -> Vec<Step> {
    let mut missing = Vec::new();
    let mut steps = Vec::new();
    for path in folder
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty())
    {
        if exists(path) {
            steps.extend(holder(path).map(Step::FlushFound));
            break;
        }
        missing.push(path);
    }
    for path in missing.into_iter().rev() {
        steps.push(Step::Make(path.to_owned()));
        steps.extend(holder(path).map(Step::FlushMade));
    }
    steps
}

/// The folder that holds the name of another; `None` for a root.
fn holder(path: &Path) -> Option<PathBuf> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    }
}

fn make(path: &Path) -> io::Result<()> {
    let builder = fs::DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        let mut builder = builder;
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    match builder.create(path) {
        // Another process made it concurrently; both flush it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

#[cfg(unix)]
fn flush(path: &Path) -> io::Result<()> {
    super::calls::sync_all(&super::descriptors::with_descriptors(|| {
        fs::File::open(path)
    })?)
}

/// Windows has no way to flush a folder, and needs none: its journal orders names.
#[cfg(not(unix))]
fn flush(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan where these folders are there.
    fn steps(folder: &str, there: &[&str]) -> Vec<Step> {
        plan(Path::new(folder), |path| {
            there.iter().any(|there| path == Path::new(there))
        })
    }

    fn made(path: &str) -> Step {
        Step::Make(path.into())
    }

    fn flushed(path: &str) -> Step {
        Step::FlushMade(path.into())
    }

    fn found(path: &str) -> Step {
        Step::FlushFound(path.into())
    }

    #[test]
    fn name_of_a_relative_folder_is_flushed_into_the_current_one() {
        assert_eq!(
            steps("runlog-data", &[]),
            [made("runlog-data"), flushed(".")]
        );
        assert_eq!(
            steps("./runlog-data", &["."]),
            [found("."), made("./runlog-data"), flushed(".")]
        );
    }

    #[test]
    fn each_folder_that_is_made_is_flushed_into_its_parent_before_the_next() {
        let expected = [
            made("a"),
            flushed("."),
            made("a/b"),
            flushed("a"),
            made("a/b/store"),
            flushed("a/b"),
        ];
        assert_eq!(steps("a/b/store", &[]), expected);
        let expected = [found("/"), made("/x/store"), flushed("/x")];
        assert_eq!(steps("/x/store", &["/x", "/"]), expected);
    }

    #[test]
    fn name_of_a_folder_that_is_there_already_is_flushed_too() {
        assert_eq!(steps("runlog-data", &["runlog-data"]), [found(".")]);
        assert_eq!(steps("a/store", &["a", "a/store"]), [found("a")]);
        // One that made the first of three may have died before it flushed it.
        let expected = [
            found("."),
            made("a/b"),
            flushed("a"),
            made("a/b/store"),
            flushed("a/b"),
        ];
        assert_eq!(steps("a/b/store", &["a"]), expected);
    }

    #[test]
    fn root_stands_in_no_folder() {
        assert_eq!(steps("/", &["/"]), []);
        assert_eq!(steps("/store", &["/"]), [made("/store"), flushed("/")]);
    }
}
