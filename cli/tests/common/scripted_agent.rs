//! The agent that the tests run: does what its arguments say, so that every turn of the protocol can be had.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    thread,
    time::Duration,
};

use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let steps: Vec<String> = std::env::args().skip(1).filter(|it| it != "--").collect();
    match run(&steps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does the steps in order.
///
/// | step | what |
/// | --- | --- |
/// | `ready` | reads up to the `ready` line |
/// | `say:TEXT` | records an assistant's message |
/// | `call:ID` | records an assistant's message with a tool call |
/// | `raw:LINE` | writes this line |
/// | `partial:TEXT` | writes this without a line feed |
/// | `big:N` | writes a line of N bytes |
/// | `ack` | reads up to the next ack, step or error |
/// | `step` | begins the next step |
/// | `result:ID` | records what the tool gave for a call |
/// | `done:JSON` | says that nothing follows, with these fields |
/// | `context` | says what the context was: the number of messages, and the last one |
/// | `hello:FIELD` | says what the first line told in this field, as JSON |
/// | `await:TYPE` | reads up to a line of this type, and says it |
/// | `dangling` | says how many tool calls had no result |
/// | `stop` | reads up to the `stop` line |
/// | `sleep:MS` | does nothing for a while |
/// | `stderr:TEXT` | writes this to standard error |
/// | `exit:N` | ends with this code |
fn run(steps: &[String]) -> Result<()> {
    let mut agent = Agent {
        lines: io::stdin().lock().lines(),
        messages: Vec::new(),
        dangling: 0,
        said: 0,
        hello: Value::Null,
    };
    for step in steps {
        let (verb, rest) = step.split_once(':').unwrap_or((step, ""));
        match verb {
            "ready" | "ack" | "stop" => agent.read_to(verb)?,
            "say" => agent.say(rest)?,
            "call" => {
                let call = serde_json::json!({"id": rest, "type": "function", "function": {"name": "f", "arguments": "{}"}});
                agent.message(&serde_json::json!({"role": "assistant", "content": null, "tool_calls": [call]}))?;
            }
            "step" => write("{\"type\":\"step\"}\n")?,
            "result" => {
                let message =
                    serde_json::json!({"role": "tool", "tool_call_id": rest, "content": "ok"});
                write(&format!(
                    "{}\n",
                    serde_json::json!({"type": "message", "message": message, "duration_ms": 12})
                ))?;
            }
            "done" => {
                let fields = rest.trim_start_matches('{');
                write(&format!(
                    "{{\"type\":\"done\"{}{fields}\n",
                    if fields.len() > 1 { "," } else { "" }
                ))?;
            }
            "raw" => write(&format!("{rest}\n"))?,
            "partial" => write(rest)?,
            "big" => write(&format!("{}\n", "x".repeat(number(rest))))?,
            "context" => {
                let last = agent
                    .messages
                    .last()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                agent.say(&format!(
                    "{} messages, the last {last}",
                    agent.messages.len()
                ))?;
            }
            "hello" => agent.say(
                &agent
                    .hello
                    .get(rest)
                    .cloned()
                    .unwrap_or_default()
                    .to_string(),
            )?,
            "await" => {
                let line = agent.read_line_of(rest)?;
                agent.say(&line.to_string())?;
            }
            "dangling" => agent.say(&format!("{} dangling", agent.dangling))?,
            "sleep" => thread::sleep(Duration::from_millis(number(rest) as u64)),
            "stderr" => eprintln!("{rest}"),
            "exit" => std::process::exit(i32::try_from(number(rest)).unwrap_or(1)),
            _ => return Err(format!("no step {verb:?}").into()),
        }
    }
    Ok(())
}

struct Agent {
    lines: io::Lines<io::StdinLock<'static>>,
    messages: Vec<Value>,
    dangling: usize,
    said: u64,
    hello: Value,
}

impl Agent {
    fn read_to(&mut self, wanted: &str) -> Result<()> {
        self.read_line_of(wanted).map(drop)
    }

    fn read_line_of(&mut self, wanted: &str) -> Result<Value> {
        loop {
            let line = match self.lines.next() {
                Some(Ok(line)) => line,
                _ => return Err(format!("the input ended before {wanted}").into()),
            };
            let line: Value = serde_json::from_str(&line)?;
            let kind = line.get("type").and_then(Value::as_str).unwrap_or_default();
            match kind {
                "message" => self
                    .messages
                    .push(line.get("message").cloned().unwrap_or_default()),
                "hello" => self.hello = line.clone(),
                "ready" => {
                    self.dangling = line
                        .get("dangling_tool_calls")
                        .and_then(Value::as_array)
                        .map_or(0, Vec::len)
                }
                _ => {}
            }
            if kind == wanted || (wanted == "ack" && matches!(kind, "error" | "step")) {
                return Ok(line);
            }
        }
    }

    fn say(&mut self, text: &str) -> Result<()> {
        self.message(&serde_json::json!({"role": "assistant", "content": text}))
    }

    fn message(&mut self, message: &Value) -> Result<()> {
        self.said += 1;
        write(&format!(
            "{}\n",
            serde_json::json!({"type": "message", "id": self.said, "message": message})
        ))
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_default()
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
