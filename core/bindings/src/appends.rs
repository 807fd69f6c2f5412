//! [`Appends`]: appends that JavaScript submits many at a time, and whose results it gets many at a time, as numbers only.
//!
//! The input is a sequence of appends, each with the handle of a store u32, the length u32, and that many bytes of a
//! [`PackedAppend`]. The output has six f64 for each: the ticket, the positions of the first and the last record, the
//! sequences of the first and the last, and 1 if the same key was used before. For a failed append: the ticket, the
//! index of its failure, and -1 at the end. All little-endian.
//!
//! Appends have tickets of their own, from 1 on.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use runlog::{Store, backend::BackendFuture, log::Appended};

use serde::Serialize;

use crate::{Failure, Reply, Result, packed::PackedAppend};

const HEADER_BYTES: usize = 8;
/// The bytes of one answer.
const ANSWER_BYTES: usize = 48;

/// What an append of records to one stream became.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Appended"))]
pub(crate) struct Outcome {
    pub(crate) position: u64,
    pub(crate) last_position: u64,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
    pub(crate) repeated: bool,
    pub(crate) truncated: bool,
}

/// An append that was staged.
pub(crate) struct Staged {
    records: u64,
    commit: BackendFuture<'static, Appended>,
}

impl Staged {
    /// Stages packed records.
    pub(crate) fn stage(store: &Store, packed: &[u8]) -> Result<Self> {
        let packed = PackedAppend::read(packed)?;
        store.check_raw(&packed.batch.ops)?;
        let commit = store.backend().maintenance().stage(&packed.batch)?;
        Ok(Self {
            records: packed.records as u64,
            commit,
        })
    }

    fn outcome(&self, appended: &Appended) -> Result<Outcome> {
        let first = appended.first_sequence(self.records);
        let op = appended.ops.first().zip(first);
        let (op, first) = op.ok_or_else(|| Failure::invalid("an append of nothing"))?;
        Ok(Outcome {
            position: op.position.0,
            last_position: appended.last_position.0,
            first_sequence: first.0,
            last_sequence: op.last_sequence.0,
            repeated: appended.repeated,
            truncated: appended.truncated,
        })
    }
}

impl Future for Staged {
    type Output = Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(result) = self.commit.as_mut().poll(context) else {
            return Poll::Pending;
        };
        Poll::Ready(
            result
                .map_err(Failure::from)
                .and_then(|appended| self.outcome(&appended)),
        )
    }
}

/// The pending appends, in the order in which they were staged.
#[derive(Default)]
pub(crate) struct Appends {
    last_ticket: u64,
    pending: Vec<(u64, Staged)>,
}

/// Appends that are completed.
#[derive(Default, Debug)]
pub(crate) struct Settled {
    answers: Vec<u8>,
    failures: Vec<Failure>,
}

impl Appends {
    /// The ticket of the append that is staged next.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.last_ticket + 1
    }

    /// The ticket of the first append that isn't done.
    pub(crate) fn first_pending(&self) -> Option<u64> {
        self.pending.first().map(|(ticket, _)| *ticket)
    }

    /// Stages appends. Refused ones fail separately.
    ///
    /// Nothing is polled yet: a flush for the first one would begin without the others.
    pub(crate) fn stage(
        &mut self,
        handed_over: &[u8],
        store_of: impl Fn(u32) -> Result<Store>,
        settled: &mut Settled,
    ) -> Result<()> {
        // Cached, because consecutive appends are usually to the same store.
        let mut found: Option<(u32, Store)> = None;
        let mut rest = handed_over;
        while !rest.is_empty() {
            let (handle, packed, next) = split(rest)?;
            rest = next;
            self.last_ticket += 1;
            let store = match &found {
                Some((of, store)) if *of == handle => Ok(store),
                _ => store_of(handle).map(|store| &found.insert((handle, store)).1),
            };
            let staged = catch_unwind(AssertUnwindSafe(|| Staged::stage(store?, packed)));
            match staged.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))) {
                Ok(staged) => self.pending.push((self.last_ticket, staged)),
                Err(failure) => settled.fail(self.last_ticket, failure),
            }
        }
        Ok(())
    }

    /// Polls all pending appends; those that aren't completed wake `waker` when they are.
    pub(crate) fn poll(&mut self, waker: &Waker, settled: &mut Settled) {
        let mut context = Context::from_waker(waker);
        self.pending.retain_mut(|(ticket, staged)| {
            let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(staged).poll(&mut context)));
            match polled.unwrap_or_else(|panic| Poll::Ready(Err(Failure::panicked(&*panic)))) {
                Poll::Pending => return true,
                Poll::Ready(Ok(outcome)) => settled.add(*ticket, outcome),
                Poll::Ready(Err(failure)) => settled.fail(*ticket, failure),
            }
            false
        });
    }
}

impl Settled {
    fn add(&mut self, ticket: u64, outcome: Outcome) {
        let Outcome {
            position,
            last_position,
            first_sequence,
            last_sequence,
            repeated,
            truncated,
        } = outcome;
        let flags = u64::from(repeated) + u64::from(truncated);
        let numbers = [
            ticket,
            position,
            last_position,
            first_sequence,
            last_sequence,
            flags,
        ];
        self.answer(numbers.map(|number| number as f64));
    }

    fn fail(&mut self, ticket: u64, failure: Failure) {
        self.answer([
            ticket as f64,
            self.failures.len() as f64,
            0.0,
            0.0,
            0.0,
            -1.0,
        ]);
        self.failures.push(failure);
    }

    fn answer(&mut self, numbers: [f64; 6]) {
        self.answers.reserve(ANSWER_BYTES);
        numbers
            .iter()
            .for_each(|number| self.answers.extend(number.to_le_bytes()));
    }

    /// Their results as a reply, if there are any.
    pub(crate) fn into_reply(self) -> Option<Result<Reply>> {
        if self.answers.is_empty() {
            return None;
        }
        let reply = if self.failures.is_empty() {
            Ok(Reply::DONE)
        } else {
            Reply::json(&self.failures)
        };
        Some(reply.map(|reply| reply.with_bytes(self.answers)))
    }
}

/// The handle and the records of the first append, and the appends after it.
fn split(bytes: &[u8]) -> Result<(u32, &[u8], &[u8])> {
    let short = || Failure::invalid("appends that were handed over end inside of one");
    let (header, rest) = bytes
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or_else(short)?;
    let [a, b, c, d, length @ ..] = *header;
    let length = u32::from_le_bytes(length) as usize;
    let (packed, rest) = rest.split_at_checked(length).ok_or_else(short)?;
    Ok((u32::from_le_bytes([a, b, c, d]), packed, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_are_split_and_no_length_reads_beyond_the_end() {
        let mut bytes = Vec::new();
        for (handle, packed) in [(7_u32, &b"one"[..]), (8, b""), (9, b"three")] {
            bytes.extend(handle.to_le_bytes());
            bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(packed);
        }
        let (handle, packed, rest) = split(&bytes).unwrap();
        assert_eq!((handle, packed), (7, &b"one"[..]));
        let (handle, packed, rest) = split(rest).unwrap();
        assert_eq!((handle, packed), (8, &b""[..]));
        assert_eq!(split(rest).unwrap(), (9, &b"three"[..], &b""[..]));
        for length in 0..11 {
            assert_eq!(split(&bytes[..length]).unwrap_err().code, "invalid_input");
        }
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(split(&bytes).is_err());
    }
}
