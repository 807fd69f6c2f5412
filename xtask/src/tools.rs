//! Tools that a fresh machine may lack: found, or installed, or an error. Never skipped in silence.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    child::{answer, cargo, command, run},
    report::outcome,
};

/// The target of browsers.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// The version that is installed where there is none. An installed one of the same minor version will do.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// The version of the tool that has to be that of the crate `wasm-bindgen`, which Cargo.toml pins.
const WASM_BINDGEN_VERSION: &str = "0.2.130";

/// The versions of the tools that build packages for other platforms, which were tried together.
const ZIGBUILD_VERSION: &str = "0.24.0";
const ZIG_VERSION: &str = "0.16.0";

/// Installs the tool that runs WebAssembly tests in Node, if needed, and returns its path. It has a folder of its own
/// for each version, next to what cargo keeps for the machine.
pub(crate) fn ensure_wasm_test_runner() -> Result<PathBuf, String> {
    ensure_wasm_bindgen("wasm-bindgen-test-runner")
}

/// Installs a tool of wasm-bindgen, of the crate's version, if needed, and returns its path.
pub(crate) fn ensure_wasm_bindgen(tool: &str) -> Result<PathBuf, String> {
    if answer(command("node").arg("--version")).is_none() {
        return Err(
            "Node is missing, in which the WebAssembly tests run; install version 20 or later"
                .to_owned(),
        );
    }
    let root = tools_folder()?.join(format!("wasm-bindgen-{WASM_BINDGEN_VERSION}"));
    let runner = root
        .join("bin")
        .join(format!("{tool}{}", env::consts::EXE_SUFFIX));
    if runner.is_file() {
        return Ok(runner);
    }
    eprintln!(
        "wasm-bindgen-cli {WASM_BINDGEN_VERSION} is missing; building it takes a minute, once for a machine"
    );
    let mut install = cargo(&[
        "install",
        "wasm-bindgen-cli",
        "--version",
        WASM_BINDGEN_VERSION,
        "--root",
    ]);
    // Not among what is built for the tests: it would be built again with their settings.
    install.arg(&root).env_remove("CARGO_TARGET_DIR");
    outcome(run(quickly_built(&mut install)))
        .map(|_| runner)
        .map_err(|why| {
            format!("wasm-bindgen-cli {WASM_BINDGEN_VERSION} could not be installed: {why}")
        })
}

/// Makes sure that cargo-zigbuild and Zig are there, which build for platforms that this machine isn't, and says where
/// the first is. Both come from PyPI as they are, into an environment of their own for each pair of versions.
pub(crate) fn ensure_zigbuild() -> Result<PathBuf, String> {
    let root = tools_folder()?.join(format!("zigbuild-{ZIGBUILD_VERSION}-zig-{ZIG_VERSION}"));
    let folder = root.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let zigbuild = folder.join(format!("cargo-zigbuild{}", env::consts::EXE_SUFFIX));
    if zigbuild.is_file() {
        return Ok(zigbuild);
    }
    eprintln!(
        "cargo-zigbuild {ZIGBUILD_VERSION} and Zig {ZIG_VERSION} are missing; they are installed once for a machine"
    );
    let python = if cfg!(windows) { "python" } else { "python3" };
    outcome(run(command(python).args(["-m", "venv"]).arg(&root)))
        .map_err(|why| format!("Python 3 with venv is needed, to install Zig with: {why}"))?;
    let mut install = command(folder.join(format!("python{}", env::consts::EXE_SUFFIX)));
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    install
        .arg(format!("ziglang=={ZIG_VERSION}"))
        .arg(format!("cargo-zigbuild=={ZIGBUILD_VERSION}"));
    outcome(run(&mut install)).map(|_| zigbuild).map_err(|why| {
        format!(
            "cargo-zigbuild {ZIGBUILD_VERSION} and Zig {ZIG_VERSION} could not be installed: {why}"
        )
    })
}

/// Makes sure that valgrind is there, which counts instructions: from the system's packages where that may be done.
pub(crate) fn ensure_valgrind() -> Result<(), String> {
    let is_there = || answer(command("valgrind").arg("--version")).is_some();
    if is_there() {
        return Ok(());
    }
    apt_install(&["--no-install-recommends", "valgrind", "libc6-dbg"])?;
    if is_there() {
        Ok(())
    } else {
        Err("valgrind is missing, which counts instructions; install it: `apt-get install valgrind`".to_owned())
    }
}

/// Installs packages of the system where this program may, and does nothing where it may not. Two may do so at once.
pub(crate) fn apt_install(packages: &[&str]) -> Result<(), String> {
    let is_root = answer(command("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    if !is_root || answer(command("apt-get").arg("--version")).is_none() {
        return Ok(());
    }
    outcome(run(command("apt-get").args(["update", "-q"])))?;
    let mut install = command("apt-get");
    install.args(["-o", "DPkg::Lock::Timeout=300", "install", "-q", "-y"]);
    outcome(run(install.args(packages))).map(drop)
}

/// With settings under which a tool is built in half of the time: it works for seconds, and is built for minutes.
fn quickly_built(install: &mut Command) -> &mut Command {
    install
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
}

/// Where the tools of fixed versions are, each in a folder of its own.
fn tools_folder() -> Result<PathBuf, String> {
    Ok(cargo_home()?.join("runlog-tools"))
}

/// Where cargo keeps what belongs to the machine.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))
        .ok_or_else(|| "neither CARGO_HOME nor a home folder is known".to_owned())
}

/// Makes sure that the standard library of `target` is there.
pub(crate) fn ensure_target(target: &str) -> Result<(), String> {
    if has_target(target) {
        return Ok(());
    }
    outcome(run(command("rustup").args(["target", "add", target]))).map_err(|why| {
        format!("the target {target} is missing, and rustup could not add it: {why}")
    })?;
    if has_target(target) {
        Ok(())
    } else {
        Err(format!(
            "the target {target} is missing for the rustc in use"
        ))
    }
}

fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Some(folder) =
        answer(command(rustc).args(["--print", "target-libdir", "--target", target]))
    else {
        return false;
    };
    fs::read_dir(Path::new(folder.trim())).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore"))
        })
    })
}

/// Makes sure that a component of the toolchain answers as `cargo <subcommand>`.
pub(crate) fn ensure_component(component: &str, subcommand: &str) -> Result<(), String> {
    if answer(&mut cargo(&[subcommand, "--version"])).is_some() {
        return Ok(());
    }
    outcome(run(command("rustup").args(["component", "add", component])))
        .map(drop)
        .map_err(|why| {
            format!("`cargo {subcommand}` is missing, and rustup could not add {component}: {why}")
        })
}

/// Makes sure that `cargo deny` answers, with the version its configuration was written for.
pub(crate) fn ensure_cargo_deny() -> Result<(), String> {
    let minor = CARGO_DENY_VERSION
        .rsplit_once('.')
        .map_or(CARGO_DENY_VERSION, |(minor, _)| minor);
    let wanted = format!("cargo-deny {minor}.");
    if answer(&mut cargo(&["deny", "--version"]))
        .is_some_and(|version| version.starts_with(&wanted))
    {
        return Ok(());
    }
    eprintln!("cargo-deny {minor} is missing; building it takes a few minutes, once for a machine");
    let mut install = cargo(&["install", "--locked", "cargo-deny"]);
    install.args(["--version", CARGO_DENY_VERSION]);
    outcome(run(quickly_built(&mut install)))
        .map(drop)
        .map_err(|why| {
            format!("cargo-deny {CARGO_DENY_VERSION} is missing and could not be installed: {why}")
        })
}
