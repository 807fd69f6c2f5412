//! [`Runtime`]: the seam between the orchestration and what runs its tasks: tokio, an event loop, a simulation.

use std::{future::Future, pin::Pin, time::Duration};

/// A future in a box, that can be moved to another thread where there are any.
#[cfg(not(target_family = "wasm"))]
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
#[cfg(target_family = "wasm")]
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Something that runs to its end by being polled.
pub type Task = Boxed<'static, ()>;

/// What can be moved to another thread, where there are any: nothing is asked in WebAssembly.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// What can be moved to another thread, where there are any: nothing is asked in WebAssembly.
#[cfg(target_family = "wasm")]
pub trait MaybeSend {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSend for T {}

/// What can be shared among threads, where there are any: nothing is asked in WebAssembly.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Sync + ?Sized> MaybeSync for T {}
/// What can be shared among threads, where there are any: nothing is asked in WebAssembly.
#[cfg(target_family = "wasm")]
pub trait MaybeSync {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSync for T {}

/// Runs tasks, and tells when time has passed. All that the orchestration asks of its surroundings.
///
/// ```
/// use std::time::Duration;
/// use runlog::agents::{Runtime, Task};
///
/// /// A thread for each task, and one for each timer: simple, for few of them.
/// struct Threads;
///
/// impl Runtime for Threads {
///     fn spawn(&self, task: Task) {
///         std::thread::spawn(|| pollster::block_on(task));
///     }
///
///     fn sleep(&self, duration: Duration) -> Task {
///         let (over, is_over) = tokio::sync::oneshot::channel::<()>();
///         std::thread::spawn(move || {
///             std::thread::sleep(duration);
///             drop(over);
///         });
///         Box::pin(async move { is_over.await.unwrap_or_default() })
///     }
/// }
/// ```
pub trait Runtime: MaybeSend + MaybeSync + 'static {
    /// Begins a task. It goes on whatever becomes of the caller.
    fn spawn(&self, task: Task);

    /// Ready once a time has passed. May be polled outside of the tasks too.
    fn sleep(&self, duration: Duration) -> Task;
}

/// Tasks and timers of a tokio runtime, of either kind. Its timers have to be enabled.
///
/// ```
/// use runlog::agents::TokioRuntime;
///
/// let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let runtime = TokioRuntime::new(tokio.handle().clone());
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(not(target_family = "wasm"))]
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: tokio::runtime::Handle,
}

#[cfg(not(target_family = "wasm"))]
impl TokioRuntime {
    /// The runtime of a handle.
    pub fn new(handle: tokio::runtime::Handle) -> Self {
        Self { handle }
    }

    /// The runtime that this is called in; `None` outside of one.
    pub fn current() -> Option<Self> {
        tokio::runtime::Handle::try_current().ok().map(Self::new)
    }
}

#[cfg(not(target_family = "wasm"))]
impl Runtime for TokioRuntime {
    fn spawn(&self, task: Task) {
        self.handle.spawn(task);
    }

    fn sleep(&self, duration: Duration) -> Task {
        // A timer belongs to the runtime that it is made in, and can then be polled anywhere.
        let _inside = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }
}
