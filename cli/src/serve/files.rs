//! The raw files of the store, for readers that open a store by ranges of its files.
//!
//! A requested name is compared with the names of the folder's store files; no path is ever built from a request.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    ops::RangeInclusive,
    path::Path,
    time::UNIX_EPOCH,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_range_header::parse_range_header;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    app::App,
    background::in_background,
    endpoint::{AnswerSpec, Endpoint, NoPath, NoQuery, json, stream},
    problem::{Answer, Problem},
};

/// How many bytes are read and sent at a time.
const PIECE_BYTES: u64 = 256 << 10;

/// The extensions of files with records: of a segment, and of a pack, which replaces several.
const SEGMENT: &str = ".seg";
const PACK: &str = ".pack";
/// The other files that a reader uses.
const OTHER_FILES: [&str; 4] = ["RUNLOG", "END", "CHECKPOINT", "WATERMARK"];

/// The files of the store.
#[derive(Serialize, JsonSchema)]
struct Files {
    files: Vec<StoreFile>,
}

/// One file of the store.
#[derive(Serialize, JsonSchema)]
struct StoreFile {
    /// Its name.
    name: String,
    /// Its length in bytes. That of the newest segment grows, or is made ahead of need.
    size: u64,
}

#[derive(Deserialize, JsonSchema)]
struct OfFile {
    /// The file, as the list names it.
    name: String,
}

/// The endpoints of the files.
pub(super) fn endpoints() -> [Endpoint; 2] {
    let answer = AnswerSpec {
        status: StatusCode::OK,
        content_type: "application/octet-stream",
        about: "The file, or with 206 the range of it that the header `Range` asks for.",
        schema: |_| serde_json::json!({"type": "string", "format": "binary"}),
    };
    [
        stream::<NoPath, NoQuery, _, _>(
            "/v1/store/files",
            "Lists the files of the store that a reader needs, with their sizes.",
            AnswerSpec::json::<Files>(StatusCode::OK),
            list,
        ),
        stream::<OfFile, NoQuery, _, _>(
            "/v1/store/files/{name}",
            "Gives a file of the store, or one range of it: `Range`, `If-Range`, `If-Match` and `If-None-Match` are understood. \
             The newest segment, `END`, `CHECKPOINT` and `WATERMARK` change; what a segment has of whole records stays.",
            answer,
            file,
        )
        .using_headers(&[
            ("Range", "One range of bytes, such as `bytes=0-1023`; several are answered with the whole file."),
            ("If-Range", "The `ETag` that the file has to have for the range to be given; else it is given whole."),
            ("If-Match", "The `ETag` that the file has to have to be given at all; else 412 is answered."),
            ("If-None-Match", "The `ETag` that the client has the file of."),
        ]),
    ]
}

async fn list(app: App, _: HeaderMap, _: NoPath, _: NoQuery) -> Answer<Response> {
    let listing = move || listed(app.folder()).map_err(|error| failed(&error));
    let files = in_background(listing).await?;
    json(StatusCode::OK, &Files { files })
}

/// Whether a reader of a store uses a file with this name.
fn is_of_a_store(name: &str) -> bool {
    let is_number =
        |digits: &str| digits.len() >= 8 && digits.bytes().all(|it| it.is_ascii_digit());
    let is_range = |name: &str| {
        let parts = name.split_once('.').and_then(|(range, generation)| {
            let (first, last) = range.split_once('-')?;
            Some((first, last, generation))
        });
        parts.is_some_and(|(first, last, generation)| {
            let is_generation =
                !generation.is_empty() && generation.bytes().all(|it| it.is_ascii_digit());
            is_number(first) && is_number(last) && is_generation
        })
    };
    OTHER_FILES.contains(&name)
        || name.strip_suffix(SEGMENT).is_some_and(is_number)
        || name.strip_suffix(PACK).is_some_and(is_range)
}

/// The files in the folder, without links, which may lead elsewhere.
fn listed(folder: &Path) -> io::Result<Vec<StoreFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        // The metadata of the entry itself, not of a link's target.
        let about = match entry.metadata() {
            Ok(about) => about,
            // Compaction has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if about.is_file() && is_of_a_store(&name) {
            let size = about.len();
            files.push(StoreFile { name, size });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

fn failed(error: &io::Error) -> Problem {
    Problem::internal(format!("the folder of the store: {error}"))
}

/// An open file, with the values of its headers.
struct Opened {
    file: File,
    size: u64,
    /// Changes when the file does, within the precision of the file system's clock.
    tag: String,
}

fn open(folder: &Path, wanted: &str) -> Answer<Opened> {
    let files = listed(folder).map_err(|error| failed(&error))?;
    let Some(found) = files.into_iter().find(|file| file.name == wanted) else {
        let detail =
            format!("the store has no file {wanted:?}; /v1/store/files lists those it has");
        return Err(Problem::not_found(detail));
    };
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // It may have been replaced by a link since it was listed.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    let opened = options.open(folder.join(&found.name));
    let file = opened.map_err(|error| failed(&error))?;
    let about = file.metadata().map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(Problem::not_found(format!("{wanted:?} is no file")));
    }
    let changed = about.modified().ok();
    let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let changed = changed.map_or(0, |at| at.as_nanos());
    Ok(Opened {
        size: about.len(),
        tag: format!("\"{:x}-{changed:x}-{:x}\"", about.len(), number(&about)),
        file,
    })
}

/// A number that distinguishes a file from another one with its name.
fn number(about: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        std::os::unix::fs::MetadataExt::ino(about)
    }
    #[cfg(not(unix))]
    {
        let _ = about;
        0
    }
}

async fn file(app: App, headers: HeaderMap, of: OfFile, _: NoQuery) -> Answer<Response> {
    let opened = in_background(move || open(app.folder(), &of.name)).await?;
    let tag =
        HeaderValue::from_str(&opened.tag).map_err(|error| Problem::internal(error.to_string()))?;
    if !is_expected(&headers, &opened.tag) {
        return Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "precondition_failed",
            format!(
                "the file's `ETag` is {}, none that `If-Match` names: it has changed; ask for it anew without `If-Match`",
                opened.tag
            ),
        ));
    }
    if is_known(&headers, &opened.tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let (status, range) = match range(&headers, &opened)? {
        Some(range) => (StatusCode::PARTIAL_CONTENT, Some(range)),
        None => (StatusCode::OK, None),
    };
    let (first, length) = match &range {
        Some(range) => (*range.start(), range.end() - range.start() + 1),
        None => (0, opened.size),
    };
    let mut answer = Response::new(body(opened.file, first, length));
    *answer.status_mut() = status;
    let own = answer.headers_mut();
    own.insert(header::ETAG, tag);
    own.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    own.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    own.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(range) = range {
        let of_all = format!("bytes {}-{}/{}", range.start(), range.end(), opened.size);
        if let Ok(of_all) = HeaderValue::from_str(&of_all) {
            own.insert(header::CONTENT_RANGE, of_all);
        }
    }
    Ok(answer)
}

/// The requested range; `None` for the whole file, also if several ranges are requested, or if the file has changed
/// since the client got its part.
fn range(headers: &HeaderMap, opened: &Opened) -> Answer<Option<RangeInclusive<u64>>> {
    let Some(asked) = only(headers, &header::RANGE) else {
        return Ok(None);
    };
    // Clients combine ranges byte by byte, so only exactly this tag is valid.
    let is_other = || only(headers, &header::IF_RANGE).is_none_or(|own| own != opened.tag.as_str());
    if headers.contains_key(header::IF_RANGE) && is_other() {
        return Ok(None);
    }
    let asked = asked.to_str().unwrap_or_default();
    let Ok(parsed) = parse_range_header(asked) else {
        // Ignored, as the standard allows.
        return Ok(None);
    };
    match parsed.validate(opened.size).as_deref() {
        Ok([one]) => Ok(Some(one.clone())),
        Ok(_) => Ok(None),
        Err(_) => Err(Problem::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "range_not_satisfiable",
            format!(
                "the file has {} bytes, none of them in {asked:?}",
                opened.size
            ),
        )),
    }
}

/// The value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a HeaderValue> {
    let mut given = headers.get_all(name).into_iter();
    given.next().filter(|_| given.next().is_none())
}

/// The tags that a header names.
fn tags<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let given = headers.get_all(name).into_iter();
    given
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Whether the file is one that the client asks for, if it says which. A weak tag stands for none: parts of files are put together.
fn is_expected(headers: &HeaderMap, tag: &str) -> bool {
    let is_any = !headers.contains_key(header::IF_MATCH);
    is_any || tags(headers, &header::IF_MATCH).any(|one| one == "*" || one == tag)
}

/// Whether the client has the file with this tag. It may be a weak tag, because proxies weaken it.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    tags(headers, &header::IF_NONE_MATCH)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// The rest of a file to read.
struct Rest {
    file: File,
    length: u64,
}

/// A part of a file, read as the client takes it.
fn body(file: File, first: u64, length: u64) -> Body {
    let rest = Some((Rest { file, length }, Some(first)));
    let pieces = futures_util::stream::unfold(rest, async |rest| {
        let (rest, seek) = rest.filter(|(rest, _)| rest.length > 0)?;
        let read = tokio::task::spawn_blocking(move || rest.next(seek)).await;
        Some(match read {
            Ok(Ok((piece, rest))) => (Ok(piece), Some((rest, None))),
            Ok(Err(error)) => (Err(error), None),
            Err(error) => (Err(io::Error::other(error)), None),
        })
    });
    Body::from_stream(pieces)
}

impl Rest {
    /// The next piece. If the file has become shorter, the response is aborted, so that it isn't mistaken for complete.
    fn next(mut self, seek: Option<u64>) -> io::Result<(Bytes, Self)> {
        if let Some(first) = seek {
            self.file.seek(SeekFrom::Start(first))?;
        }
        let length = self.length.min(PIECE_BYTES);
        let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact(&mut piece)?;
        self.length -= length;
        Ok((piece.into(), self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_store_are_given() {
        for name in [
            "RUNLOG",
            "00000001.seg",
            "123456789.seg",
            "00000001-00000012.3.pack",
            "WATERMARK",
        ] {
            assert!(is_of_a_store(name), "{name}");
        }
        for name in [
            "LOCK",
            ".seg",
            "1.seg",
            "00000001.seg.tmp",
            "cut-00000001-0.bin",
            "../RUNLOG",
            "runlog",
            "0000000x.seg",
            "00000001-00000012.3.pack.tmp",
            "00000001-00000012..pack",
            "00000001-../RUNLOG.3.pack",
            "00000001.3.pack",
            "",
        ] {
            assert!(!is_of_a_store(name), "{name}");
        }
    }
}
