//! Tools that a fresh machine may lack: found, or installed, or an error. Never skipped in silence.

use std::{env, fs, path::Path};

use crate::{
    child::{answer, cargo, command, run},
    report::outcome,
};

/// The version that is installed where there is none. An installed one of the same minor version will do.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Makes sure that the standard library of `target` is there.
pub(crate) fn ensure_target(target: &str) -> Result<(), String> {
    if has_target(target) {
        return Ok(());
    }
    outcome(run(command("rustup").args(["target", "add", target])))
        .map_err(|why| format!("the target {target} is missing, and rustup could not add it: {why}"))?;
    if has_target(target) { Ok(()) } else { Err(format!("the target {target} is missing for the rustc in use")) }
}

fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Some(folder) = answer(command(rustc).args(["--print", "target-libdir", "--target", target])) else {
        return false;
    };
    fs::read_dir(Path::new(folder.trim())).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore")))
    })
}

/// Makes sure that a component of the toolchain answers as `cargo <subcommand>`.
pub(crate) fn ensure_component(component: &str, subcommand: &str) -> Result<(), String> {
    if answer(&mut cargo(&[subcommand, "--version"])).is_some() {
        return Ok(());
    }
    outcome(run(command("rustup").args(["component", "add", component])))
        .map(drop)
        .map_err(|why| format!("`cargo {subcommand}` is missing, and rustup could not add {component}: {why}"))
}

/// Makes sure that `cargo deny` answers, with the version its configuration was written for.
pub(crate) fn ensure_cargo_deny() -> Result<(), String> {
    let minor = CARGO_DENY_VERSION.rsplit_once('.').map_or(CARGO_DENY_VERSION, |(minor, _)| minor);
    let wanted = format!("cargo-deny {minor}.");
    if answer(&mut cargo(&["deny", "--version"])).is_some_and(|version| version.starts_with(&wanted)) {
        return Ok(());
    }
    eprintln!("cargo-deny {minor} is missing; building it takes a few minutes, once for a machine");
    outcome(run(&mut cargo(&["install", "--locked", "cargo-deny", "--version", CARGO_DENY_VERSION])))
        .map(drop)
        .map_err(|why| format!("cargo-deny {CARGO_DENY_VERSION} is missing and could not be installed: {why}"))
}
