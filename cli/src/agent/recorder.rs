//! [`Recorder`]: what an agent says, into the store.
//!
//! Invariant: nothing is acknowledged before it is as durable as the store promises, and acks come in the order
//! of the lines.

use runlog::{
    AgentInstance, ErrorKind, Store,
    transcript::{NewContextEvent, keep::EntryBatch},
};

use super::protocol::{Ack, FromAgent, Refusal};
use crate::{
    failure::Result,
    lines::{LINE_BYTES_MAX, Line},
};

/// What became of a line.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// It is durable.
    Ack(Ack, Vec<NewContextEvent>),
    /// It was refused; nothing of it was recorded.
    Refused(Refusal),
    /// The agent speaks another version of the protocol.
    OtherProtocol(Refusal),
    /// The agent says that nothing follows.
    Done,
}

/// Records one agent's lines.
pub(crate) struct Recorder<'a> {
    store: &'a Store,
    instance: AgentInstance,
    lines: u64,
    events: u64,
    refused: u64,
}

/// A line that waits to be recorded.
struct Waiting {
    id: Option<runlog::RawJson>,
    line: u64,
    key: Option<String>,
    events: Vec<NewContextEvent>,
}

impl<'a> Recorder<'a> {
    /// A recorder of this instance's context.
    pub(crate) fn new(store: &'a Store, instance: AgentInstance) -> Self {
        Self { store, instance, lines: 0, events: 0, refused: 0 }
    }

    /// How many events were recorded.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How many lines were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Records lines, and says what became of each.
    ///
    /// # Errors
    /// Those of the store; what was not said to be recorded may or may not be.
    pub(crate) fn take(&mut self, lines: Vec<Line>) -> Result<Vec<Recorded>> {
        let mut done = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        for line in lines {
            self.lines += 1;
            match self.read(line) {
                None => {}
                Some(Ok(FromAgent::Hello)) => {}
                Some(Ok(FromAgent::Done)) => {
                    self.record(&mut waiting, &mut done)?;
                    done.push(Recorded::Done);
                }
                Some(Ok(FromAgent::Record { id, key, events })) => {
                    // A key is that of a whole batch, so its line has one to itself.
                    if key.is_some() || waiting.last().is_some_and(|last| last.key.is_some()) {
                        self.record(&mut waiting, &mut done)?;
                    }
                    waiting.push(Waiting { id, line: self.lines, key, events });
                }
                Some(Err(refusal)) => {
                    self.record(&mut waiting, &mut done)?;
                    self.refused += 1;
                    done.push(match refusal.code {
                        "unsupported_protocol" => Recorded::OtherProtocol(refusal),
                        _ => Recorded::Refused(refusal),
                    });
                }
            }
        }
        self.record(&mut waiting, &mut done)?;
        Ok(done)
    }

    /// What a line says; nothing when it is blank.
    fn read(&self, line: Line) -> Option<std::result::Result<FromAgent, Refusal>> {
        let refusal = |code, message| Err(Refusal { id: None, line: self.lines, code, message });
        match line {
            Line::TooLong(bytes) => {
                let message = format!("the line has {bytes} bytes, at most {LINE_BYTES_MAX} are read");
                Some(refusal("too_large", message))
            }
            Line::Whole(bytes) | Line::Partial(bytes) if bytes.trim_ascii().is_empty() => None,
            Line::Whole(bytes) => Some(FromAgent::read(&bytes, self.lines)),
            Line::Partial(bytes) => Some(FromAgent::read(&bytes, self.lines).map_err(|refusal| {
                let message = match refusal.code {
                    "invalid_json" => format!("the agent ended in the middle of a line, after {} bytes", bytes.len()),
                    _ => refusal.message,
                };
                Refusal { message, ..refusal }
            })),
        }
    }

    fn record(&mut self, waiting: &mut Vec<Waiting>, done: &mut Vec<Recorded>) -> Result<()> {
        let waiting = std::mem::take(waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        match self.commit(&waiting) {
            Ok(acks) => {
                for (ack, line) in acks.into_iter().zip(waiting) {
                    done.push(Recorded::Ack(ack, line.events));
                }
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::InvalidInput) => {
                // One line of them is refused by the store: each stands or falls by itself.
                for line in waiting {
                    done.push(self.record_one(line)?);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn record_one(&mut self, line: Waiting) -> Result<Recorded> {
        match self.commit(std::slice::from_ref(&line)) {
            Ok(acks) => match acks.into_iter().next() {
                Some(ack) => Ok(Recorded::Ack(ack, line.events)),
                None => Err(crate::failure::Failure::other("the store acknowledged a line without saying where it is")),
            },
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::InvalidInput) => {
                self.refused += 1;
                let code = if error.kind() == ErrorKind::TooLarge { "too_large" } else { "invalid_message" };
                Ok(Recorded::Refused(Refusal { id: line.id, line: line.line, code, message: error.to_string() }))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn commit(&mut self, lines: &[Waiting]) -> runlog::Result<Vec<Ack>> {
        let mut batch = EntryBatch::new(self.instance.session_id);
        for line in lines {
            batch.push_events(self.instance.id, &line.events)?;
        }
        let key = match lines {
            [only] => only.key.as_deref(),
            _ => None,
        };
        let whole = match key {
            Some(key) => batch.batch().with_key(key.as_bytes()),
            None => batch.batch(),
        };
        let appended = pollster::block_on(self.store.backend().commit(whole))?;
        let mut acks = Vec::with_capacity(lines.len());
        for (line, result) in lines.iter().zip(&appended.ops) {
            let last_sequence = result.last_sequence.0;
            let sequence = (last_sequence + 1).saturating_sub(line.events.len() as u64);
            acks.push(Ack { id: line.id.clone(), sequence, last_sequence });
            if !appended.repeated {
                self.events += line.events.len() as u64;
            }
        }
        Ok(acks)
    }
}
