//! The agent that the demo records: replays the transcript, and continues where its context ends.

use std::{
    ffi::OsString,
    io::{self, BufRead, Write},
    thread,
    time::Duration,
};

use clap::Parser as _;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::transcript::messages;
use crate::failure::{Exit, Failure, Result};

/// What makes this program the agent that the demo records. It is no command, which completions and manuals would list.
pub(crate) const AGENT: &str = "__demo-agent";

#[derive(clap::Parser)]
struct Args {
    /// How long it thinks before each message, in milliseconds
    #[arg(long, default_value_t = 0)]
    pause_ms: u64,
}

/// The fields of Runlog's lines that this agent looks at.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Box<RawValue>>,
}

/// Speaks the agent's part of the protocol on standard input and output; `arguments` begin with [`AGENT`].
pub(crate) fn agent(arguments: &[OsString]) -> Result<Exit> {
    let Args { pause_ms } =
        Args::try_parse_from(arguments).map_err(|error| Failure::usage(error.to_string()))?;
    let mut lines = io::stdin().lock().lines();
    let mut next = || -> Option<Line> { serde_json::from_str(&lines.next()?.ok()?).ok() };
    let messages = messages();
    let mut context = 0;
    loop {
        let Some(line) = next() else {
            return Ok(Exit::Ok);
        };
        match (line.kind.as_str(), line.message) {
            ("message", Some(message)) => {
                if messages.get(context).copied() != Some(message.get()) {
                    return Err(Failure::other(format!(
                        "message {} of the context is another one",
                        context + 1
                    )));
                }
                context += 1;
            }
            ("ready", _) => break,
            _ => {}
        }
    }
    for (index, message) in messages.iter().enumerate().skip(context) {
        thread::sleep(Duration::from_millis(pause_ms));
        let line = format!("{{\"type\":\"message\",\"id\":{index},\"message\":{message}}}\n");
        let mut out = io::stdout().lock();
        if out
            .write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            // The recorder was killed, as the demo intends.
            return Ok(Exit::Ok);
        }
        drop(out);
        // The next message is sent only once this one is durable.
        loop {
            match next() {
                Some(line) if line.kind == "ack" => break,
                Some(line) if line.kind == "error" => {
                    return Err(Failure::other("the recorder refused a message"));
                }
                Some(_) => {}
                None => return Ok(Exit::Ok),
            }
        }
    }
    Ok(Exit::Ok)
}
