//! Work that waits for a disk.

use super::problem::{Answer, Problem};

/// Does what may wait for a disk where that holds up nobody else.
pub(super) async fn in_background<T: Send + 'static>(
    work: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Answer<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(Problem::internal(
            "answering this failed by a mistake of Runlog's; the server goes on",
        ))
    })
}
