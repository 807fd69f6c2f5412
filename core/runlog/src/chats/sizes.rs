//! The sizes of messages and steps, and the limits of one batch of a request.

use runlog_model::{ChatMessage, RawJson, Step, json::string_bytes};

use crate::{Error, Result};

/// The most content of a request in one batch, in addition to what its end adds: 64 MiB.
pub(super) const PART_BYTES_MAX: usize = 64 << 20;
/// The most messages and steps in one batch: 50,000.
pub(super) const PART_RECORDS_MAX: usize = 50_000;
/// The most content of one message or step: 15 MiB, the limit of an event minus its envelope.
pub(super) const CONTENT_BYTES_MAX: usize = 15 << 20;

/// The most characters stored of the error a request ends with.
pub(super) const ERROR_CHARS_MAX: usize = 16 << 10;
/// The most bytes of the errors of all steps together: 12 MiB.
const ERRORS_BYTES_MAX: usize = 12 << 20;
/// The most bytes of a character in JSON.
const CHAR_BYTES_MAX: usize = 6;
/// The most bytes of a message or step without its texts and its JSON.
const ROW_BYTES: usize = 512;

/// How many characters are stored of the error that a request ends with, if it is stored in `step_count` steps:
/// together they must fit in the batch.
pub(super) fn error_chars_max(step_count: usize) -> usize {
    ERROR_CHARS_MAX.min(ERRORS_BYTES_MAX / CHAR_BYTES_MAX / step_count)
}

/// An upper bound of a message's size as JSON.
pub(super) fn message_bytes(message: &ChatMessage) -> usize {
    let ids = [
        &message.request_id,
        &message.block_id,
        &message.thread_id,
        &message.assistant_id,
    ];
    let texts = [&message.message_id, &message.chat_id, &message.message_type];
    let texts = texts.into_iter().chain(ids.into_iter().flatten());
    let json =
        message.props.as_bytes().len() + length(message.metadata.as_ref()) + extra(&message.extra);
    ROW_BYTES + json + texts.map(|text| string_bytes(text)).sum::<usize>()
}

/// An upper bound of a step's size as JSON.
pub(super) fn step_bytes(step: &Step) -> usize {
    let texts = [
        &step.step_id,
        &step.chat_id,
        &step.request_id,
        &step.assistant_id,
        &step.stack_id,
    ];
    let texts = texts.into_iter().chain(
        [&step.stack_parent_id, &step.delegate_step_id, &step.error]
            .into_iter()
            .flatten(),
    );
    let json: usize = [
        &step.input,
        &step.output,
        &step.space_snapshot,
        &step.metadata,
    ]
    .into_iter()
    .map(|json| length(json.as_ref()))
    .sum();
    ROW_BYTES + json + extra(&step.extra) + texts.map(|text| string_bytes(text)).sum::<usize>()
}

fn length(json: Option<&RawJson>) -> usize {
    json.map_or(0, |json| json.as_bytes().len())
}

fn extra(fields: &serde_json::Map<String, serde_json::Value>) -> usize {
    if fields.is_empty() {
        0
    } else {
        serde_json::to_string(fields).map_or(0, |text| text.len())
    }
}

/// Refuses a message or step that is too large to be written, early enough for the caller to react.
pub(super) fn check_size(bytes: usize) -> Result<()> {
    if bytes > CONTENT_BYTES_MAX {
        return Err(Error::too_large(format!(
            "the message or step would take {bytes} bytes, at most {CONTENT_BYTES_MAX} are allowed; keep large content elsewhere"
        )));
    }
    Ok(())
}
