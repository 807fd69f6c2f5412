//! `runlog salvage`: prints every complete record of a folder, even if it can't be opened as a store.

use std::{io::Write, ops::ControlFlow, path::PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use runlog::archive::NewFile;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::{self, Out},
    store::{self, Salvage, Salvaged},
    text,
};

const AFTER_HELP: &str = "\
Reads what no other command can open: segments without their neighbours, without a header or an index, RUNLOG or not, and \
what `runlog verify --repair` has put aside in cut-….bin. Takes no lock and changes nothing.

Prints a line of JSON for each record, in order of segment and offset: {\"file\", \"segment\", \"offset\", \"cut\", \
\"position\", \"stream\", \"stream_number\", \"sequence\", \"kind\", \"time_ms\", \"epoch\", \"key\", \"redacted\", \"meta\", \
\"payload\"}. \"meta\" and \"payload\" are {\"json\": …} where the bytes are JSON, else {\"text\": …} where they are UTF-8, else \
{\"base64\": …}; \"cut\" says whether it lies in a cut-….bin. What isn't known any more is null. Records that were truncated, \
and those of deleted streams, are among them; what was redacted is left out of its record. A summary is on stderr; with \
--json it is {\"summary\": {\"files\", \"records\", \"cut_records\", \"unnamed\", \"unreadable_bytes\", \"notes\": […]}}.

With --out the file gets its name when it is whole, and never takes the place of another; until then it is a hidden file beside \
it, .runlog-….partial.

Exit code 0 when everything that lies there was read, 5 when some bytes hold no whole record or a file could not be read, 3 \
when there is no such folder, or no store in it.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The folder; else that of --store
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write the records to a file instead
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A record, as it is printed.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    segment: u32,
    offset: u64,
    cut: bool,
    position: Option<u64>,
    stream: Option<String>,
    stream_number: u32,
    sequence: u64,
    kind: u8,
    time_ms: Option<u64>,
    epoch: Option<u32>,
    key: Option<Body<'a>>,
    redacted: bool,
    meta: Option<Body<'a>>,
    payload: Body<'a>,
}

/// Bytes, as JSON, text or base64.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Body<'a> {
    Json(&'a RawValue),
    Text(&'a str),
    Base64(String),
}

impl<'a> Body<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => serde_json::from_str(text).map_or(Self::Text(text), Self::Json),
            Err(_) => Self::Base64(BASE64_STANDARD.encode(bytes)),
        }
    }

    fn unless_empty(bytes: &'a [u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self::of(bytes))
    }
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let folder = args.folder.as_ref().unwrap_or(&global.store);
    let mut file = match &args.out {
        Some(path) => {
            // Never overwrites an existing file: it may be one of the store's.
            let made = NewFile::create(path).map_err(|error| Failure::unwritten(&error, path))?;
            Some((made, path))
        }
        None => None,
    };
    let mut failed = None;
    let mut print = |record: Salvaged| {
        let line = line(&record);
        let written = match &mut file {
            Some((file, path)) => {
                write_line(file, &line).map_err(|error| Failure::unwritten(&error, path))
            }
            None => out.value(&line),
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    };
    let found = store::salvage(folder, &mut print)?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if let Some((file, path)) = file {
        file.finish()
            .map_err(|error| Failure::unwritten(&error, path))?;
    }
    out.flush()?;
    print_summary(&found, out.is_json());
    Ok(if found.unreadable_bytes == 0 && found.notes.is_empty() {
        Exit::Ok
    } else {
        Exit::Damaged
    })
}

fn write_line(file: &mut impl Write, line: &Line<'_>) -> std::io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    // Recorded JSON keeps its own line breaks, which are white space between values.
    bytes
        .iter_mut()
        .filter(|byte| matches!(**byte, b'\n' | b'\r'))
        .for_each(|byte| *byte = b' ');
    bytes.push(b'\n');
    file.write_all(&bytes)
}

fn line(record: &Salvaged) -> Line<'_> {
    Line {
        file: &record.file,
        segment: record.segment.0,
        offset: record.offset,
        cut: record.is_cut,
        position: record.position.map(|position| position.0),
        stream: record.stream.map(|stream| stream.to_string()),
        stream_number: record.stream_number,
        sequence: record.sequence.0,
        kind: record.kind.0,
        time_ms: record.time_ms,
        epoch: record.epoch,
        key: Body::unless_empty(&record.key),
        redacted: record.redacted,
        meta: Body::unless_empty(&record.meta),
        payload: Body::of(&record.payload),
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    files: u64,
    records: u64,
    cut_records: u64,
    unnamed: u64,
    unreadable_bytes: u64,
    notes: &'a [String],
}

fn print_summary(found: &Salvage, is_json: bool) {
    if is_json {
        let summary = Summary {
            files: found.files,
            records: found.records,
            cut_records: found.cut_records,
            unnamed: found.unnamed,
            unreadable_bytes: found.unreadable_bytes,
            notes: &found.notes,
        };
        output::to_stderr(&serde_json::json!({ "summary": summary }).to_string());
        return;
    }
    for line in &found.notes {
        output::to_stderr(&text::printable(line));
    }
    let mut summary = format!(
        "{} in {}",
        text::count(found.records, "record", "records"),
        text::count(found.files, "file", "files")
    );
    if found.cut_records > 0 {
        summary += &format!(
            ", {} of them cut out of the log",
            text::thousands(found.cut_records)
        );
    }
    if found.unnamed > 0 {
        summary += &format!(
            ", {} of streams that nothing names",
            text::thousands(found.unnamed)
        );
    }
    if found.unreadable_bytes > 0 {
        summary += &format!(
            "; {} hold no whole record",
            text::bytes(found.unreadable_bytes)
        );
    }
    output::to_stderr(&summary);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_as_what_they_are() {
        let summary = |bytes: &[u8]| serde_json::to_string(&Body::of(bytes)).unwrap();
        assert_eq!(summary(br#"{"a": [1]}"#), r#"{"json":{"a": [1]}}"#);
        assert_eq!(summary(b"not json"), r#"{"text":"not json"}"#);
        assert_eq!(summary(b"\xff\xfe\x00"), r#"{"base64":"//4A"}"#);
    }
}
