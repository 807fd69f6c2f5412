//! [`read_each`]: reads a stream page by page and passes on each record.

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
