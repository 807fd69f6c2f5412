//! The Node addon: built for this machine, where the loader finds it, and for every platform, as packages.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::{
    child::{cargo, command, root, run, target_folder},
    gate::{self, Target},
    platforms::{self, Platform},
    report::{Outcome, Report, outcome},
    tools,
};

/// The profile of Cargo.toml that packages are built with.
const PACKAGE_PROFILE: &str = "addon";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    /// The arguments for Cargo. The release is stripped by a linker argument for the addon's crate alone: a stripping
    /// profile would compile all dependencies again, which `cargo run --release` has built already.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Dev => &["build", "--package", "runlog-node"],
            Self::Release => &[
                "rustc",
                "--release",
                "--package",
                "runlog-node",
                "--",
                "-Cstrip=symbols",
            ],
        }
    }

    /// Where in the target folder Cargo puts it.
    fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// `addon`: builds the addon of this machine, or packages, and says what they are.
pub(crate) fn run_verb(report: &mut Report, arguments: &[&str]) {
    match Wanted::parse(arguments) {
        Ok(Wanted::Here(profile)) => report.check("addon", || {
            let addon = build_here(profile)?;
            Ok(format!(
                "{}: {}",
                addon.display(),
                check_here(&addon, profile)?
            ))
        }),
        Ok(Wanted::Packages(platforms)) => {
            for platform in platforms {
                report.check(&format!("package for {}", platform.name), || {
                    package(&platform)
                });
            }
        }
        Err(why) => report.check("addon", || Err(why)),
    }
}

/// The arguments of `addon`.
#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    Here(Profile),
    Packages(Vec<Platform>),
}

impl Wanted {
    fn parse(arguments: &[&str]) -> Result<Self, String> {
        match arguments {
            [] => Ok(Self::Here(Profile::Dev)),
            ["--release"] => Ok(Self::Here(Profile::Release)),
            ["--release", "--all"] => Ok(Self::Packages(platforms::all())),
            ["--release", "--target", name] => Ok(Self::Packages(vec![platforms::named(name)?])),
            ["--all" | "--target", ..] => Err("packages are built with --release".to_owned()),
            other => Err(format!("`addon` does not take {}", other.join(" "))),
        }
    }
}

/// Builds the addon of this machine, and puts it where the loader finds it.
pub(crate) fn build_here(profile: Profile) -> Result<PathBuf, String> {
    let platform = platforms::here()?;
    outcome(run(&mut cargo(profile.arguments())))?;
    let built = target_folder()
        .join(profile.folder())
        .join(library(&platform));
    let place = root().join("bindings-node").join(file_name(&platform));
    // A process may have the old one open: it is replaced, not written to.
    let beside = place.with_extension("new");
    fs::copy(&built, &beside).map_err(|error| format!("{}: {error}", built.display()))?;
    fs::rename(&beside, &place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(place)
}

/// Checks the addon that was built for this machine.
pub(crate) fn check_here(addon: &Path, profile: Profile) -> Outcome {
    let target = match profile {
        Profile::Dev => Target::Tests,
        Profile::Release => Target::Local,
    };
    gate::check(addon, &platforms::here()?, target)
}

/// Builds the addon of a platform, on whatever machine this is; lays out its package and the loader's when it is sound.
fn package(platform: &Platform) -> Outcome {
    tools::ensure_target(platform.target)?;
    let zigbuild = tools::ensure_zigbuild()?;
    let mut build = command(&zigbuild);
    build.args([
        "zigbuild",
        "--locked",
        "--profile",
        PACKAGE_PROFILE,
        "--package",
        "runlog-node",
        "--target",
    ]);
    build.arg(rust_target(platform));
    // Zig is found next to it.
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = zigbuild
        .parent()
        .map(Path::to_path_buf)
        .into_iter()
        .chain(env::split_paths(&path));
    build.env(
        "PATH",
        env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?,
    );
    build.env_remove("RUSTFLAGS").env(
        "CARGO_ENCODED_RUSTFLAGS",
        rust_flags(platform)?.join("\x1f"),
    );
    match (platform.os, platform.version_min) {
        ("darwin", Some((major, minor))) => {
            build.env("MACOSX_DEPLOYMENT_TARGET", format!("{major}.{minor}"));
        }
        ("win32", _) => {
            build.env("LIBNODE_PATH", no_libnode()?);
        }
        _ => {}
    }
    outcome(run(&mut build))?;
    let built = target_folder()
        .join(platform.target)
        .join(PACKAGE_PROFILE)
        .join(library(platform));
    let found = gate::check(&built, platform, Target::Published)?;
    let packages = target_folder().join("npm");
    let mut stage = command("node");
    stage.arg("bindings-node/scripts/stage.mjs").arg(packages);
    stage.arg(format!("{}={}", platform.name, built.display()));
    outcome(run(&mut stage)).map_err(|why| format!("its package could not be laid out: {why}"))?;
    Ok(found)
}

/// What the cross compiler calls the platform: glibc has its release in the name.
fn rust_target(platform: &Platform) -> String {
    match (platform.libc, platform.version_min) {
        (Some("glibc"), Some((major, minor))) => format!("{}.{major}.{minor}", platform.target),
        _ => platform.target.to_owned(),
    }
}

fn rust_flags(platform: &Platform) -> Result<Vec<String>, String> {
    // Panic messages name source files of dependencies: remap their paths, which would otherwise be this machine's.
    let mut flags = vec![format!(
        "--remap-path-prefix={}=cargo",
        tools::cargo_home()?.display()
    )];
    if platform.libc == Some("musl") {
        // Otherwise musl targets can't produce a loadable library.
        flags.push("-Ctarget-feature=-crt-static".to_owned());
    }
    if platform.os == "darwin" {
        flags.push(format!(
            "-Clink-arg=-Wl,-install_name,@loader_path/{}",
            file_name(platform)
        ));
        flags.push("-Clink-arg=-Wl,-dead_strip_dylibs".to_owned());
    }
    Ok(flags)
}

/// For Windows, `napi-build` and the linker look for a library of Node's functions; the addon finds these when it is
/// loaded, so that an empty one will do.
fn no_libnode() -> Result<PathBuf, String> {
    let folder = target_folder().join("no-libnode");
    let write = |name: &str, content: &[u8]| {
        let place = folder.join(name);
        fs::write(&place, content).map_err(|error| format!("{}: {error}", place.display()))
    };
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write("libnode.dll", b"")?;
    write("libnode.a", b"!<arch>\n")?;
    Ok(folder)
}

/// What Cargo calls the addon.
fn library(platform: &Platform) -> &'static str {
    match platform.os {
        "win32" => "runlog_node.dll",
        "darwin" => "librunlog_node.dylib",
        _ => "librunlog_node.so",
    }
}

/// What the loader calls the addon.
fn file_name(platform: &Platform) -> String {
    format!("runlog.{}.node", platform.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_or_all_of_them() {
        assert_eq!(Wanted::parse(&[]), Ok(Wanted::Here(Profile::Dev)));
        assert_eq!(
            Wanted::parse(&["--release"]),
            Ok(Wanted::Here(Profile::Release))
        );
        assert_eq!(
            Wanted::parse(&["--release", "--all"]),
            Ok(Wanted::Packages(platforms::all()))
        );
        let musl = platforms::named("linux-x64-musl").expect("it is listed");
        assert_eq!(
            Wanted::parse(&["--release", "--target", musl.name]),
            Ok(Wanted::Packages(vec![musl]))
        );
        for wrong in [
            &["--all"][..],
            &["--release", "--target"],
            &["--release", "--target", "beos"],
            &["--fast"],
        ] {
            assert!(Wanted::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn glibc_is_asked_for_by_its_release_and_nothing_else_is() {
        let target = |name: &str| platforms::named(name).map(|platform| rust_target(&platform));
        assert_eq!(
            target("linux-x64-gnu").as_deref(),
            Ok("x86_64-unknown-linux-gnu.2.28")
        );
        assert_eq!(
            target("linux-x64-musl").as_deref(),
            Ok("x86_64-unknown-linux-musl")
        );
        assert_eq!(
            target("darwin-arm64").as_deref(),
            Ok("aarch64-apple-darwin")
        );
    }
}
