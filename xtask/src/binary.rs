//! The properties of a built library, read from any format: its platform, its exports and its requirements.

use object::{
    Architecture, BinaryFormat, File, NameOrOrdinal, Object as _,
    elf::DT_NEEDED,
    macho,
    read::{
        elf::ElfFile64,
        macho::{LoadCommandVariant, MachOFile64},
    },
};

use crate::platforms::Version;

/// A library, as a loader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Binary {
    pub(crate) bytes: usize,
    pub(crate) format: BinaryFormat,
    pub(crate) architecture: Architecture,
    pub(crate) exports: Vec<String>,
    /// The libraries it depends on.
    pub(crate) libraries: Vec<String>,
    /// The symbol versions it requires of those, as ELF names them: `GLIBC_2.28`.
    pub(crate) symbol_versions: Vec<String>,
    /// The oldest macOS that loads it.
    pub(crate) macos_version_min: Option<Version>,
    /// Whether it has a signature, without which macOS on arm64 loads nothing.
    pub(crate) is_signed: bool,
    /// Whether it has debug information, which is most of a build that isn't stripped.
    pub(crate) has_debug_info: bool,
}

impl Binary {
    /// Reads a library.
    pub(crate) fn read(data: &[u8]) -> Result<Self, String> {
        let file = File::parse(data).map_err(|error| format!("not a library: {error}"))?;
        let mut binary = Self {
            bytes: data.len(),
            format: file.format(),
            architecture: file.architecture(),
            exports: exports(&file).map_err(|error| format!("exports: {error}"))?,
            libraries: Vec::new(),
            symbol_versions: Vec::new(),
            macos_version_min: None,
            is_signed: false,
            has_debug_info: file.has_debug_symbols(),
        };
        match &file {
            File::Elf64(elf) => binary.read_elf(elf),
            File::MachO64(macho) => binary.read_macho(macho),
            other => binary.read_imports(other),
        }
        .map_err(|error| format!("what it needs: {error}"))?;
        binary.libraries.sort();
        binary.libraries.dedup();
        Ok(binary)
    }

    fn read_elf(&mut self, elf: &ElfFile64<'_>) -> object::Result<()> {
        let endian = elf.endian();
        let table = elf.elf_dynamic_table()?;
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
            self.libraries.push(text(table.string(entry)?));
        }
        let sections = elf.elf_section_table();
        let Some((mut needs, strings)) = sections.gnu_verneed(endian, elf.data())? else {
            return Ok(());
        };
        let strings = sections.strings(endian, elf.data(), strings)?;
        while let Some((_, mut versions)) = needs.next()? {
            while let Some(version) = versions.next()? {
                self.symbol_versions
                    .push(text(version.name(endian, strings)?));
            }
        }
        Ok(())
    }

    fn read_macho(&mut self, macho: &MachOFile64<'_>) -> object::Result<()> {
        let endian = macho.endian();
        let mut commands = macho.macho_load_commands()?;
        while let Some(command) = commands.next()? {
            self.is_signed |= command.cmd() == macho::LC_CODE_SIGNATURE;
            match command.variant()? {
                LoadCommandVariant::Dylib(library) => {
                    self.libraries
                        .push(text(command.string(endian, library.dylib.name)?));
                }
                LoadCommandVariant::BuildVersion(version, _) => {
                    self.macos_version_min = Some(macos_version(version.minos.get(endian)));
                }
                LoadCommandVariant::VersionMin(version) => {
                    self.macos_version_min = Some(macos_version(version.version.get(endian)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_imports(&mut self, file: &File<'_>) -> object::Result<()> {
        for import in file.imports()? {
            self.libraries.push(text(import?.library()));
        }
        Ok(())
    }
}

/// The names it exports, as C writes them.
fn exports(file: &File<'_>) -> object::Result<Vec<String>> {
    let prefix = if file.format() == BinaryFormat::MachO {
        "_"
    } else {
        ""
    };
    let mut names = Vec::new();
    for export in file.exports()? {
        if let NameOrOrdinal::Name(name) = export?.name() {
            let name = text(name);
            names.push(name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name));
        }
    }
    Ok(names)
}

fn macos_version(found: macho::Version) -> Version {
    (found.major().into(), found.minor().into())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a library for macOS on arm64, which is all that says what it needs.
    fn macho() -> Vec<u8> {
        let library = b"/usr/lib/libSystem.B.dylib\0\0\0\0\0\0";
        let words = |words: &[u32]| {
            words
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        [
            // A library with three commands, which are 96 bytes.
            words(&[0xfeed_facf, 0x0100_000c, 0, 6, 3, 96, 0, 0]),
            words(&[0xc, 56, 24, 0, 0, 0]),
            library.to_vec(),
            words(&[0x32, 24, 1, 11 << 16 | 3 << 8, 0, 0]),
            words(&[0x1d, 16, 0, 0]),
        ]
        .concat()
    }

    #[test]
    fn a_library_for_macos_says_what_it_needs() {
        let binary = Binary::read(&macho()).expect("it is one");
        assert_eq!(
            (binary.format, binary.architecture),
            (BinaryFormat::MachO, Architecture::Aarch64)
        );
        assert_eq!(binary.libraries, ["/usr/lib/libSystem.B.dylib"]);
        assert_eq!(binary.macos_version_min, Some((11, 3)));
        assert!(binary.is_signed && binary.exports.is_empty() && binary.symbol_versions.is_empty());
    }

    #[test]
    fn a_library_that_is_cut_off_is_refused() {
        let whole = macho();
        for length in 0..whole.len() {
            assert!(
                Binary::read(whole.get(..length).expect("it is shorter")).is_err(),
                "{length} bytes"
            );
        }
    }
}
