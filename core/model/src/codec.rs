//! The binary encoding of metadata beside a payload. The only place that calls bincode; ids and the rows of checkpoints
//! derive their form where they are declared.
//!
//! A metadata part is a schema version (one byte), then the fields of that version: fixed-width integers,
//! little-endian, lengths as u64, an option as one byte and its value. Payloads are JSON and not encoded here.

use bincode::{
    Decode, Encode,
    config::{Config, Configuration, Fixint, Limit, LittleEndian},
    de::Decoder,
    enc::Encoder,
    error::{DecodeError, EncodeError},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result, RunId,
    limits::{META_BYTES_MAX, PART_BYTES_MAX},
};

/// The newest version of event metadata: the first one, and behind it for each tool a byte, whether its output is said as JSON.
pub const EVENT_META_VERSION: u8 = 2;
/// The version that event metadata is written in where it needs no newer one, so that older builds read it.
const EVENT_META_VERSION_1: u8 = 1;
/// What event metadata is called in messages.
const EVENT_META: &str = "event metadata";
/// The version that checkpoints and their parts are written in.
pub const CHECKPOINT_VERSION: u8 = 5;

/// The most memory that decoding event metadata may allocate. An empty mark takes 3 bytes encoded, and 56 in memory.
const META_MEMORY_MAX: usize = META_BYTES_MAX / 3 * 64;

const CONFIG: Configuration<LittleEndian, Fixint, Limit<META_MEMORY_MAX>> =
    bincode::config::standard()
        .with_fixed_int_encoding()
        .with_little_endian()
        .with_limit::<META_MEMORY_MAX>();

const PART_CONFIG: Configuration<LittleEndian, Fixint, Limit<PART_BYTES_MAX>> =
    bincode::config::standard()
        .with_fixed_int_encoding()
        .with_little_endian()
        .with_limit::<PART_BYTES_MAX>();

/// The metadata stored beside a context event's content.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct EventMeta {
    /// Whether the content lacks the message's role, which the event's kind then gives.
    pub role_implied: bool,
    /// When the event happened, where that isn't when it was appended (an import, a copy).
    pub created_at_ms: Option<u64>,
    /// The run it belongs to.
    pub run_id: Option<RunId>,
    /// The step of the run.
    pub step_number: Option<u32>,
    /// The tool call it is (a tool_call), or the ones it answers (a tool_result), in order.
    pub tools: Vec<ToolMark>,
    /// Whether a resume added it to make the agent continue, so that it is no user's message.
    pub is_continuation: bool,
}

/// The metadata of an event about one tool call: its id, and how it ended if that is known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolMark {
    /// The call's id, `None` with the providers that give none.
    pub tool_call_id: Option<String>,
    /// Whether the tool failed. `false` for a call that has no result yet.
    #[serde(default)]
    pub is_error: bool,
    /// How long the tool itself took, in milliseconds of wall clock.
    pub duration_ms: Option<u64>,
    /// Whether the tool gave a value that no provider takes as a result, such as an object: the message has its JSON as text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_is_json: bool,
}

// Without `output_is_json`, which only version 2 of event metadata has, behind all other fields.
impl Encode for ToolMark {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> std::result::Result<(), EncodeError> {
        self.tool_call_id.encode(encoder)?;
        self.is_error.encode(encoder)?;
        self.duration_ms.encode(encoder)
    }
}

impl<Context> Decode<Context> for ToolMark {
    fn decode<D: Decoder<Context = Context>>(
        decoder: &mut D,
    ) -> std::result::Result<Self, DecodeError> {
        Ok(Self {
            tool_call_id: Decode::decode(decoder)?,
            is_error: Decode::decode(decoder)?,
            duration_ms: Decode::decode(decoder)?,
            output_is_json: false,
        })
    }
}

bincode::impl_borrow_decode!(ToolMark);

/// Writes event metadata: in version 1, unless something of it has a place in version 2 only.
///
/// # Errors
/// [`TooLarge`](ErrorKind::TooLarge) over [`META_BYTES_MAX`].
pub fn encode_event_meta(meta: &EventMeta) -> Result<Vec<u8>> {
    let has_json = meta.tools.iter().any(|mark| mark.output_is_json);
    let version = match has_json {
        true => EVENT_META_VERSION,
        false => EVENT_META_VERSION_1,
    };
    let mut bytes = vec![version];
    let fields = bincode::encode_to_vec(meta, CONFIG)
        .map_err(|source| Error::too_large(format!("event metadata can't be encoded: {source}")))?;
    bytes.extend_from_slice(&fields);
    if has_json {
        let marks = meta.tools.iter();
        bytes.extend(marks.map(|mark| u8::from(mark.output_is_json)));
    }
    if bytes.len() > META_BYTES_MAX {
        return Err(Error::too_large(format!(
            "event metadata has {} bytes, at most {META_BYTES_MAX} are allowed; shorten or split the message's tool results",
            bytes.len()
        )));
    }
    Ok(bytes)
}

/// Reads event metadata.
///
/// # Errors
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a version that this build doesn't know,
/// [`Damaged`](ErrorKind::Damaged) for bytes that aren't event metadata.
pub fn decode_event_meta(bytes: &[u8]) -> Result<EventMeta> {
    if bytes.first() == Some(&EVENT_META_VERSION_1) {
        return decode(bytes, EVENT_META_VERSION_1, EVENT_META, CONFIG);
    }
    let fields = fields_of_version(bytes, EVENT_META_VERSION, EVENT_META)?;
    let (mut meta, read): (EventMeta, _) =
        bincode::decode_from_slice(fields, CONFIG).map_err(|source| {
            let length = bytes.len();
            Error::damaged(format!(
                "{EVENT_META} of {length} bytes can't be read: {source}"
            ))
        })?;
    let are_json = &fields[read..];
    if are_json.len() != meta.tools.len() || are_json.iter().any(|is_json| *is_json > 1) {
        return Err(Error::damaged(format!(
            "{EVENT_META} should end with a byte of 0 or 1 for each of {} tools, but {} bytes that aren't all so do",
            meta.tools.len(),
            are_json.len()
        )));
    }
    for (mark, is_json) in meta.tools.iter_mut().zip(are_json) {
        mark.output_is_json = *is_json == 1;
    }
    Ok(meta)
}

/// Writes the metadata of a checkpoint: its version, and the CRC-32 of its payload.
pub fn encode_checkpoint_meta(payload: &[u8]) -> Vec<u8> {
    [
        &[CHECKPOINT_VERSION],
        &runlog_log::crc::hash(payload).to_le_bytes()[..],
    ]
    .concat()
}

/// Checks the metadata of a checkpoint.
///
/// # Errors
/// As [`decode_event_meta`].
pub fn decode_checkpoint_meta(bytes: &[u8], payload: &[u8]) -> Result<()> {
    let crc = fields_of_version(bytes, CHECKPOINT_VERSION, "a checkpoint")?;
    if crc == runlog_log::crc::hash(payload).to_le_bytes() {
        return Ok(());
    }
    Err(Error::damaged(
        "a checkpoint isn't as it was written: its CRC is another",
    ))
}

/// Writes a part of a checkpoint: its version, then its fields.
///
/// # Errors
/// [`TooLarge`](ErrorKind::TooLarge) over [`PART_BYTES_MAX`].
pub fn encode_part(part: &impl Encode) -> Result<Vec<u8>> {
    let fields = bincode::encode_to_vec(part, PART_CONFIG).map_err(|source| {
        Error::too_large(format!("a part of a checkpoint can't be encoded: {source}"))
    })?;
    if fields.len() > PART_BYTES_MAX {
        let bytes = fields.len();
        return Err(Error::too_large(format!(
            "a part of a checkpoint has {bytes} bytes, more than {PART_BYTES_MAX}"
        )));
    }
    Ok([&[CHECKPOINT_VERSION], &fields[..]].concat())
}

/// Reads a part of a checkpoint.
///
/// # Errors
/// As [`decode_event_meta`].
pub fn decode_part<Part: Decode<()>>(bytes: &[u8]) -> Result<Part> {
    decode(
        bytes,
        CHECKPOINT_VERSION,
        "a part of a checkpoint",
        PART_CONFIG,
    )
}

/// Reads the fields that follow a version, and end with the bytes.
fn decode<T: Decode<()>>(bytes: &[u8], version: u8, what: &str, config: impl Config) -> Result<T> {
    let fields = fields_of_version(bytes, version, what)?;
    let (value, read) = bincode::decode_from_slice(fields, config).map_err(|source| {
        let length = bytes.len();
        Error::damaged(format!("{what} of {length} bytes can't be read: {source}"))
    })?;
    if read == fields.len() {
        return Ok(value);
    }
    Err(Error::damaged(format!(
        "{what} should end after {read} bytes, but has {}",
        fields.len()
    )))
}

fn fields_of_version<'a>(bytes: &'a [u8], version: u8, what: &str) -> Result<&'a [u8]> {
    match bytes.split_first() {
        None => Err(Error::damaged(format!(
            "{what} should begin with its version, but is empty"
        ))),
        Some((found, fields)) if *found == version => Ok(fields),
        Some((found, _)) => Err(Error::new(
            ErrorKind::UnsupportedVersion,
            format!(
                "{what} has version {found}, this build reads version {version}; use a newer build"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn metadata_bytes_are_pinned() {
        let meta = EventMeta {
            role_implied: true,
            created_at_ms: Some(0x0102),
            run_id: Some(RunId(uuid::Uuid::from_bytes([7; 16]))),
            step_number: Some(45),
            tools: vec![ToolMark {
                tool_call_id: Some("c1".into()),
                is_error: true,
                duration_ms: None,
                output_is_json: false,
            }],
            is_continuation: true,
        };
        let bytes = encode_event_meta(&meta).unwrap();
        let mut expected = vec![1, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1];
        expected.extend([7; 16]);
        expected.extend([1, 45, 0, 0, 0]);
        expected.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([1, 2, 0, 0, 0, 0, 0, 0, 0, b'c', b'1', 1, 0, 1]);
        assert_eq!(bytes, expected);
        assert_eq!(decode_event_meta(&bytes).unwrap(), meta);
        // Only what needs it is written in the second version.
        let json = ToolMark {
            output_is_json: true,
            ..ToolMark::default()
        };
        let mut meta = meta;
        meta.tools.push(json);
        let bytes = encode_event_meta(&meta).unwrap();
        expected[0] = 2;
        expected[33] = 2;
        let is_continuation = expected.pop().unwrap();
        expected.extend([0, 0, 0, is_continuation, 0, 1]);
        assert_eq!(bytes, expected);
        assert_eq!(decode_event_meta(&bytes).unwrap(), meta);
        for wrong in [&bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            assert_eq!(
                decode_event_meta(wrong).unwrap_err().kind(),
                ErrorKind::Damaged
            );
        }
        let mut wrong = bytes;
        *wrong.last_mut().unwrap() = 2;
        assert_eq!(
            decode_event_meta(&wrong).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn metadata_of_a_plain_message_is_small() {
        assert_eq!(encode_event_meta(&EventMeta::default()).unwrap().len(), 14);
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        let error = decode_event_meta(&[3, 0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        assert!(error.to_string().contains("version 3"), "{error}");
    }

    #[test]
    fn truncated_or_lengthened_metadata_is_damage() {
        let meta = EventMeta {
            step_number: Some(1),
            ..EventMeta::default()
        };
        let bytes = encode_event_meta(&meta).unwrap();
        for end in 0..bytes.len() {
            assert_eq!(
                decode_event_meta(&bytes[..end]).unwrap_err().kind(),
                ErrorKind::Damaged,
                "{end}"
            );
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(
            decode_event_meta(&longer).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn a_length_beyond_the_limit_allocates_nothing() {
        let mut bytes = encode_event_meta(&EventMeta::default()).unwrap();
        let end = bytes.len();
        bytes[end - 8..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(
            decode_event_meta(&bytes).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }

    #[test]
    fn metadata_up_to_the_limit_is_read_back() {
        for mark in [
            ToolMark::default(),
            ToolMark {
                tool_call_id: Some("call_1".into()),
                ..ToolMark::default()
            },
        ] {
            let of = |count| EventMeta {
                tools: vec![mark.clone(); count],
                ..EventMeta::default()
            };
            let counts: Vec<usize> = (1..META_BYTES_MAX).collect();
            let largest = counts.partition_point(|count| encode_event_meta(&of(*count)).is_ok());
            for count in (1..largest).step_by(999).chain([largest]) {
                let bytes = encode_event_meta(&of(count)).unwrap();
                assert_eq!(
                    decode_event_meta(&bytes).unwrap().tools.len(),
                    count,
                    "{} bytes",
                    bytes.len()
                );
            }
        }
    }

    #[test]
    fn metadata_over_the_limit_is_refused() {
        let mark = ToolMark {
            tool_call_id: Some("x".repeat(1000)),
            ..ToolMark::default()
        };
        let meta = EventMeta {
            tools: vec![mark; 40],
            ..EventMeta::default()
        };
        assert_eq!(
            encode_event_meta(&meta).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
    }

    proptest! {
        #[test]
        fn hostile_metadata_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_event_meta(&[&[1][..], &bytes].concat());
        }
    }
}
