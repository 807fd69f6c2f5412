//! How a spawn is recorded in the context of its parent: the call, and its results.

use runlog_model::{NewMessage, NewToolCall, RawJson, ToolStyle};
use serde::Serialize;

use super::{SpawnRequest, SpawnResult};
use crate::{Error, Result};

/// The name of the tool that spawns agents.
pub const SPAWN_AGENTS: &str = "spawn_agents";

/// About the most bytes of one call's results in a context: 1 MiB. Each run's own records hold its result in full.
const RESULTS_BYTES_MAX: usize = 1 << 20;
/// A text is not cut to less than this.
const TEXT_BYTES_MIN: usize = 64;

#[derive(Serialize)]
struct Arguments<'a> {
    requests: &'a [SpawnRequest],
}

/// The assistant message with the tool call, for a spawn that no model asked for.
pub(super) fn call_message(
    style: ToolStyle,
    call_id: &str,
    requests: &[SpawnRequest],
) -> Result<RawJson> {
    let arguments = RawJson::from_value(&Arguments { requests })?;
    let (id, name) = (RawJson::string(call_id), RawJson::string(SPAWN_AGENTS));
    let part = |input| {
        format!(
            "{{\"type\":\"tool-call\",\"toolCallId\":{id},\"toolName\":{name},\"{input}\":{arguments}}}"
        )
    };
    let block = match style {
        ToolStyle::OpenAi | ToolStyle::Function => {
            let call = NewToolCall::new(call_id, SPAWN_AGENTS, arguments.as_str());
            return NewMessage::assistant("").with_tool_calls([call]).to_json();
        }
        ToolStyle::Anthropic => {
            format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{arguments}}}")
        }
        ToolStyle::OpenAiResponses | ToolStyle::OpenAiResponsesCustom => {
            let text = RawJson::string(arguments.as_str());
            return RawJson::parse(format!(
                "{{\"type\":\"function_call\",\"call_id\":{id},\"name\":{name},\"arguments\":{text}}}"
            ));
        }
        ToolStyle::Gemini => {
            return RawJson::parse(format!(
                "{{\"role\":\"model\",\"parts\":[{{\"functionCall\":{{\"id\":{id},\"name\":{name},\"args\":{arguments}}}}}]}}"
            ));
        }
        ToolStyle::OpenAiCamel => {
            let text = RawJson::string(arguments.as_str());
            return RawJson::parse(format!(
                "{{\"role\":\"assistant\",\"content\":\"\",\"toolCalls\":[{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{text}}}}}]}}"
            ));
        }
        ToolStyle::Bedrock => {
            format!("{{\"toolUse\":{{\"toolUseId\":{id},\"name\":{name},\"input\":{arguments}}}}}")
        }
        ToolStyle::AiSdk => part("input"),
        ToolStyle::AiSdk4 => part("args"),
    };
    RawJson::parse(format!("{{\"role\":\"assistant\",\"content\":[{block}]}}"))
}

/// The results as the tool's output: a JSON array. Long texts are cut if the whole would be too large.
pub(super) fn recorded_results(results: &[SpawnResult]) -> Result<String> {
    let texts = |result: &SpawnResult| {
        [&result.summary, &result.error, &result.pause_reason]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum::<usize>()
    };
    let total: usize = results.iter().map(texts).sum();
    let json = if total <= RESULTS_BYTES_MAX {
        serde_json::to_string(results)
    } else {
        let bytes_max = (RESULTS_BYTES_MAX / results.len().max(1)).max(TEXT_BYTES_MIN);
        let cut: Vec<SpawnResult> = results
            .iter()
            .map(|result| cut(result, bytes_max))
            .collect();
        serde_json::to_string(&cut)
    };
    json.map_err(|source| Error::invalid(format!("the results have no JSON form: {source}")))
}

fn cut(result: &SpawnResult, bytes_max: usize) -> SpawnResult {
    let cut = |text: &Option<String>| text.as_ref().map(|text| clip(text, bytes_max));
    SpawnResult {
        summary: cut(&result.summary),
        error: cut(&result.error),
        pause_reason: cut(&result.pause_reason),
        ..result.clone()
    }
}

/// The text; if it is too long, its beginning and how much was left out.
pub(super) fn clip(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max.saturating_sub(32))
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    let (kept, left_out) = text.split_at(end);
    format!("{kept}… ({} bytes more)", left_out.len())
}

#[cfg(test)]
mod tests {
    use runlog_model::{RunStatus, tool_calls_of};

    use super::*;

    #[test]
    fn a_call_is_written_in_the_form_of_a_provider() {
        let requests = [SpawnRequest::new("a", "t")];
        for (style, read) in [
            (ToolStyle::OpenAi, ToolStyle::OpenAi),
            (ToolStyle::Function, ToolStyle::OpenAi),
            (ToolStyle::Anthropic, ToolStyle::Anthropic),
            (ToolStyle::OpenAiResponses, ToolStyle::OpenAiResponses),
            (ToolStyle::Gemini, ToolStyle::Gemini),
        ] {
            let calls = tool_calls_of(&call_message(style, "c1", &requests).unwrap()).unwrap();
            assert_eq!((calls[0].id.as_deref(), calls[0].style), (Some("c1"), read));
            assert!(
                calls[0].arguments.as_str().contains("agent_name"),
                "{}",
                calls[0].arguments
            );
        }
    }

    #[test]
    fn results_that_are_too_much_are_cut() {
        let mut result = SpawnResult::refused("a", "e");
        result.summary = Some("ü".repeat(100_000));
        result.status = RunStatus::Completed;
        let few = recorded_results(&vec![result.clone(); 2]).unwrap();
        assert!(few.len() > 400_000);
        let many = recorded_results(&vec![result; 1_000]).unwrap();
        assert!(
            many.len() < 2 * RESULTS_BYTES_MAX && many.contains("bytes more"),
            "{}",
            many.len()
        );
    }
}
