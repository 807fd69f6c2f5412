//! Files to import: their names, and their formats, detected from their beginning.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use runlog::transcripts::{self, Format};

use super::{
    archive::is_archive,
    tables::{FileFormat, LOOKED_AT_BYTES, detect_table},
};
use crate::{
    failure::{Failure, Result},
    lines::{LINE_BYTES_MAX, PIECE_BYTES},
};

/// Opens a file and detects its format from its beginning.
pub(crate) fn open(
    file: &Path,
    format: Option<FileFormat>,
) -> Result<(Option<FileFormat>, Box<dyn Read>)> {
    let mut source: Box<dyn Read> = if is_stdin(file) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| Failure::io(&error, "can't read it"))?)
    };
    if format.is_some_and(|format| format != FileFormat::Transcript(Format::Runlog)) {
        return Ok((format, source));
    }
    let beginning = beginning(&mut source)?;
    if is_archive(&beginning) {
        return Ok((
            Some(FileFormat::Archive),
            Box::new(io::Cursor::new(beginning).chain(source)),
        ));
    }
    if format.is_some() {
        return Ok((format, Box::new(io::Cursor::new(beginning).chain(source))));
    }
    let table = detect_table(whole_lines(&beginning)).map(FileFormat::Table);
    Ok((table, Box::new(io::Cursor::new(beginning).chain(source))))
}

/// An error if a file can't be imported, as far as a short one can be looked at as a whole, and a long one by its beginning.
pub(crate) fn check(file: &Path, format: Option<FileFormat>) -> Result<()> {
    let (found, mut source) = open(file, format)?;
    if found.is_some() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    (&mut source)
        .take(CHECKED_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io(&error, "can't read it"))?;
    let is_whole = bytes.len() as u64 <= CHECKED_BYTES_MAX;
    match transcripts::detect(&bytes) {
        Err(error) if is_whole || bytes.contains(&0) => Err(error.into()),
        _ => Ok(()),
    }
}

/// How much of a file is looked at before there is a store to import it into.
const CHECKED_BYTES_MAX: u64 = 1 << 20;

/// The beginning of a file, enough to detect a table: at least one line, if it has any.
fn beginning(source: &mut dyn Read) -> Result<Vec<u8>> {
    let mut beginning = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes_max = LINE_BYTES_MAX;
    while beginning.len() < bytes_max {
        let read = read_piece(source, &mut piece)?;
        beginning.extend_from_slice(read);
        if read.is_empty() || read.contains(&0) {
            break;
        }
        if read.contains(&b'\n') {
            let lines = whole_lines(&beginning);
            if detect_table(lines).is_some() || transcripts::detect(lines).is_ok() {
                break;
            }
            bytes_max = LOOKED_AT_BYTES;
        }
    }
    Ok(beginning)
}

/// The part up to the last line break; everything if the whole file is shorter than the limit.
fn whole_lines(beginning: &[u8]) -> &[u8] {
    match beginning.iter().rposition(|byte| *byte == b'\n') {
        _ if beginning.len() < LOOKED_AT_BYTES => beginning,
        Some(last) => &beginning[..last],
        None => &[],
    }
}

/// The next bytes of a file; none at its end.
pub(crate) fn read_piece<'a>(source: &mut dyn Read, piece: &'a mut [u8]) -> Result<&'a [u8]> {
    loop {
        match source.read(piece) {
            Ok(length) => return Ok(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::io(&error, "can't read it")),
        }
    }
}

/// Whether a file is standard input.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The name of a file's sessions without a name: the file's name without its extension.
pub(crate) fn name_of(file: &Path) -> String {
    match file.file_stem() {
        Some(stem) if !is_stdin(file) => stem.to_string_lossy().into_owned(),
        _ => "stdin".to_owned(),
    }
}
