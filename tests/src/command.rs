//! The command `runlog`, for the tests that run it beside others.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Where the command is: it is built when it isn't, or not as the sources are now.
///
/// # Panics
/// When it can't be built.
pub fn runlog() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--package", "runlog-cli", "--bin", "runlog"]);
        let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
        assert!(built.success(), "the command could not be built: {built}");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
            |target| Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(target),
        );
        let path = target.join("debug").join(format!("runlog{}", std::env::consts::EXE_SUFFIX));
        assert!(path.is_file(), "{} is not where it is built to", path.display());
        path
    })
}
