//! The tool results that a message carries.

use std::collections::{HashMap, VecDeque};

use super::envelope::{Envelope, Item, id_string, named, push};
use crate::{
    Error, RawJson, Result, Role,
    codec::ToolMark,
    json::slices::{each_element, fields, for_each_element, has_field, unique_fields},
};

/// What Gemini names a result, in its API and in its client for Python.
pub(super) const FUNCTION_RESPONSE: [&str; 2] = ["functionResponse", "function_response"];

impl Envelope<'_> {
    /// Which calls the message answers, as a message of a role.
    pub(in crate::context) fn results(&self, role: Role) -> Result<Vec<ToolMark>> {
        let mut marks = Vec::new();
        match role {
            Role::User => {
                self.each_part(FUNCTION_RESPONSE, |part| {
                    push(&mut marks, response_mark(part)?, "tool results")
                })?;
                self.each_untyped_block("toolResult", |block| {
                    push(&mut marks, converse_mark(block)?, "tool results")
                })?;
                self.each_block("tool_result", |block| {
            let [id, is_error] = unique_fields(
                block,
                "a tool_result block",
                ["tool_use_id", "is_error"],
            )?;
            let id = id.ok_or_else(|| {
                Error::invalid(
                    "a tool_result block of the message has no tool_use_id; it must name the call it answers",
                )
            })?;
            let mark = ToolMark {
                tool_call_id: Some(id_string(id, "tool_use_id")?),
                is_error: is_error.is_some_and(|raw| raw == "true"),
                ..ToolMark::default()
            };
            push(&mut marks, mark, "tool results")
        })?;
            }
            Role::Tool => {
                if let Some(what) = self.item.and_then(Item::output_type) {
                    let [id] = self.fields(["call_id"])?;
                    let id = named(id, &format!("the call_id of a {what} item"))?;
                    let id = id.ok_or_else(|| {
                        Error::invalid(format!(
                            "a {what} item has no call_id; it must name the call it answers"
                        ))
                    })?;
                    marks.push(named_mark(id));
                }
                self.each_part(FUNCTION_RESPONSE, |part| {
                    push(&mut marks, response_mark(part)?, "tool results")
                })?;
                if let Some(raw) = self.tool_call_id.filter(|raw| *raw != "null") {
                    marks.push(named_mark(id_string(raw, "tool_call_id")?));
                }
                if let Some(raw) = self.tool_call_ids {
                    each_element(raw, "tool_call_ids", |raw| {
                        let mark = named_mark(id_string(raw, "tool_call_ids")?);
                        if marks.contains(&mark) {
                            Ok(())
                        } else {
                            push(&mut marks, mark, "tool results")
                        }
                    })?;
                }
                self.each_block("tool-result", |part| {
                    push(&mut marks, part_mark(part)?, "tool results")
                })?;
                if marks.is_empty() {
                    marks.push(ToolMark::default());
                }
            }
            Role::System | Role::Assistant => {}
        }
        Ok(marks)
    }
}

/// What a part of the Vercel AI SDK's says: its output names an error by its type, in older versions by a field.
fn part_mark(part: &str) -> Result<ToolMark> {
    let names = ["toolCallId", "output", "isError"];
    let [id, output, is_error] = unique_fields(part, "a tool-result part", names)?;
    let id = id.ok_or_else(|| {
        Error::invalid(
            "a tool-result part of the message has no toolCallId; it must name the call it answers",
        )
    })?;
    let kind = match output.filter(|output| output.starts_with('{')) {
        Some(output) => unique_fields(output, "the output of a tool-result part", ["type"])?[0],
        None => None,
    };
    let is_error = is_error.is_some_and(|raw| raw == "true")
        || kind.is_some_and(|raw| raw.starts_with("\"error-") || raw == "\"execution-denied\"");
    Ok(ToolMark {
        tool_call_id: Some(id_string(id, "toolCallId")?),
        is_error,
        ..ToolMark::default()
    })
}

/// What a part of Gemini's says. Its API has no field for errors: a response that is `{"error": …}` and nothing else is one, as
/// its documentation wants them written.
fn response_mark(part: &str) -> Result<ToolMark> {
    let [id, response] = unique_fields(part, "a functionResponse part", ["id", "response"])?;
    let is_error = match response.filter(|response| response.starts_with('{')) {
        Some(response) => {
            let [error] = unique_fields(response, "the response of a part", ["error"])?;
            error.is_some() && fields_of(response) == 1
        }
        None => false,
    };
    Ok(ToolMark {
        tool_call_id: named(id, "the id of a functionResponse part")?,
        is_error,
        ..ToolMark::default()
    })
}

/// What the only block of a result's content says: its text, or its JSON.
fn only_value(content: &str) -> Option<&str> {
    let mut blocks = Vec::new();
    for_each_element(content, |block| blocks.push(block)).ok()?;
    let [block] = blocks[..] else { return None };
    let [text, json] = fields(block, ["text", "json"]).ok()?;
    text.or(json)
}

/// What a block of Bedrock's Converse says.
fn converse_mark(block: &str) -> Result<ToolMark> {
    let names = ["toolUseId", "status"];
    let [id, status] = unique_fields(block, "a toolResult block", names)?;
    let id = named(id, "the toolUseId of a toolResult block")?.ok_or_else(|| {
        Error::invalid(
            "a toolResult block of the message has no toolUseId; it must name the call it answers",
        )
    })?;
    Ok(ToolMark {
        is_error: status == Some("\"error\""),
        ..named_mark(id)
    })
}

/// What a tool gave that Gemini's response says: in its form an output or an error is a field of that name, where it is no object itself.
fn value_of(response: &str) -> Result<Option<&str>> {
    if !response.starts_with('{') || fields_of(response) != 1 {
        return Ok(None);
    }
    let [output, error] = unique_fields(response, "the response of a part", ["output", "error"])?;
    Ok(output.or(error).filter(|value| !value.starts_with('{')))
}

/// How many fields an object has.
fn fields_of(object: &str) -> usize {
    serde_json::from_str::<std::collections::BTreeMap<String, serde::de::IgnoredAny>>(object)
        .map_or(0, |fields| fields.len())
}

fn named_mark(id: String) -> ToolMark {
    ToolMark {
        tool_call_id: Some(id),
        ..ToolMark::default()
    }
}

/// The tools that the results of a message name, of those without a call's id, in their order. Where a provider gives calls no ids,
/// a result names its tool, or nothing.
pub fn tools_without_id(content: &RawJson) -> VecDeque<Option<String>> {
    let Ok(envelope) = Envelope::of(content) else {
        return VecDeque::new();
    };
    let name = |raw: Option<&str>| raw.and_then(|raw| id_string(raw, "the name of a tool").ok());
    let mut tools = VecDeque::new();
    let parts = envelope.each_part(FUNCTION_RESPONSE, |part| {
        let [id, tool] = unique_fields(part, "a functionResponse part", ["id", "name"])?;
        if id.is_none_or(|id| id == "null") {
            tools.push_back(name(tool));
        }
        Ok(())
    });
    if parts.is_ok() && tools.is_empty() {
        let of_message = envelope.fields(["name", "tool_name"]);
        tools.push_back(of_message.map_or(None, |[openai, ollama]| name(openai.or(ollama))));
    }
    tools
}

/// What a message of the user's says beside the results of tools, as a message; `None` where it says nothing else.
pub(crate) fn without_results(message: &RawJson) -> Option<RawJson> {
    let envelope = Envelope::of(message).ok()?;
    if envelope.role().ok()? != Role::User {
        return None;
    }
    let (field, parts) = match envelope.parts {
        Some(parts) => ("parts", parts),
        None => ("content", envelope.content?),
    };
    let is_result = |part: &str| {
        let kind = fields(part, ["type"]).ok().and_then(|[kind]| kind);
        kind == Some("\"tool_result\"")
            || ["toolResult", FUNCTION_RESPONSE[0], FUNCTION_RESPONSE[1]]
                .iter()
                .any(|name| has_field(part, name))
    };
    let mut others = Vec::new();
    for_each_element(parts, |part| {
        if !is_result(part) {
            others.push(part);
        }
    })
    .ok()?;
    (!others.is_empty()).then(|| {
        let parts = others.join(",");
        RawJson::from_own_text(format!("{{\"role\":\"user\",\"{field}\":[{parts}]}}"))
    })
}

/// Which of the open calls without an id a result answers that has none, either: the first of the tool that it names, else the first.
/// The calls are given with their places, and their tools.
pub fn place_without_id<'a, P: Copy>(
    open: impl IntoIterator<Item = (P, &'a str)>,
    tool: Option<&str>,
) -> Option<P> {
    let mut first = None;
    for (place, name) in open {
        if tool == Some(name) {
            return Some(place);
        }
        first = first.or(Some(place));
    }
    first
}

/// What tools gave, of a message that answers calls: by the id of each call. Read at once, as a message may answer a thousand.
pub(crate) struct Outputs<'m> {
    message: &'m RawJson,
    /// The tools that results without an id name, once they are asked for.
    tools: Option<VecDeque<Option<String>>>,
    /// Of blocks and parts, where results have no ids one behind the other.
    of_parts: HashMap<Option<String>, VecDeque<RawJson>>,
    /// What the whole message says, where it is the result of one call.
    whole: RawJson,
}

impl Outputs<'_> {
    /// The output of the next result with an id; of one without, the tool that it names.
    pub(crate) fn take(&mut self, id: Option<&String>) -> (RawJson, Option<String>) {
        let tool = match id {
            Some(_) => None,
            None => {
                let read = || tools_without_id(self.message);
                self.tools.get_or_insert_with(read).pop_front().flatten()
            }
        };
        (self.output(id), tool)
    }

    fn output(&mut self, id: Option<&String>) -> RawJson {
        let of_part = self.of_parts.get_mut(&id.cloned());
        let of_part = of_part.and_then(VecDeque::pop_front);
        of_part.unwrap_or_else(|| self.whole.clone())
    }
}

/// What tools gave as the results of calls: the content of the message, or of each block that answers one.
pub(crate) fn outputs_of(content: &RawJson) -> Outputs<'_> {
    let mut outputs = Outputs {
        message: content,
        tools: None,
        of_parts: HashMap::new(),
        whole: content.clone(),
    };
    let Ok(envelope) = Envelope::of(content) else {
        return outputs;
    };
    if envelope.item.and_then(Item::output_type).is_some() {
        let output = envelope.fields(["output"]).ok().and_then(|[output]| output);
        outputs.whole = output.map_or_else(RawJson::null, RawJson::from_slice);
        return outputs;
    }
    let mut of_parts: HashMap<_, VecDeque<_>> = HashMap::new();
    let mut take = |found: Option<&str>, what: &str, output: Option<&str>| {
        let found = found.map(|raw| id_string(raw, what)).transpose()?;
        let output = output.map_or_else(RawJson::null, RawJson::from_slice);
        of_parts.entry(found).or_default().push_back(output);
        Ok(())
    };
    let looked = envelope
        .each_block("tool_result", |block| {
            let [found, output] =
                unique_fields(block, "a tool_result block", ["tool_use_id", "content"])?;
            take(found, "tool_use_id", output)
        })
        .and_then(|()| {
            envelope.each_block("tool-result", |part| {
                let [found, output, result] = unique_fields(
                    part,
                    "a tool-result part",
                    ["toolCallId", "output", "result"],
                )?;
                // Version 5 says what kind of output it is; the value is the output.
                let value = output
                    .filter(|output| output.starts_with('{'))
                    .map(|output| {
                        let [kind, value] = unique_fields(
                            output,
                            "the output of a tool-result part",
                            ["type", "value"],
                        )?;
                        // A field that is null counts as left out.
                        let none = if kind.is_some() { "null" } else { output };
                        Ok(value.unwrap_or(none))
                    });
                take(
                    found,
                    "toolCallId",
                    value.transpose()?.or(output).or(result),
                )
            })
        });
    let looked = looked.and_then(|()| {
        envelope.each_untyped_block("toolResult", |block| {
            let [found, output] =
                unique_fields(block, "a toolResult block", ["toolUseId", "content"])?;
            take(
                found,
                "toolUseId",
                output.map(|content| only_value(content).unwrap_or(content)),
            )
        })
    });
    let looked = looked.and_then(|()| {
        envelope.each_part(FUNCTION_RESPONSE, |part| {
            let [found, response] =
                unique_fields(part, "a functionResponse part", ["id", "response"])?;
            let found = found.filter(|id| *id != "null");
            let value = match response {
                Some(response) => value_of(response)?,
                None => None,
            };
            take(
                found,
                "the id of a functionResponse part",
                value.or(response),
            )
        })
    });
    if looked.is_ok() {
        outputs.of_parts = of_parts;
    }
    if let Some(content) = envelope.content {
        outputs.whole = RawJson::from_slice(content);
    }
    outputs
}
