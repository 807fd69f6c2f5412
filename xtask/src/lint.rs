//! `lint`: the checks that don't run the code.

use std::{fs, process::Stdio};

use crate::{
    browser,
    child::{cargo, root, run},
    floors, instructions, lengths, node,
    report::{Outcome, Report, outcome},
    tools::{self, WASM},
    unused,
};

/// Whether to query the advisory database, which has to be downloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advisories {
    Ask,
    Skip,
}

/// Every lint, each of them even when one before it failed.
pub(crate) fn all(report: &mut Report, advisories: Advisories) {
    report.check("formatting", || {
        tools::ensure_component("rustfmt", "fmt")?;
        outcome(run(&mut cargo(&["fmt", "--all", "--check"])))
    });
    clippy(report);
    docs(report);
    report.check("dependencies", || {
        tools::ensure_cargo_deny()?;
        let mut command = cargo(&[
            "deny",
            "--all-features",
            "check",
            "licenses",
            "bans",
            "sources",
        ]);
        if advisories == Advisories::Ask {
            command.arg("advisories");
        }
        outcome(run(&mut command))
    });
    report.check("locks of the packages apart", locks_of_packages_apart);
    report.check("the npm package", browser::ensure_package);
    report.check("types of the npm packages", node::check_types);
    report.check("one set of clippy rules for core/*", same_clippy_rules);
    floors(report);
    report.check("files without a module", unused::check);
    report.check("length of files", lengths::check);
    report.check("instructions of the hot paths", instructions::check);
}

/// Installs and compiles what [`all`] needs, for a machine that has time for it while it does something else.
pub(crate) fn ahead(report: &mut Report) {
    report.check("valgrind", || {
        tools::ensure_valgrind().map(|()| String::new())
    });
    report.check("cargo-deny", || {
        tools::ensure_cargo_deny().map(|()| String::new())
    });
    clippy(report);
    crate_docs(report);
    report.check("instructions of the hot paths", || {
        instructions::build().map(|()| String::new())
    });
}

fn clippy(report: &mut Report) {
    report.check("clippy", || {
        tools::ensure_component("clippy", "clippy")?;
        outcome(run(&mut cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])))
    });
    report.check("clippy for WebAssembly", || {
        tools::ensure_target(WASM)?;
        outcome(run(&mut cargo(&[
            "clippy",
            "--package",
            "runlog-wasm",
            "--target",
            WASM,
            "--",
            "-D",
            "warnings",
        ])))
    });
}

/// Checks the layering of the crates' modules.
pub(crate) fn floors(report: &mut Report) {
    report.check("floors of the crates", floors::check);
}

/// The pages of the public APIs: everything public has documentation, and every link in it leads somewhere.
pub(crate) fn docs(report: &mut Report) {
    crate_docs(report);
    report.check("documentation of the npm package", node::docs);
}

fn crate_docs(report: &mut Report) {
    report.check("documentation of the crates", || {
        // Libraries only: the command and the library of the same name would write to one folder.
        outcome(run(
            cargo(&["doc", "--workspace", "--no-deps", "--lib"]).env("RUSTDOCFLAGS", "-D warnings")
        ))
    });
}

/// The packages of `benches/` outside the workspace are built with `--locked`, and nothing else builds them: a dependency
/// that a crate of the workspace gained or lost would be noticed by whoever measures next.
fn locks_of_packages_apart() -> Outcome {
    let benches = root().join("benches");
    let entries = fs::read_dir(&benches).map_err(|error| format!("benches: {error}"))?;
    let mut manifests: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|folder| folder.join("Cargo.lock").is_file())
        .map(|folder| folder.join("Cargo.toml"))
        .collect();
    manifests.sort();
    for manifest in &manifests {
        let mut command = cargo(&["metadata", "--locked", "--format-version", "1", "--quiet"]);
        command.arg("--manifest-path").arg(manifest);
        outcome(run(command.stdout(Stdio::null()))).map_err(|error| {
            format!(
                "{}: {error}; `cargo update --workspace --manifest-path` with it writes what fits",
                manifest.display()
            )
        })?;
    }
    Ok(format!("{} packages", manifests.len()))
}

/// Clippy reads one file for a crate and has no way to include another, so the copies are compared.
fn same_clippy_rules() -> Outcome {
    let read = |name: &str| {
        fs::read_to_string(root().join("core").join(name).join("clippy.toml"))
            .map_err(|error| format!("core/{name}/clippy.toml: {error}"))
    };
    let engine = read("engine")?;
    for name in ["log", "model", "runlog", "bindings"] {
        if read(name)? != engine {
            return Err(format!(
                "core/{name}/clippy.toml differs from core/engine/clippy.toml"
            ));
        }
    }
    Ok(String::new())
}
