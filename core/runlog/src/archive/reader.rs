//! The lines of an archive, one at a time.

use std::io::{BufRead, ErrorKind as IoErrorKind, Read};

use runlog_log::crc::Hasher;

use super::lines::{Counts, LINE_BYTES_MAX, Line, decode};
use crate::{Error, ErrorKind, Result, transcripts::compressed};

/// Passes on the lines of an archive in order, with their numbers.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if it is no archive, has a line that can't be read, or is incomplete: an
/// archive is imported as a whole or not at all.
pub(super) fn each_line(
    mut source: &mut dyn BufRead,
    mut visit: impl FnMut(u64, Line) -> Result<()>,
) -> Result<()> {
    let mut bytes = Vec::new();
    let mut sum = Hasher::new();
    let (mut number, mut open, mut is_over) = (0, None::<Counts>, false);
    loop {
        bytes.clear();
        match Read::take(&mut source, LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == IoErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Error::with_source(
                    ErrorKind::Io,
                    format!("reading it: {error}"),
                    error,
                ));
            }
        }
        number += 1;
        if bytes.len() as u64 > LINE_BYTES_MAX {
            return Err(refused(
                number,
                &format!("the line has more than {LINE_BYTES_MAX} bytes"),
            ));
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        if number == 1
            && let Some(why) = compressed(&bytes)
        {
            return Err(refused(number, why));
        }
        let line = decode(&bytes).map_err(|why| match open {
            Some(_) => refused(number, &why),
            None if is_over => refused(number, &why),
            None => refused(number, &format!("this is no export of a store: {why}")),
        })?;
        match (&line, &mut open) {
            _ if is_over => {
                return Err(refused(
                    number,
                    "more comes after the end of the export; import each from a file of its own",
                ));
            }
            (Line::Archive, None) => open = Some(Counts::default()),
            (Line::Archive, Some(_)) => {
                return Err(refused(
                    number,
                    "another export begins before the end of this one",
                ));
            }
            (_, None) => return Err(refused(number, "expected the beginning of an export")),
            (Line::Stream(_), Some(counts)) => counts.streams += 1,
            (Line::Record(_), Some(counts)) => counts.records += 1,
            (Line::Snapshot(_), Some(counts)) => counts.snapshots += 1,
            (Line::Lost(_), Some(counts)) => counts.lost += 1,
            (Line::End(claimed, crc), Some(counts)) => {
                if claimed != counts {
                    let Counts {
                        streams,
                        records,
                        snapshots,
                        lost,
                    } = *claimed;
                    let what = format!(
                        "expected {streams} streams, {records} records, {snapshots} snapshots and {lost} lines of what is lost before the end, found {}, {}, {} and {}",
                        counts.streams, counts.records, counts.snapshots, counts.lost
                    );
                    return Err(refused(number, &what));
                }
                if crc.is_some_and(|crc| crc != sum.clone().finalize()) {
                    return Err(refused(
                        number,
                        "the CRC here is that of other lines: the file was damaged or changed since it was exported. Export it again, or take \
                         `crc` out of this line where that was meant",
                    ));
                }
                (open, is_over) = (None, true);
            }
        }
        // Ends of lines that a tool changed say nothing of what is in them.
        sum.update(bytes.trim_ascii_end());
        sum.update(b"\n");
        visit(number, line)?;
    }
    if number == 0 {
        let what = "there is nothing in it, not the first line of an export; nothing was written";
        return Err(Error::invalid(what));
    }
    if !is_over {
        return Err(refused(number, "the export breaks off here"));
    }
    Ok(())
}

/// When the first record of an archive was written: milliseconds since 1970-01-01 UTC. `None` if it has none.
///
/// # Errors
/// As [`import`](super::import).
pub fn first_time(mut source: &mut dyn BufRead) -> Result<Option<u64>> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = Read::take(&mut source, LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|error| {
            Error::with_source(ErrorKind::Io, format!("reading it: {error}"), error)
        })?;
        match decode(&bytes).map_err(|why| refused(number, &why))? {
            Line::Record(line) | Line::Snapshot(line) => return Ok(Some(line.time_ms)),
            Line::End(..) => break,
            Line::Archive | Line::Stream(_) | Line::Lost(_) => {}
        }
    }
    Ok(None)
}

/// The error of an archive that is invalid from a line on.
pub(super) fn refused(line: u64, why: &str) -> Error {
    Error::invalid(format!("line {line}: {why}; nothing was written"))
}
