//! [`ask`]: the side of who asks the process that writes.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use runlog_engine::{Host, SystemHost};
use runlog_model::read_json;
use uuid::Uuid;

use super::{
    mailbox::{BYTES_MAX, FOLDER, Mailbox, Stage},
    request::{
        Answer, EXECUTION_MAX, TURN_MAX, VALID_BEYOND, WriterRequest, milliseconds, now_ms,
        unanswered,
    },
};
use crate::{Error, ErrorKind, Result, backend::Backend};

/// How often who asks looks for the answer.
const ANSWER_INTERVAL: Duration = Duration::from_millis(20);
/// How often it looks whether the process that has claimed its request still lives.
const STAGE_INTERVAL: Duration = Duration::from_millis(500);

/// A request that was posted; withdrawn when who asks doesn't wait for the answer any more.
struct Posted {
    mailbox: Mailbox,
    id: Uuid,
    is_over: bool,
}

impl Drop for Posted {
    fn drop(&mut self) {
        if !self.is_over {
            // It expires where this fails.
            let _ = self.mailbox.withdraw(self.id);
        }
    }
}

/// Asks the process that writes, and waits for its answer: up to `claim_max` until it begins, and a minute from then on.
///
/// # Errors
/// Those of the call, as the other process tells them; [`Locked`](ErrorKind::Locked) when no process takes the request:
/// nothing is done then; [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when it
/// has begun, and gave no answer, which is known within a second or two if its process has ended.
pub(crate) async fn ask<S: Future<Output = ()>>(
    backend: &dyn Backend,
    mut request: WriterRequest,
    claim_max: Duration,
    sleep: impl Fn(Duration) -> S,
) -> Result<()> {
    let folder = backend.maintenance().folder().ok_or_else(|| {
        Error::new(
            ErrorKind::ReadOnly,
            "the store is open for reading, and there is no process that could be asked to write: it is in memory, or its \
             folder was moved",
        )
    })?;
    let io = |error| {
        Error::from_io(
            error,
            format!(
                "asking the process that writes the store, by a file in {}",
                folder.join(FOLDER).display()
            ),
        )
    };
    let mailbox = Mailbox::of(&folder).map_err(io)?;
    let mut left = claim_max;
    // Asked again and again, so that nothing is done for long after a process that asked was killed.
    loop {
        let turn = left.min(TURN_MAX);
        let valid = turn.saturating_add(VALID_BEYOND);
        request.expires_at_ms = now_ms().saturating_add(milliseconds(valid));
        let text = serde_json::to_vec(&request)
            .map_err(|error| Error::invalid(format!("the request has no JSON form: {error}")))?;
        if text.len() as u64 > BYTES_MAX {
            return Err(Error::too_large(format!(
                "the request has {} bytes, at most {BYTES_MAX} can be posted; keep large content elsewhere",
                text.len()
            )));
        }
        // By the clock that the writer compares it with: that of the store's host may be another.
        let id = SystemHost.new_id();
        mailbox.post(id, &text).map_err(io)?;
        let posted = Posted {
            mailbox: mailbox.clone(),
            id,
            is_over: false,
        };
        if let Some(answer) = posted.answer(turn, &sleep, io).await? {
            return answer_of(&answer);
        }
        left = left.saturating_sub(turn);
        if left.is_zero() {
            return Err(unanswered("nobody took the request"));
        }
    }
}

impl Posted {
    /// The answer; `None` if nobody claimed the request within `turn`, and it is withdrawn.
    async fn answer<S: Future<Output = ()>>(
        mut self,
        turn: Duration,
        sleep: impl Fn(Duration) -> S,
        io: impl Fn(std::io::Error) -> Error,
    ) -> Result<Option<Vec<u8>>> {
        let begun = now();
        let mut is_claimed = false;
        let (mut looked, mut is_missed) = (begun, false);
        loop {
            match self.mailbox.take_answer(self.id) {
                Ok(None) => {}
                Ok(answer) => {
                    self.is_over = true;
                    return Ok(answer);
                }
                // Whether anything is done isn't known where it can't be withdrawn.
                Err(error) if is_claimed || !self.withdraw()? => {
                    return Err(unknown(&format!("its answer can't be read: {error}")));
                }
                Err(error) => return Err(io(error)),
            }
            let waited = now().saturating_duration_since(begun);
            if !is_claimed && waited >= turn {
                if self.withdraw()? {
                    return Ok(None);
                }
                is_claimed = true;
            }
            if waited >= turn.saturating_add(EXECUTION_MAX) {
                return Err(unknown("it gave no answer"));
            }
            if now().saturating_duration_since(looked) >= STAGE_INTERVAL {
                looked = now();
                // What can't be looked at may still be answered.
                let stage = self.mailbox.stage(self.id).unwrap_or(Stage::Claimed);
                match stage {
                    Stage::Abandoned => return Err(abandoned()),
                    Stage::Gone if is_missed => {
                        return Err(unknown("no answer will come any more"));
                    }
                    Stage::Gone | Stage::Posted | Stage::Claimed | Stage::Answered => {}
                }
                is_missed = stage == Stage::Gone;
            }
            sleep(ANSWER_INTERVAL).await;
        }
    }

    fn withdraw(&mut self) -> Result<bool> {
        let withdrawn = self.mailbox.withdraw(self.id);
        self.is_over = withdrawn.as_ref().is_ok_and(|is_withdrawn| *is_withdrawn);
        withdrawn.map_err(|error| unknown(&format!("it can't be withdrawn: {error}")))
    }
}

fn unknown(why: &str) -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "the process that writes the store may have taken the request, but {why}; what became of it, the run tells"
        ),
    )
}

fn abandoned() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the process that took the request has ended, and gave no answer: what was asked for may be done or not, which the \
         run tells",
    )
}

fn answer_of(text: &[u8]) -> Result<()> {
    let read = std::str::from_utf8(text).map_err(|error| error.to_string());
    let answer: Answer = read.and_then(read_json).map_err(|error| {
        Error::new(
            ErrorKind::OutcomeUnknown,
            format!("the answer of the process that writes can't be read: {error}"),
        )
    })?;
    match answer.error {
        None => Ok(()),
        Some((kind, message)) => {
            let kind = ErrorKind::from_name(&kind).unwrap_or(ErrorKind::OutcomeUnknown);
            Err(Error::new(kind, message))
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process answers in real time, whatever clock the store's host has"
)]
fn now() -> Instant {
    Instant::now()
}
