//! Connections: accepted up to a number, each with bounds of size and time, and ended in order.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use crate::signals::signalled;

/// The most connections at one time.
pub(super) const CONNECTIONS_MAX: usize = 4_096;
/// How long a request's headers may take, and how long a connection may stay without a request.
const HEADERS_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a client may not read while bytes wait for it.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// The most bytes of a request's line and headers.
const HEADERS_BYTES_MAX: usize = 64 << 10;
/// How long pending requests may take when the server shuts down.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait if the system can't accept more connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The response to a client beyond the limit of connections.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";

/// Answers requests until `ended` is ready; then gives pending ones a grace period. `stopped` is cancelled before that.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    stopped: &CancellationToken,
    ended: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut ended = pin!(ended);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut ended => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !is_of_one_connection(&error) {
                    // Too many files are open: some will be closed.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            tokio::spawn(refuse(stream));
            continue;
        };
        // Events are small, and should arrive at once. An error only delays them.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(WRITE_TIME_MAX));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_TIME_MAX)
            .max_buf_size(HEADERS_BYTES_MAX)
            .serve_connection(
                TokioIo::new(Box::pin(stream)),
                TowerToHyperService::new(router.clone()),
            );
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // Errors of a connection can't be reported to anyone.
            let _ = connection.await;
            drop(permit);
        });
    }
    // Requests that take longer end with the process, and all of them where it is asked to end once more: from now on, before
    // anybody sees that it has begun to.
    let again = signalled();
    drop(listener);
    stopped.cancel();
    tokio::select! {
        _ = tokio::time::timeout(GRACE, graceful.shutdown()) => {}
        () = again => {}
    }
}

/// Whether the error belongs to the accepted connection, not to the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

async fn refuse(mut stream: TcpStream) {
    let refused = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await
    };
    // A client that doesn't read it isn't waited for.
    let _ = tokio::time::timeout(Duration::from_secs(1), refused).await;
}

/// Raises the process's limit of open files as far as the system allows, up to the need of its connections.
pub(super) fn allow_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = CONNECTIONS_MAX as u64 + 1_024;
        let limit = getrlimit(Resource::Nofile);
        let maximum = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        if limit.current.is_some_and(|current| current < maximum) {
            // If this is refused, fewer connections are accepted.
            let _ = setrlimit(
                Resource::Nofile,
                Rlimit {
                    current: Some(maximum),
                    maximum: limit.maximum,
                },
            );
        }
    }
}
