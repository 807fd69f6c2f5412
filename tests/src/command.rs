//! The command `runlog`, for the tests that run it beside others.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

/// Where the command is: it is built when it isn't, or is older than what it is made of.
///
/// # Panics
/// When it can't be built.
pub fn runlog() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |path| root.join(path));
        let path = target
            .join("debug")
            .join(format!("runlog{}", std::env::consts::EXE_SUFFIX));
        let changed = ["core", "cli/src", "Cargo.lock"]
            .iter()
            .filter_map(|part| newest(&root.join(part)))
            .max();
        let built = path.metadata().and_then(|file| file.modified()).ok();
        if built.is_none() || built < changed {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args([
                "build",
                "--quiet",
                "--package",
                "runlog-cli",
                "--bin",
                "runlog",
            ]);
            let built = command.current_dir(&root).status().expect("cargo runs");
            assert!(built.success(), "the command could not be built: {built}");
        }
        assert!(
            path.is_file(),
            "{} is not where it is built to",
            path.display()
        );
        path
    })
}

/// When a file was last changed, or one in a folder.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return path.metadata().and_then(|file| file.modified()).ok();
    }
    std::fs::read_dir(path)
        .ok()?
        .flatten()
        .filter_map(|entry| newest(&entry.path()))
        .max()
}
