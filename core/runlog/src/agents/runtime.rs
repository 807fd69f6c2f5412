//! [`Runtime`]: the interface to what runs the orchestration's tasks: tokio, an event loop, a simulation.

use std::{future::Future, pin::Pin, time::Duration};

/// A boxed future, `Send` except in WebAssembly.
#[cfg(not(target_family = "wasm"))]
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
#[cfg(target_family = "wasm")]
pub(super) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A task: a boxed future without a result.
pub type Task = Boxed<'static, ()>;

/// `Send`, except in WebAssembly, where every type is `MaybeSend`.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send`, except in WebAssembly, where every type is `MaybeSend`.
#[cfg(target_family = "wasm")]
pub trait MaybeSend {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSend for T {}

/// `Sync`, except in WebAssembly, where every type is `MaybeSync`.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Sync + ?Sized> MaybeSync for T {}
/// `Sync`, except in WebAssembly, where every type is `MaybeSync`.
#[cfg(target_family = "wasm")]
pub trait MaybeSync {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSync for T {}

/// Runs tasks and timers: all that the orchestration needs from its environment.
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
    /// Starts a task. It runs to its end even if the caller is dropped.
    fn spawn(&self, task: Task);

    /// Ready once the duration has passed. May also be polled outside of the runtime's tasks.
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
        // A timer belongs to the runtime that it is created in; it can then be polled anywhere.
        let _inside = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }
}
