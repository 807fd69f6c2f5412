//! [`read_each`]: reads a stream page by page and passes on each record; [`let_others_run`] between pages of what is long.

use std::{future::poll_fn, task::Poll};

use runlog_log::{ReadOptions, Record, Result, StreamId};

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
    let mut next = Some(options.first);
    while let Some(first) = next.filter(|first| *first <= options.last) {
        let options = ReadOptions {
            first,
            ..options.clone()
        };
        let page = backend.read(stream, options).await?;
        next = page.next;
        page.records.iter().try_for_each(&mut *take)?;
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
