//! [`Task`]: what one agent is going to say and do, the same in every process.

use runlog_tests::random::Random;

/// How the provider writes tool calls and their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// `tool_calls`, and messages of role `tool`.
    OpenAi,
    /// Blocks of `tool_use` and `tool_result`.
    Anthropic,
}

/// The script of one agent instance.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its number, and for a helper's that of its caller before it: `17`, `17.0`.
    pub name: String,
    /// The messages that the run begins with.
    pub opening: Vec<String>,
    /// What happens then.
    pub lines: Vec<Line>,
    /// The scripts of its helpers.
    pub helpers: Vec<Task>,
    /// The steps that each stretch of its work may take.
    pub max_steps: Option<u32>,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Line {
    /// The customer says something.
    User(String),
    /// The agent takes a step: it says something, or calls tools.
    Says {
        /// The whole message.
        json: String,
        /// Whether its results are recorded together with it.
        together: bool,
    },
    /// A tool answers a call.
    Result(Answer),
}

/// What a tool gives for a call.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What it was called with.
    pub input: String,
    /// What it gives: JSON.
    pub output: String,
    /// Whether it fails.
    pub is_error: bool,
    /// How long it takes.
    pub duration_ms: u64,
    /// The helper that has to be done first, for a tool that is one.
    pub helper: Option<usize>,
    /// How the result is written.
    pub style: Style,
}

impl Answer {
    /// The message that the result becomes.
    pub fn json(&self) -> String {
        let (id, output) = (&self.id, &self.output);
        match self.style {
            Style::OpenAi => {
                format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{output}}}"#)
            }
            Style::Anthropic => {
                let mark = if self.is_error {
                    r#","is_error":true"#
                } else {
                    ""
                };
                format!(
                    r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}"{mark},"content":{output}}}]}}"#
                )
            }
        }
    }
}

const TOOLS: [&str; 5] = [
    "get_user_details",
    "search_direct_flight",
    "get_reservation_details",
    "book_reservation",
    "calculate",
];
const WORDS: [&str; 8] = [
    "flight",
    "refund",
    "Zürich",
    "baggage",
    "économie",
    "gate",
    "株式",
    "\\\"twelve\\\"",
];

impl Task {
    /// The script of a number.
    pub fn new(number: u64) -> Self {
        let mut random = Random::new(number.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let helpers = if number % 3 == 2 {
            0
        } else {
            1 + random.below(2)
        };
        let mut task = Self::of(number.to_string(), &mut random, helpers);
        task.max_steps = (number % 5 == 4).then_some(3);
        task
    }

    fn of(name: String, random: &mut Random, helpers: u64) -> Self {
        let style = if random.one_in(2) {
            Style::Anthropic
        } else {
            Style::OpenAi
        };
        // Some providers begin anew with their ids in every message.
        let ids_repeat = random.one_in(4);
        let opening = vec![
            format!(
                r#"{{"role":"system","content":"You serve the customers of an airline. {}"}}"#,
                text(random, 60)
            ),
            format!(r#"{{"role":"user", "content":"{}"}}"#, text(random, 20)),
        ];
        let mut task = Self {
            name,
            opening,
            lines: Vec::new(),
            helpers: Vec::new(),
            max_steps: None,
        };
        let turns = 2 + random.below(5);
        for turn in 0..turns.max(helpers) {
            let helper = (turn < helpers).then(|| task.add_helper(random));
            task.turn(random, style, if ids_repeat { 0 } else { turn }, helper);
        }
        task
    }

    fn add_helper(&mut self, random: &mut Random) -> usize {
        let number = self.helpers.len();
        self.helpers
            .push(Self::of(format!("{}.{number}", self.name), random, 0));
        number
    }

    /// A step that calls up to three tools, their results, and sometimes a step without and a word of the customer's.
    fn turn(&mut self, random: &mut Random, style: Style, turn: u64, helper: Option<usize>) {
        let calls = if helper.is_some() {
            1
        } else {
            1 + random.below(3)
        };
        let answers: Vec<Answer> = (0..calls)
            .map(|call| Answer {
                id: format!("call_{turn}_{call}"),
                tool: helper.map_or_else(
                    || TOOLS[random.place(TOOLS.len())].to_owned(),
                    |_| "ask_helper".to_owned(),
                ),
                input: format!(r#"{{"turn":{turn},"query":"{}"}}"#, text(random, 4)),
                output: format!(r#""{}""#, text(random, 30)),
                is_error: helper.is_none() && random.one_in(6),
                duration_ms: 1 + random.below(2_000),
                helper,
                style,
            })
            .collect();
        let together = helper.is_none() && random.one_in(3);
        self.lines.push(Line::Says {
            json: asks(style, &text(random, 8), &answers),
            together,
        });
        self.lines.extend(answers.into_iter().map(Line::Result));
        if random.one_in(2) {
            let json = format!(r#"{{"role":"assistant","content":"{}"}}"#, text(random, 25));
            self.lines.push(Line::Says {
                json,
                together: false,
            });
            self.lines.push(Line::User(format!(
                r#"{{"content":"{}","role":"user"}}"#,
                text(random, 10)
            )));
        }
    }

    /// How many steps it takes in all.
    pub fn steps(&self) -> u32 {
        let steps = self
            .lines
            .iter()
            .filter(|line| matches!(line, Line::Says { .. }))
            .count();
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// The task and its helpers' tasks.
    pub fn all(&self) -> impl Iterator<Item = &Task> {
        std::iter::once(self).chain(&self.helpers)
    }

    /// The results that directly follow a line.
    pub fn answers_after(&self, line: usize) -> impl Iterator<Item = &Answer> {
        self.lines
            .iter()
            .skip(line + 1)
            .map_while(|line| match line {
                Line::Result(answer) => Some(answer),
                _ => None,
            })
    }
}

/// An assistant's message that calls tools.
fn asks(style: Style, said: &str, answers: &[Answer]) -> String {
    let of = |answer: &Answer| {
        let Answer {
            id, tool, input, ..
        } = answer;
        match style {
            Style::OpenAi => {
                let arguments = input.replace('\\', "\\\\").replace('"', "\\\"");
                format!(
                    r#"{{"id":"{id}","type":"function","function":{{"name":"{tool}","arguments":"{arguments}"}}}}"#
                )
            }
            Style::Anthropic => {
                format!(r#"{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}"#)
            }
        }
    };
    let calls: Vec<String> = answers.iter().map(of).collect();
    match style {
        Style::OpenAi => format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#,
            calls.join(",")
        ),
        Style::Anthropic => {
            format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"{said}"}},{}]}}"#,
                calls.join(",")
            )
        }
    }
}

/// So many words or a few more, to stand in a JSON string.
fn text(random: &mut Random, words: u64) -> String {
    let words = words + random.below(words);
    let words: Vec<&str> = (0..words)
        .map(|_| WORDS[random.place(WORDS.len())])
        .collect();
    words.join(" ")
}
