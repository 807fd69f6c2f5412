//! [`read_each`] and [`read_while`]: read a stream page by page and pass on each record; [`let_others_run`] between pages of what is long.

use std::{future::poll_fn, task::Poll};

use runlog_log::{Direction, ReadOptions, Record, Result, StreamId};

use crate::backend::Backend;

/// Passes each record that `options` select to `take`; none when their range is empty.
///
/// # Errors
/// Those of reading, and those of `take`, which end the reading.
pub(crate) async fn read_each(
    backend: &dyn Backend,
    stream: StreamId,
    options: ReadOptions,
    take: &mut (dyn FnMut(&Record) -> Result<()> + Send),
) -> Result<()> {
    read_while(backend, stream, options, &mut |record| {
        take(record).map(|()| true)
    })
    .await
}

/// Passes each record that `options` select, in their direction, to `take`, until that returns `false`.
///
/// # Errors
/// Those of reading, and those of `take`, which end the reading.
pub(crate) async fn read_while(
    backend: &dyn Backend,
    stream: StreamId,
    mut options: ReadOptions,
    take: &mut (dyn FnMut(&Record) -> Result<bool> + Send),
) -> Result<()> {
    while options.first <= options.last {
        let page = backend.read(stream, options.clone()).await?;
        for record in &page.records {
            if !take(record)? {
                return Ok(());
            }
        }
        match page.next {
            None => return Ok(()),
            Some(next) if options.direction == Direction::Forward => options.first = next,
            Some(next) => options.last = next,
        }
    }
    Ok(())
}

/// Returns to the executor once. A backend in this process answers a read at once, so that a long one would keep the thread
/// for as long as it takes: with an event loop, nothing else there runs meanwhile.
pub(crate) async fn let_others_run() {
    let mut has_returned = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_returned, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
