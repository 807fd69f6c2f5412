//! Checks of an addon before it is published, read from the file itself: a build that fell back on this machine's
//! linker or C library shows that only when it is loaded.

use std::{fs, path::Path};

use object::{Architecture, BinaryFormat};

use crate::{
    binary::Binary,
    platforms::{Platform, Version, version},
    report::Outcome,
};

/// The function that Node calls.
const ENTRY: &str = "napi_register_module_v1";

/// The intended users of an addon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// This machine's tests, which need debug information for panics.
    Tests,
    /// This machine, whose newer system it may need.
    Local,
    /// All users of the platform, on the oldest system it supports.
    Published,
}

/// Checks the addon at `path`, and says what it is.
pub(crate) fn check(path: &Path, platform: &Platform, target: Target) -> Outcome {
    let at = |why: String| format!("{}: {why}", path.display());
    let data = fs::read(path).map_err(|error| at(error.to_string()))?;
    let binary = Binary::read(&data).map_err(at)?;
    let faults = faults(&binary, platform, target);
    if !faults.is_empty() {
        return Err(at(format!(
            "not an addon for {}: {}",
            platform.name,
            faults.join("; ")
        )));
    }
    Ok(describe(&binary))
}

/// Everything that is wrong with it.
fn faults(binary: &Binary, platform: &Platform, target: Target) -> Vec<String> {
    let mut faults = Vec::new();
    let (format, architecture) = wanted(platform);
    if (binary.format, binary.architecture) != (format, architecture) {
        let (found_format, found) = (binary.format, binary.architecture);
        faults.push(format!(
            "it is {found_format:?} for {found:?}, and should be {format:?} for {architecture:?}"
        ));
    }
    if !binary.exports.iter().any(|name| name == ENTRY) {
        faults.push(format!("it doesn't export {ENTRY}"));
    }
    for library in binary
        .libraries
        .iter()
        .filter(|library| !is_there(library, platform, target))
    {
        faults.push(format!(
            "it needs {library}, which isn't on every such system"
        ));
    }
    if platform.libc != Some("glibc") && glibc_version(binary).is_some() {
        faults.push("it needs symbols of glibc".to_owned());
    }
    if binary
        .symbol_versions
        .iter()
        .any(|name| name == "GLIBC_PRIVATE")
    {
        faults.push("it needs what glibc keeps to itself".to_owned());
    }
    // On x64 macOS loads what isn't signed, and Zig signs nothing there.
    if platform.os == "darwin" && platform.cpu == "arm64" && !binary.is_signed {
        faults.push("it isn't signed, not even for the machine it was built on".to_owned());
    }
    if target != Target::Tests && binary.has_debug_info {
        faults.push("it isn't stripped of what only a debugger reads".to_owned());
    }
    if target == Target::Published
        && let Some(min) = platform.version_min
    {
        match version_needed(binary) {
            None => faults.push("it doesn't say which release of the system it needs".to_owned()),
            Some(needed) if needed > min => faults.push(format!(
                "it needs {} {}, and the package promises {}",
                system(binary),
                dotted(needed),
                dotted(min)
            )),
            Some(_) => {}
        }
    }
    faults
}

fn wanted(platform: &Platform) -> (BinaryFormat, Architecture) {
    let format = match platform.os {
        "darwin" => BinaryFormat::MachO,
        "win32" => BinaryFormat::Pe,
        _ => BinaryFormat::Elf,
    };
    let architecture = if platform.cpu == "arm64" {
        Architecture::Aarch64
    } else {
        Architecture::X86_64
    };
    (format, architecture)
}

/// Whether a library is on every system of the platform, beside Node.
fn is_there(library: &str, platform: &Platform, target: Target) -> bool {
    const GLIBC: [&str; 8] = [
        "libc.so.6",
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
        "librt.so.1",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    ];
    // Both names are the loader itself.
    const MUSL: [&str; 4] = [
        "libc.so",
        "libc.musl-x86_64.so.1",
        "libc.musl-aarch64.so.1",
        "libgcc_s.so.1",
    ];
    const MACOS: [&str; 2] = ["/usr/lib/libSystem.B.dylib", "/usr/lib/libiconv.2.dylib"];
    const WINDOWS: [&str; 9] = [
        "kernel32.dll",
        "ntdll.dll",
        "advapi32.dll",
        "bcrypt.dll",
        "bcryptprimitives.dll",
        "msvcrt.dll",
        "userenv.dll",
        "ws2_32.dll",
        "dbghelp.dll",
    ];
    match (platform.os, platform.libc) {
        ("darwin", _) => MACOS.contains(&library),
        ("win32", _) => {
            let library = library.to_ascii_lowercase();
            WINDOWS.contains(&library.as_str())
                || library.starts_with("api-ms-win-")
                // Comes with Microsoft's compilers and with much that they built, but not with Windows.
                || (target == Target::Local && library.starts_with("vcruntime"))
        }
        (_, Some("musl")) => MUSL.contains(&library),
        _ => GLIBC.contains(&library),
    }
}

/// The release of the C library or of the system that it needs.
fn version_needed(binary: &Binary) -> Option<Version> {
    binary.macos_version_min.or_else(|| glibc_version(binary))
}

fn glibc_version(binary: &Binary) -> Option<Version> {
    binary
        .symbol_versions
        .iter()
        .filter_map(|name| version(name.strip_prefix("GLIBC_")?))
        .max()
}

fn system(binary: &Binary) -> &'static str {
    if binary.macos_version_min.is_some() {
        "macOS"
    } else {
        "glibc"
    }
}

/// What it is, in one line.
fn describe(binary: &Binary) -> String {
    let tenths = binary.bytes / (1 << 20) * 10 + binary.bytes % (1 << 20) * 10 / (1 << 20);
    let mut line = format!(
        "{}.{} MiB for {:?}",
        tenths / 10,
        tenths % 10,
        binary.architecture
    );
    if let Some(needed) = version_needed(binary) {
        line.push_str(&format!(", {} {}", system(binary), dotted(needed)));
    }
    let libraries: Vec<&str> = binary
        .libraries
        .iter()
        .map(|library| library.rsplit('/').next().unwrap_or(library))
        .collect();
    line.push_str(&format!(", needs {}", libraries.join(" ")));
    line
}

fn dotted((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platforms::named;

    fn platform(name: &str) -> Platform {
        named(name).expect("it is listed")
    }

    /// An addon as it should be.
    fn sound(name: &str) -> Binary {
        let platform = platform(name);
        let (format, architecture) = wanted(&platform);
        let (library, symbol): (&str, &[&str]) = match (platform.os, platform.libc) {
            ("darwin", _) => ("/usr/lib/libSystem.B.dylib", &[]),
            ("win32", _) => ("KERNEL32.dll", &[]),
            (_, Some("musl")) => ("libc.so", &[]),
            _ => ("libc.so.6", &["GLIBC_2.9", "GLIBC_2.28", "GLIBC_2.2.5"]),
        };
        Binary {
            bytes: 6 << 20,
            format,
            architecture,
            exports: vec![ENTRY.to_owned()],
            libraries: vec![library.to_owned()],
            symbol_versions: symbol.iter().map(|&name| name.to_owned()).collect(),
            macos_version_min: (platform.os == "darwin").then_some((10, 15)),
            is_signed: platform.os == "darwin" && platform.cpu == "arm64",
            has_debug_info: false,
        }
    }

    #[test]
    fn a_sound_addon_of_each_platform_passes_for_it_and_for_no_other() {
        let all = crate::platforms::all();
        for built in &all {
            for asked in &all {
                let faults = faults(&sound(built.name), asked, Target::Published);
                assert_eq!(
                    faults.is_empty(),
                    built == asked,
                    "{} as {}: {faults:?}",
                    built.name,
                    asked.name
                );
            }
        }
    }

    #[test]
    fn each_fault_is_found() {
        type Harm = fn(&mut Binary);
        let cases: [(&str, Harm, &str); 12] = [
            (
                "linux-x64-gnu",
                |found| found.symbol_versions.push("GLIBC_2.30".into()),
                "needs glibc 2.30, and the",
            ),
            (
                "linux-x64-gnu",
                |found| found.symbol_versions.push("GLIBC_PRIVATE".into()),
                "keeps to itself",
            ),
            (
                "linux-x64-gnu",
                |found| found.symbol_versions.clear(),
                "doesn't say which release",
            ),
            (
                "linux-x64-gnu",
                |found| found.exports.clear(),
                "doesn't export napi_register_module_v1",
            ),
            (
                "linux-x64-gnu",
                |found| found.libraries.push("libstdc++.so.6".into()),
                "needs libstdc++.so.6",
            ),
            (
                "linux-arm64-musl",
                |found| found.libraries.push("libc.so.6".into()),
                "needs libc.so.6",
            ),
            (
                "linux-arm64-musl",
                |found| found.symbol_versions.push("GLIBC_2.2.5".into()),
                "symbols of glibc",
            ),
            (
                "darwin-arm64",
                |found| found.macos_version_min = Some((13, 0)),
                "needs macOS 13.0, and the",
            ),
            (
                "darwin-arm64",
                |found| found.is_signed = false,
                "isn't signed",
            ),
            (
                "darwin-x64",
                |found| {
                    found
                        .libraries
                        .push("/opt/homebrew/lib/libzstd.1.dylib".into())
                },
                "libzstd",
            ),
            (
                "win32-x64",
                |found| found.libraries.push("VCRUNTIME140.dll".into()),
                "needs VCRUNTIME140.dll",
            ),
            (
                "linux-x64-gnu",
                |found| found.has_debug_info = true,
                "isn't stripped",
            ),
        ];
        for (name, harm, wanted) in cases {
            let mut binary = sound(name);
            harm(&mut binary);
            let faults = faults(&binary, &platform(name), Target::Published);
            assert!(
                matches!(&faults[..], [fault] if fault.contains(wanted)),
                "{name}: {wanted}: {faults:?}"
            );
        }
    }

    #[test]
    fn what_is_built_for_this_machine_may_need_its_system() {
        let mut gnu = sound("linux-x64-gnu");
        gnu.symbol_versions.push("GLIBC_2.36".to_owned());
        assert_eq!(
            faults(&gnu, &platform("linux-x64-gnu"), Target::Local),
            Vec::<String>::new()
        );
        let mut windows = sound("win32-x64");
        windows.libraries.push("VCRUNTIME140.dll".to_owned());
        assert_eq!(
            faults(&windows, &platform("win32-x64"), Target::Local),
            Vec::<String>::new()
        );
    }

    #[test]
    fn only_tests_take_an_addon_that_is_not_stripped() {
        let faults_of = |has_debug_info, target| {
            let binary = Binary {
                has_debug_info,
                ..sound("linux-x64-gnu")
            };
            faults(&binary, &platform("linux-x64-gnu"), target).len()
        };
        assert_eq!(faults_of(true, Target::Tests), 0);
        assert_eq!(faults_of(true, Target::Local), 1);
        assert_eq!(faults_of(false, Target::Local), 0);
    }

    /// This very program is linked with the C library of the machine, as an addon is when a cross build falls back on it.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn a_file_linked_with_glibc_is_no_addon_for_musl() {
        let path = std::env::current_exe().expect("it runs from a file");
        let musl = if cfg!(target_arch = "aarch64") {
            "linux-arm64-musl"
        } else {
            "linux-x64-musl"
        };
        let why = check(&path, &platform(musl), Target::Published).expect_err("it is no addon");
        for part in [
            "needs libc.so.6",
            "needs symbols of glibc",
            "doesn't export",
        ] {
            assert!(why.contains(part), "{part} in: {why}");
        }
        assert!(
            !why.contains("and should be"),
            "the machine is right: {why}"
        );
        assert!(
            why.contains("isn't stripped"),
            "tests have line numbers: {why}"
        );
        let why =
            check(&path, &platform("darwin-arm64"), Target::Published).expect_err("it is no addon");
        assert!(
            why.contains("it is Elf for") && why.contains("should be MachO for Aarch64"),
            "{why}"
        );
    }

    #[test]
    fn a_file_that_is_no_library_is_said_to_be_none() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let why = check(&path, &platform("linux-x64-gnu"), Target::Local).expect_err("it is text");
        assert!(why.contains("Cargo.toml: not a library"), "{why}");
    }
}
