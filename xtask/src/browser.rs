//! The WebAssembly module of browsers, and the npm package's tests in Chromium.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    child::{answer, cargo, command, root, run, target_folder},
    node,
    report::{Counts, Outcome, Report, outcome},
    tools::{self, WASM},
};

/// The profile of Cargo.toml that the module is built with.
const PROFILE: &str = "wasm";
/// What wasm-bindgen makes: the module, and the JavaScript that loads it.
const MODULE: &str = "runlog_wasm_bg.wasm";
const GLUE: &str = "runlog_wasm.js";
/// What the module has, packed by brotli at its best, in KiB: it is downloaded before anything is done. Written down so that it
/// doesn't grow unnoticed; whoever makes it smaller lowers it. `docs/benchmarks.md` says what it is made of.
const PACKED_KIB: u64 = 1100;
/// By how much it may be larger, in percent: compilers and what is linked change it a little.
const TOLERANCE_PERCENT: u64 = 2;

/// `wasm-module`: builds the module and its JavaScript into `sdk/src/wasm`, and says how large it is.
pub(crate) fn build(report: &mut Report) {
    report.check("the module of browsers", module);
}

fn module() -> Outcome {
    node::ensure_installed()?;
    tools::ensure_target(WASM)?;
    let bindgen = tools::ensure_wasm_bindgen("wasm-bindgen")?;
    // Paths in messages of panics without the folders of this machine, which are downloaded too and make each build another.
    let sources = tools::cargo_home()?.join("registry/src");
    let remapped = format!("--remap-path-prefix={}=", sources.display());
    outcome(run(cargo(&[
        "build",
        "--package",
        "runlog-wasm",
        "--target",
        WASM,
        "--profile",
        PROFILE,
    ])
    .env("CARGO_ENCODED_RUSTFLAGS", remapped)))?;
    let built = target_folder()
        .join(WASM)
        .join(PROFILE)
        .join("runlog_wasm.wasm");
    let package = root().join("sdk/src/wasm");
    if node::modified(&package.join(MODULE)) > node::modified(&built) {
        return size(&package.join(MODULE));
    }
    // Built in another folder first: a half-built module must not look newer than its sources.
    let beside = target_folder().join("wasm-module");
    outcome(run(command(bindgen)
        .args(["--target", "web", "--no-typescript", "--out-dir"])
        .arg(&beside)
        .arg(&built)))?;
    outcome(run(command("node")
        .arg(root().join("sdk/scripts/optimize-wasm.mjs"))
        .arg(beside.join(MODULE))))?;
    for file in [GLUE, MODULE] {
        fs::copy(beside.join(file), package.join(file))
            .map_err(|error| format!("{file} into {}: {error}", package.display()))?;
    }
    size(&package.join(MODULE))
}

/// Builds the module as it is shipped, and measures it in Chromium.
pub(crate) fn measure(arguments: &[&str]) -> Outcome {
    let chromium = ensure_chromium()?;
    module()?;
    let program = root().join("benches/browser/run.mjs");
    outcome(run(command("node")
        .arg(program)
        .args(arguments)
        .env("RUNLOG_CHROMIUM", chromium)))
}

/// The module's size, and what it takes to download; too much is an error.
fn size(module: &Path) -> Outcome {
    let bytes = fs::metadata(module)
        .map_err(|error| format!("{}: {error}", module.display()))?
        .len();
    let program = "const { brotliCompressSync } = require('node:zlib'); \
        console.log(brotliCompressSync(require('node:fs').readFileSync(process.argv[1])).length)";
    let packed: u64 = answer(command("node").args(["-e", program]).arg(module))
        .and_then(|text| text.trim().parse().ok())
        .ok_or("the module could not be packed to see how large it is")?;
    let (kib, packed_kib) = (bytes >> 10, packed >> 10);
    check_budget(packed_kib)?;
    Ok(format!("{kib} KiB, {packed_kib} KiB packed by brotli"))
}

/// Refuses a module that has grown.
fn check_budget(packed_kib: u64) -> Result<(), String> {
    let most = PACKED_KIB + PACKED_KIB * TOLERANCE_PERCENT / 100;
    if packed_kib <= most {
        return Ok(());
    }
    Err(format!(
        "the module of browsers has {packed_kib} KiB packed by brotli, {most} are its budget; make what was added smaller, or raise \
         PACKED_KIB in xtask/src/browser.rs and say in docs/benchmarks.md what it is spent on"
    ))
}

/// Runs the contract tests in Chromium, with the module that [`build`] made.
pub(crate) fn test(report: &mut Report) {
    let chromium = ensure_chromium();
    report.check("the independent checker of the format", || {
        outcome(run(&mut cargo(&[
            "build",
            "--package",
            "runlog-tests",
            "--bin",
            "checker",
        ])))
    });
    report.check("the viewer", viewer);
    for (name, package, script) in [
        ("contracts of calls in Chromium", "sdk", "test:browser"),
        ("pages of bundlers in Chromium", "sdk", "test:bundlers"),
        ("the viewer in Chromium", "viewer", "test"),
    ] {
        report.count(name, || match &chromium {
            Ok(chromium) => node::vitest_in_browser(package, script, chromium),
            Err(why) => (Counts::failed(), why.clone()),
        });
    }
}

/// `viewer`: builds the replay viewer into `viewer/dist`, over the npm package with the module that [`build`] left.
pub(crate) fn viewer() -> Outcome {
    node::ensure_installed()?;
    node::program("sdk/scripts/build.mjs", &["--whole"])?;
    node::program("viewer/scripts/build.mjs", &[])?;
    Ok("viewer/dist".to_owned())
}

/// Builds the npm package if it doesn't exist: the viewer is type-checked against its declarations.
pub(crate) fn ensure_package() -> Outcome {
    if root().join("sdk/dist/browser").is_dir() {
        return Ok("as it was built before".to_owned());
    }
    module()?;
    node::program("sdk/scripts/build.mjs", &["--whole"])
}

/// Where Chromium is: what `RUNLOG_CHROMIUM` names, or one that is installed; installed where that takes no password.
fn ensure_chromium() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("RUNLOG_CHROMIUM") {
        return Ok(PathBuf::from(path));
    }
    let found = || {
        ["chromium", "chromium-browser", "google-chrome"]
            .iter()
            .find(|name| answer(command(name).arg("--version")).is_some())
            .map(PathBuf::from)
    };
    if let Some(path) = found().and_then(|name| which(&name)) {
        return Ok(path);
    }
    tools::apt_install(&["chromium"])?;
    found().and_then(|name| which(&name)).ok_or_else(|| {
        "Chromium is missing, in which the browser's tests run; install it, or name it in RUNLOG_CHROMIUM".to_owned()
    })
}

fn which(name: &Path) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_has_grown_is_refused() {
        assert_eq!(check_budget(PACKED_KIB), Ok(()));
        assert_eq!(check_budget(PACKED_KIB * 101 / 100), Ok(()));
        let message = check_budget(PACKED_KIB * 103 / 100).unwrap_err();
        assert!(message.contains("PACKED_KIB"), "{message}");
    }
}
