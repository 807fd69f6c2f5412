//! [`EventSummary`]: the fields of an event that a list shows instead of its content.

use std::sync::LazyLock;

use memchr::{memchr, memmem::Finder};

use super::{ContextEventKind, ToolMark};
use crate::{
    codec::decode_event_meta,
    json::slices::{fields, for_each_element, string},
};

/// How many bytes of a call are searched for its name, which comes first, so that large arguments aren't scanned.
const NAME_WITHIN_BYTES: usize = 512;

/// The fields of an event that a list shows instead of its content, and the cost of a model's answer.
///
/// Unreadable metadata leaves its fields empty instead of being an error, because a list shows the event nevertheless.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EventSummary {
    /// When it happened, where that isn't when it was appended.
    pub happened_ms: Option<u64>,
    /// The step of its run.
    pub step: Option<u32>,
    /// Whether a resume added it to make the agent continue.
    pub is_continuation: bool,
    /// The tool call it is, or the ones it answers.
    pub tools: Vec<ToolMark>,
    /// Of a tool call the name of the tool, where that stands at the beginning.
    pub tool_name: Option<String>,
    /// Whether it is an answer of a model with nothing but tool calls in it.
    pub is_silent: bool,
    /// Whether it is a message with results of tools that says something beside them.
    pub says_more: bool,
    /// What an answer of a model cost, where it says so.
    pub usage: Option<TokenUsage>,
}

/// What an answer of a model cost. What isn't said is 0.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TokenUsage {
    /// Tokens that the model was given, those from a cache included.
    pub input_tokens: f64,
    /// Tokens that it gave.
    pub output_tokens: f64,
    /// In the currency that its provider bills.
    pub cost: f64,
    /// A hash of the message's id, 0 where it has none: what follows with the same one is a part of the same answer, and
    /// tells the cost of all of it again.
    pub answer_hash: u32,
}

impl EventSummary {
    /// The summary of an event, from what its record holds.
    ///
    /// ```
    /// use runlog_model::{ContextEventKind, EventSummary};
    ///
    /// let call = br#"{"id":"c1","name":"search","arguments":{"q":"logs"}}"#;
    /// let summary = EventSummary::of(ContextEventKind::ToolCall, &[], call);
    /// assert_eq!(summary.tool_name.as_deref(), Some("search"));
    /// ```
    pub fn of(kind: ContextEventKind, meta: &[u8], payload: &[u8]) -> Self {
        let meta = decode_event_meta(meta).unwrap_or_default();
        let mut summary = Self {
            happened_ms: meta.created_at_ms,
            step: meta.step_number,
            is_continuation: meta.is_continuation,
            tools: meta.tools,
            ..Self::default()
        };
        match kind {
            ContextEventKind::ToolCall => summary.tool_name = name_in(payload),
            ContextEventKind::AssistantMessage => summary.look_into_answer(payload),
            ContextEventKind::ToolResult => summary.says_more = says_more_than_results(payload),
            _ => {}
        }
        summary
    }

    /// Avoids parsing most answers, which begin with plain text and have no usage.
    fn look_into_answer(&mut self, payload: &[u8]) {
        static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"usage\""));
        let has_usage = USAGE.find(payload).is_some();
        let asks = asks_for_tools(payload);
        if !has_usage && (!asks || begins_with_text(payload)) {
            return;
        }
        let text = std::str::from_utf8(payload).ok();
        let names = [
            "content",
            "parts",
            "usage",
            "type",
            "reasoning_content",
            "reasoning",
            "id",
        ];
        let Some(Ok([content, parts, usage, item, thoughts, reasoning, id])) =
            text.map(|text| fields(text, names))
        else {
            return;
        };
        self.usage = usage.and_then(usage_of).map(|usage| TokenUsage {
            answer_hash: id.and_then(string).map_or(0, |id| hash_of(&id)),
            ..usage
        });
        let thinks = item == Some("\"reasoning\"")
            || [thoughts, reasoning]
                .into_iter()
                .flatten()
                .any(|text| text.starts_with('"') && text != "\"\"");
        self.is_silent = asks && !thinks && content.or(parts).is_none_or(is_silent);
    }
}

/// Whether a message has tool calls, in the form of any provider.
fn asks_for_tools(payload: &[u8]) -> bool {
    type Words = (Finder<'static>, &'static [&'static str]);
    static WORDS: LazyLock<[Words; 2]> = LazyLock::new(|| {
        let of_tools: &[_] = &["_calls\"", "Calls\"", "_use\"", "Use\"", "-call\""];
        let of_functions: &[_] = &["Call\"", "_call\""];
        [
            (Finder::new("\"tool"), of_tools),
            (Finder::new("\"function"), of_functions),
        ]
    });
    WORDS.iter().any(|(begin, ends)| {
        begin.find_iter(payload).any(|at| {
            let rest = payload.get(at + begin.needle().len()..).unwrap_or_default();
            ends.iter().any(|end| rest.starts_with(end.as_bytes()))
        })
    })
}

/// Whether the content is a text that isn't empty.
fn begins_with_text(payload: &[u8]) -> bool {
    static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"content\""));
    CONTENT.find_iter(payload).any(|at| {
        let value = value_at(payload, at + "\"content\"".len()).unwrap_or_default();
        matches!(value, [b'"', next, ..] if *next != b'"')
    })
}

/// What stands behind a field's colon.
fn value_at(payload: &[u8], after: usize) -> Option<&[u8]> {
    let rest = payload.get(after..)?.trim_ascii_start();
    Some(rest.strip_prefix(b":")?.trim_ascii_start())
}

/// The first name in the beginning of a call.
fn name_in(payload: &[u8]) -> Option<String> {
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"name\""));
    let head = payload
        .get(..NAME_WITHIN_BYTES.min(payload.len()))
        .unwrap_or_default();
    NAME.find_iter(head).find_map(|at| {
        let value = value_at(head, at + "\"name\"".len())?;
        let inside = value.strip_prefix(b"\"")?;
        let mut end = 0;
        loop {
            end += memchr(b'"', inside.get(end..)?)?;
            let before = inside.get(..end)?;
            let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
            if backslashes.count() % 2 == 0 {
                // With its quotes it is JSON.
                return serde_json::from_slice(value.get(..end + 2)?).ok();
            }
            end += 1;
        }
    })
}

/// A hash of a text that isn't 0 (FNV-1a).
fn hash_of(text: &str) -> u32 {
    let hash = text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

/// What a model took, by the names of the providers. Those that count what came from a cache apart have it beside the input.
fn usage_of(json: &str) -> Option<TokenUsage> {
    const INPUT: [&str; 3] = ["input_tokens", "prompt_tokens", "inputTokens"];
    const CACHED: [&str; 4] = [
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cacheReadInputTokens",
        "cacheWriteInputTokens",
    ];
    const OUTPUT: [&str; 3] = ["output_tokens", "completion_tokens", "outputTokens"];
    const COST: [&str; 2] = ["cost", "cost_usd"];
    let names: [&str; 12] = std::array::from_fn(|at| match at {
        0..3 => INPUT[at],
        3..7 => CACHED[at - 3],
        7..10 => OUTPUT[at - 7],
        _ => COST[at - 10],
    });
    let found = fields(json, names).ok()?;
    let number = |at: usize| {
        let text = found.get(at).copied().flatten().filter(|it| *it != "null");
        text.map(|text| text.parse().unwrap_or(0.0))
    };
    let first = |mut places: std::ops::Range<usize>| places.find_map(number).unwrap_or(0.0);
    Some(TokenUsage {
        input_tokens: first(0..3) + (3..7).filter_map(number).sum::<f64>(),
        output_tokens: first(7..10),
        cost: first(10..12),
        answer_hash: 0,
    })
}

/// Whether a message has results and something else, in the form of the providers that put both in one message.
fn says_more_than_results(payload: &[u8]) -> bool {
    static RESULT: LazyLock<[Finder<'static>; 3]> =
        LazyLock::new(|| ["\"tool_result\"", "\"toolResult\"", "unction"].map(Finder::new));
    // Results of other providers are messages of their own, and may be large.
    if RESULT.iter().all(|word| word.find(payload).is_none()) {
        return false;
    }
    let text = std::str::from_utf8(payload).ok();
    let Some(Ok([content, parts])) = text.map(|text| fields(text, ["content", "parts"])) else {
        return false;
    };
    let (mut results, mut others) = (0, 0);
    let names = [
        "type",
        "toolResult",
        "functionResponse",
        "function_response",
    ];
    let _ = for_each_element(content.or(parts).unwrap_or_default(), |part| {
        let [kind, of_bedrock, of_gemini, of_python] = fields(part, names).unwrap_or_default();
        let is_result =
            kind == Some("\"tool_result\"") || of_bedrock.or(of_gemini).or(of_python).is_some();
        results += usize::from(is_result);
        others += usize::from(!is_result);
    });
    results > 0 && others > 0
}

/// Whether a content says nothing itself.
fn is_silent(content: &str) -> bool {
    if content == "null" || content == "\"\"" {
        return true;
    }
    let mut says = false;
    let read = for_each_element(content, |part| {
        let names = ["type", "toolUse", "functionCall", "function_call"];
        let [kind, of_bedrock, of_gemini, of_python] = fields(part, names).unwrap_or_default();
        says |= match kind {
            Some(kind) => !matches!(kind, "\"tool_use\"" | "\"tool-call\""),
            None => of_bedrock.or(of_gemini).or(of_python).is_none(),
        };
    });
    read.is_ok() && !says
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{EventMeta, encode_event_meta};

    fn answer(json: &str) -> EventSummary {
        EventSummary::of(ContextEventKind::AssistantMessage, &[], json.as_bytes())
    }

    #[test]
    fn metadata_is_told_and_what_cannot_be_read_says_nothing() {
        let meta = EventMeta {
            created_at_ms: Some(7),
            step_number: Some(3),
            tools: vec![ToolMark {
                tool_call_id: Some("c1".into()),
                is_error: true,
                duration_ms: Some(60),
                ..ToolMark::default()
            }],
            is_continuation: true,
            ..EventMeta::default()
        };
        let bytes = encode_event_meta(&meta).unwrap();
        let summary = EventSummary::of(ContextEventKind::ToolResult, &bytes, b"{}");
        assert_eq!((summary.happened_ms, summary.step), (Some(7), Some(3)));
        assert_eq!((summary.tools, summary.is_continuation), (meta.tools, true));
        for hostile in [&b""[..], b"\xff", &bytes[..bytes.len() - 1]] {
            let summary = EventSummary::of(ContextEventKind::UserMessage, hostile, b"");
            assert_eq!(summary, EventSummary::default());
        }
    }

    #[test]
    fn the_name_of_a_tool_is_found_at_the_beginning_only() {
        let name = |json: &str| {
            EventSummary::of(ContextEventKind::ToolCall, &[], json.as_bytes()).tool_name
        };
        assert_eq!(
            name(r#"{"id":"name","name" : "ls"}"#).as_deref(),
            Some("ls")
        );
        assert_eq!(
            name(r#"{"name":"a\"b\\","x":1}"#).as_deref(),
            Some("a\"b\\")
        );
        assert_eq!(name(r#"{"name":"\u00e9"}"#).as_deref(), Some("é"));
        assert_eq!(
            name(r#"{"name":null,"of":{"name":"x"}}"#).as_deref(),
            Some("x")
        );
        let late = format!(r#"{{"arguments":"{}","name":"ls"}}"#, "x".repeat(600));
        assert_eq!((name(&late), name(r#"{"name":"cut"#)), (None, None));
    }

    #[test]
    fn an_answer_of_nothing_but_calls_is_silent() {
        for silent in [
            r#"{"role":"assistant","content":null,"tool_calls":[{}]}"#,
            r#"{"content":"","tool_calls":[{}]}"#,
            r#"{"tool_calls":[{}]}"#,
            r#"{"content":[{"type":"tool_use","id":"t"}]}"#,
            r#"{"content":[{"type":"tool-call"}]}"#,
            r#"{"content":[{"toolUse":{"toolUseId":"t"}}]}"#,
            r#"{"content":"","toolCalls":[{}]}"#,
            r#"{"content":"","reasoning_content":"","reasoning":null,"tool_calls":[{}]}"#,
            r#"{"role":"model","parts":[{"functionCall":{"name":"ls"}},{"function_call":{"name":"ls"}}]}"#,
            r#"{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":"{}"}}"#,
            r#"{"type":"function_call","call_id":"t","name":"ls","arguments":"{}"}"#,
        ] {
            assert!(answer(silent).is_silent, "{silent}");
        }
        for telling in [
            r#"{"content":"I look.","tool_calls":[{}]}"#,
            r#"{"content":[{"type":"text","text":"a"},{"type":"tool_use"}]}"#,
            r#"{"content":[{"text":"a"},{"toolUse":{}}]}"#,
            r#"{"content":null}"#,
            r#"{"content":null,"tool_calls":"#,
            r#"{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"ls"}}]}"#,
            r#"{"content":"I look.","function_call":{"name":"ls"}}"#,
            r#"{"content":"","reasoning_content":"Look first.","tool_calls":[{}]}"#,
            r#"{"content":null,"reasoning":"Look first.","tool_calls":[{}]}"#,
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"\"function_call"}]}"#,
        ] {
            assert!(!answer(telling).is_silent, "{telling}");
        }
    }

    #[test]
    fn what_is_said_beside_results_is_told() {
        let says_more = |json: &str| {
            EventSummary::of(ContextEventKind::ToolResult, &[], json.as_bytes()).says_more
        };
        for more in [
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},{"type":"text","text":"stop"}]}"#,
            r#"{"role":"user","content":[{"toolResult":{"toolUseId":"t"}},{"text":"stop"}]}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"name":"ls"}},{"text":"stop"}]}"#,
            r#"{"role":"user","parts":[{"text":"stop"},{"function_response":{"name":"ls"}}]}"#,
        ] {
            assert!(says_more(more), "{more}");
        }
        for results in [
            r#"{"role":"tool","tool_call_id":"t","content":"\"tool_result\""}"#,
            r#"{"role":"tool","tool_call_id":"t","content":[{"type":"text","text":"\"tool_result\""},{"type":"text","text":"b"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result"},{"type":"tool_result"}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result"}"#,
            "",
        ] {
            assert!(!says_more(results), "{results}");
        }
    }

    #[test]
    fn usage_is_read_in_the_words_of_several_providers() {
        let usage = |json: &str| {
            let TokenUsage {
                input_tokens,
                output_tokens,
                cost,
                ..
            } = answer(json).usage?;
            Some((input_tokens, output_tokens, cost))
        };
        let anthropic =
            r#"{"content":"x","usage":{"input_tokens":7,"output_tokens":2,"cost_usd":0.5}}"#;
        assert_eq!(usage(anthropic), Some((7.0, 2.0, 0.5)));
        let openai = r#"{"content":"x","usage":{"input_tokens":null,"prompt_tokens":9,"completion_tokens":"x"}}"#;
        assert_eq!(usage(openai), Some((9.0, 0.0, 0.0)));
        let cached = r#"{"usage":{"input_tokens":3,"cache_read_input_tokens":40,"cache_creation_input_tokens":null,"output_tokens":2}}"#;
        assert_eq!(usage(cached), Some((43.0, 2.0, 0.0)));
        let bedrock = r#"{"usage":{"inputTokens":5,"outputTokens":6,"totalTokens":11,"cacheReadInputTokens":4}}"#;
        assert_eq!(usage(bedrock), Some((9.0, 6.0, 0.0)));
        assert_eq!(usage(r#"{"content":"\"usage\""}"#), None);
        assert_eq!(usage(r#"{"usage":3}"#), None);
    }

    #[test]
    fn parts_of_one_answer_have_the_same_hash() {
        let hash = |json: &str| answer(json).usage.map(|usage| usage.answer_hash);
        let text = hash(r#"{"id":"msg_1","content":"x","usage":{"output_tokens":1}}"#);
        let call =
            hash(r#"{"usage":{"output_tokens":9},"content":[{"type":"tool_use"}],"id":"msg_1"}"#);
        assert_eq!(text, call);
        let other = hash(r#"{"id":"msg_2","usage":{}}"#);
        assert_ne!(text, other);
        for none in [
            r#"{"usage":{}}"#,
            r#"{"id":7,"usage":{}}"#,
            r#"{"id":null,"usage":{}}"#,
        ] {
            assert_eq!(hash(none), Some(0), "{none}");
        }
        assert!(![text, other].contains(&Some(0)));
    }

    proptest! {
        #[test]
        fn hostile_payloads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0_usize..90) {
            let call = br#"{"id":"c1","name":"a\"b","content":[{"type":"tool_use"}],"usage":{"input_tokens":1},"x":1}"#;
            for kind in ContextEventKind::ALL {
                let _ = EventSummary::of(kind, &bytes, &bytes);
                let _ = EventSummary::of(kind, &bytes, &call[..cut]);
            }
        }
    }
}
