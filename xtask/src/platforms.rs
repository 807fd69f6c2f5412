//! The platforms with a package of the addon, as bindings-node/platforms.json lists them.

use std::env;

/// One platform on each line, so that nothing has to be parsed that isn't ours.
const LIST: &str = include_str!("../../bindings-node/platforms.json");

/// Major and minor number of a release.
pub(crate) type Version = (u32, u32);

/// A platform, by the names of Node and npm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Platform {
    /// The suffix of its package's name.
    pub(crate) name: &'static str,
    /// Its Rust target.
    pub(crate) target: &'static str,
    pub(crate) os: &'static str,
    pub(crate) cpu: &'static str,
    /// On Linux, the C library: `glibc` or `musl`.
    pub(crate) libc: Option<&'static str>,
    /// The oldest release, of glibc or of macOS, that the package runs on.
    pub(crate) version_min: Option<Version>,
}

/// Every platform, in the order of the list.
pub(crate) fn all() -> Vec<Platform> {
    LIST.lines().filter_map(parse).collect()
}

/// The platform with this name.
pub(crate) fn named(name: &str) -> Result<Platform, String> {
    all()
        .into_iter()
        .find(|platform| platform.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = all().iter().map(|platform| platform.name).collect();
            format!(
                "there is no platform `{name}`; there are {}",
                known.join(", ")
            )
        })
}

/// The platform of this machine.
pub(crate) fn here() -> Result<Platform, String> {
    let os = match env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let cpu = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = (os == "linux").then_some(if cfg!(target_env = "musl") {
        "musl"
    } else {
        "glibc"
    });
    all()
        .into_iter()
        .find(|platform| (platform.os, platform.cpu, platform.libc) == (os, cpu, libc))
        .ok_or_else(|| {
            format!("there is no package for {os}-{cpu}; see bindings-node/platforms.json")
        })
}

/// Reads `20.12`, with or without more behind it.
pub(crate) fn version(text: &str) -> Option<Version> {
    let mut numbers = text.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn parse(line: &'static str) -> Option<Platform> {
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\": \""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    Some(Platform {
        name: field("name")?,
        target: field("target")?,
        os: field("os")?,
        cpu: field("cpu")?,
        libc: field("libc"),
        version_min: field("versionMin").and_then(version),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_read() {
        let all = all();
        assert_eq!(all.len(), LIST.matches("\"name\"").count());
        assert_eq!(
            all.iter()
                .filter(|platform| platform.libc.is_some())
                .count(),
            LIST.matches("\"libc\"").count()
        );
        let with_version = all
            .iter()
            .filter(|platform| platform.version_min.is_some())
            .count();
        assert_eq!(with_version, LIST.matches("\"versionMin\"").count());
        let gnu = named("linux-arm64-gnu").expect("it is listed");
        assert_eq!(
            (gnu.target, gnu.os, gnu.cpu),
            ("aarch64-unknown-linux-gnu", "linux", "arm64")
        );
        assert_eq!((gnu.libc, gnu.version_min), (Some("glibc"), Some((2, 28))));
        assert!(named("linux-s390x").is_err_and(|why| why.contains("linux-x64-musl")));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("20.20.2\n"), Some((20, 20)));
        assert!(version("9.11.0") < version("20.12"));
        assert_eq!(version("20"), None);
    }
}
