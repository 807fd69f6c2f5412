//! A resume of a flow that fails leaves it with who drove it, also what that one does meanwhile.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use runlog::{
    Error, ErrorKind, RawJson, RunId, Store,
    backend::{Backend, BackendFuture, Decorator},
    flows::{FlowRun, Resumed, RuntimeCommand},
    log::{Sequence, Snapshot, StreamId},
};
use tokio::{sync::Notify, task::JoinHandle};

/// Holds the next look for a state back until it is told to go on, and fails it then.
#[derive(Default)]
struct Gate {
    is_armed: AtomicBool,
    reached: Notify,
    go_on: Notify,
}

struct Holds {
    inner: Arc<dyn Backend>,
    gate: Arc<Gate>,
}

impl Decorator for Holds {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        if !self.gate.is_armed.swap(false, Ordering::SeqCst) {
            return self.inner.latest_snapshot(stream, at_or_before);
        }
        Box::pin(async {
            self.gate.reached.notify_one();
            self.gate.go_on.notified().await;
            Err(Error::new(ErrorKind::Io, "the disk doesn't answer"))
        })
    }
}

/// A flow that is driven, and a resume of it that is under way and will fail.
async fn resumed_in_vain() -> (
    FlowRun,
    Arc<Gate>,
    JoinHandle<runlog::Result<(FlowRun, Resumed)>>,
) {
    let gate = Arc::new(Gate::default());
    let inner = Arc::clone(Store::in_memory().backend());
    let store = Store::with_backend(Arc::new(Holds {
        inner,
        gate: Arc::clone(&gate),
    }));
    let flow = FlowRun::create(&store, None).await.unwrap();
    let run: RunId = flow.run_id();
    gate.is_armed.store(true, Ordering::SeqCst);
    let resuming = tokio::spawn(async move { FlowRun::resume(&store, run, None).await });
    gate.reached.notified().await;
    (flow, gate, resuming)
}

/// What a task gives that goes on while the resume is under way, and behind it.
async fn beside<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
    gate: &Gate,
    resuming: JoinHandle<runlog::Result<(FlowRun, Resumed)>>,
) -> T {
    let task = tokio::spawn(task);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    gate.go_on.notify_one();
    let failed = resuming.await.unwrap().err().unwrap();
    assert_eq!(failed.kind(), ErrorKind::Io);
    task.await.unwrap()
}

#[tokio::test]
async fn a_state_that_is_saved_while_a_resume_fails_is_saved() {
    let (mut flow, gate, resuming) = resumed_in_vain().await;
    let saving = async move {
        let saved = flow.start_agent("plan", "session-1").await;
        (flow, saved)
    };
    let (flow, saved) = beside(saving, &gate, resuming).await;
    saved.unwrap();
    assert_eq!(flow.state().agent_sessions["plan"], "session-1");
}

#[tokio::test]
async fn commands_that_are_taken_while_a_resume_fails_are_taken() {
    let (mut flow, gate, resuming) = resumed_in_vain().await;
    let command = RuntimeCommand::send("plan", "go");
    flow.command(&RawJson::from_value(&command).unwrap())
        .await
        .unwrap();
    let taking = async move {
        flow.refresh().await?;
        let taken = flow.take_inbox("plan");
        flow.check_open().await.map(|()| taken)
    };
    let taken = beside(taking, &gate, resuming).await.unwrap();
    assert_eq!(taken, [command]);
}

#[tokio::test]
async fn who_waits_for_commands_while_a_resume_fails_goes_on_waiting() {
    let (flow, gate, resuming) = resumed_in_vain().await;
    let checking = async move { flow.check_open().await };
    beside(checking, &gate, resuming).await.unwrap();
}
