//! [`WaitPast`]: a future that is ready once the log has grown past a position.

use std::{
    future::Future,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll},
};

use runlog_engine::Position;

use super::state::State;
use crate::Result;

pub(super) struct WaitPast<'a> {
    state: &'a Mutex<State>,
    seen: Position,
    /// Its place among the state's waiters, once it has been polled in vain.
    ticket: Option<u64>,
}

impl<'a> WaitPast<'a> {
    pub(super) fn new(state: &'a Mutex<State>, seen: Position) -> Self {
        Self { state, seen, ticket: None }
    }
}

impl Future for WaitPast<'_> {
    type Output = Result<Position>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock().expect("the in-memory log was left broken by a panic");
        let last = state.last_position();
        if last > self.seen {
            return Poll::Ready(Ok(last));
        }
        let ticket = state.add_waiter(self.ticket, context.waker().clone());
        drop(state);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for WaitPast<'_> {
    fn drop(&mut self) {
        if let (Some(ticket), Ok(mut state)) = (self.ticket, self.state.lock()) {
            state.remove_waiter(ticket);
        }
    }
}
