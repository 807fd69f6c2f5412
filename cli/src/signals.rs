//! Signals that ask the process to end.

/// Is ready when the process is asked to end. From this call on a signal doesn't end it by itself.
pub(crate) fn signalled() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        let mut signals: Vec<_> = kinds
            .into_iter()
            .filter_map(|kind| signal(kind).ok())
            .collect();
        std::future::poll_fn(move |context| {
            let is_ready = signals
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready());
            if is_ready {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
    }
    #[cfg(not(unix))]
    async {
        let _ = tokio::signal::ctrl_c().await;
    }
}
