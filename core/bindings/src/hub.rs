//! [`Hub`]: the entry point for one JavaScript thread.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
};

use crate::{
    Failure, Host, Reply, Result,
    arguments::Input,
    object::{Object, Scope},
    orchestrator,
    remote::Remote,
    root::Root,
    tasks::{Answer, Tasks},
    watched::UnderWay,
};

/// The handle of the root object: opening stores, and calls that need no store.
const ROOT: u32 = 0;
/// The ticket of messages that aren't the answer of one call.
const ASKED: u64 = 0;

/// The objects and the calls of one JavaScript thread.
///
/// ```
/// use std::sync::Arc;
/// use runlog_bindings::{Host, Hub, Started};
///
/// let host = Host {
///     engine: Arc::new(runlog::engine::SystemHost),
///     offload: Arc::new(|work| work()),
///     storage: Arc::new(|path| Ok(Arc::new(runlog::engine::storage::FsStorage::new(path)))),
/// };
/// let mut hub = Hub::new(host, || {});
/// let Started::Done(Ok(opened)) = hub.call(0, "openInMemory", "{}", b"") else { panic!() };
/// let store = opened.handle.unwrap();
/// let Started::Done(Ok(made)) = hub.call(store, "createSession", r#"{"title":"Trip"}"#, b"") else { panic!() };
/// assert!(made.json.unwrap().contains("Trip"));
/// ```
pub struct Hub {
    scope: Scope,
    root: Rc<Root>,
    tasks: Tasks,
}

/// Answers, each with its ticket.
pub type Answers = Vec<(u64, Result<Reply>)>;

/// The state of a call after its first poll.
#[derive(Debug)]
pub enum Started {
    /// It is completed.
    Done(Result<Reply>),
    /// A later poll returns its answer, with this ticket.
    Pending(u64),
}

impl Hub {
    /// A hub. `wake` asks the JavaScript thread to [poll](Self::poll) soon; it is called from any thread.
    #[cfg_attr(
        target_family = "wasm",
        expect(
            clippy::arc_with_non_send_sync,
            reason = "there is one thread there; elsewhere it is shared between threads"
        )
    )]
    pub fn new(host: Host, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let tasks = Tasks::new(wake);
        let remote = Arc::new(Remote::new(Arc::clone(tasks.woken())));
        let scope = Scope {
            host,
            objects: Rc::default(),
            remote,
            under_way: UnderWay::default(),
        };
        Self {
            scope,
            root: Rc::new(Root),
            tasks,
        }
    }

    /// Calls a method of the object with this handle.
    pub fn call(&mut self, handle: u32, method: &str, arguments: &str, data: &[u8]) -> Started {
        let answer = catch_unwind(AssertUnwindSafe(|| {
            self.answer(
                handle,
                Input {
                    method,
                    arguments,
                    data,
                },
            )
        }));
        match answer.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))) {
            Err(failure) => Started::Done(Err(failure)),
            Ok(answer) => match self.tasks.start(answer) {
                Ok(result) => Started::Done(result),
                Err(ticket) => Started::Pending(ticket),
            },
        }
    }

    /// Appends many separate batches, packed one after the other. Returns the ticket of the first (the others' follow
    /// it), and the answers that are ready, as from a [poll](Self::poll). Appends have tickets of their own.
    ///
    /// The module `appends` defines the layouts of the batches and the answers.
    ///
    /// # Errors
    /// `invalid_input` when the layout is wrong; batches before that place are appended, but not answered.
    pub fn append(&mut self, packed: &[u8]) -> Result<(u64, Answers)> {
        let Self { scope, root, tasks } = self;
        let (first, settled) =
            tasks.append(packed, |handle| object(scope, root, handle)?.store())?;
        Ok((
            first,
            settled
                .into_reply()
                .map(|reply| (ASKED, reply))
                .into_iter()
                .collect(),
        ))
    }

    fn answer(&self, handle: u32, input: Input<'_>) -> Result<Answer> {
        let object = object(&self.scope, &self.root, handle)?;
        let name = object.name();
        let answer = object.call(&self.scope, input)?;
        answer.ok_or_else(|| Failure::invalid(format!("{name} has no method {:?}", input.method)))
    }

    /// The answers that have become ready, by ticket. Ticket 0 is used for requests to JavaScript, as JSON:
    ///
    /// - contents, and failures if there are any: the results of [appends](Self::append);
    /// - `{"ask":"sleep","timer":1,"ms":250}`: call the root's `timerOver` with the timer after that time;
    /// - `{"ask":"forget","timer":1}`: don't any more;
    /// - `{"ask":"execute","orchestrator":1,"run":{…},…}` and the handle of a run: do an agent's work, and call the
    ///   handle's `end` after it.
    pub fn poll(&mut self) -> Answers {
        let (mut ready, settled) = self.tasks.poll();
        ready.extend(settled.into_reply().map(|reply| (ASKED, reply)));
        loop {
            let tasks = self.scope.remote.take_tasks();
            if tasks.is_empty() {
                break;
            }
            for task in tasks {
                // Its end is not reported.
                let _ = self.tasks.start(Answer::detached(task));
            }
        }
        for ask in self.scope.remote.take_asks() {
            ready.push((ASKED, orchestrator::asked(&self.scope, ask)));
        }
        ready
    }

    /// Whether work is pending that no call awaits: writes of agents' runs, and tasks to poll.
    pub fn is_busy(&self) -> bool {
        self.scope.under_way.any() || self.tasks.woken().is_asked()
    }

    /// Cancels a pending call; returns whether there was one. A write can't be cancelled.
    pub fn cancel(&mut self, ticket: u64) -> bool {
        self.tasks.cancel(ticket)
    }

    /// Releases an object. Releasing the last handle of a store closes it, off the JavaScript thread.
    pub fn release(&mut self, handle: u32) {
        drop(self.scope.objects.remove(handle));
    }
}

/// The object of a handle.
fn object(scope: &Scope, root: &Rc<Root>, handle: u32) -> Result<Rc<dyn Object>> {
    match handle {
        ROOT => Ok(root.clone()),
        _ => scope
            .objects
            .get(handle)
            .ok_or_else(|| Failure::closed("what this handle named")),
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use runlog::{
        Store,
        backend::{Backend, Decorator},
        engine::{Embedded, SystemHost, Wait},
        flows::FlowRun,
    };

    use super::*;
    use crate::{
        open_store::OpenStore,
        store::{SharedStore, StoreObject},
    };

    /// A backend that reads and writes, and has no maintenance.
    struct Plain(Embedded);

    impl Decorator for Plain {
        fn inner(&self) -> &dyn Backend {
            &self.0
        }
    }

    fn done(hub: &mut Hub, handle: u32, method: &str, arguments: &str) -> Result<Reply> {
        match hub.call(handle, method, arguments, b"") {
            Started::Done(result) => result,
            Started::Pending(_) => panic!("{method} waits"),
        }
    }

    /// A store on such a backend, and its handle.
    fn with_store() -> (Hub, u32, Store) {
        let host = Host {
            engine: Arc::new(SystemHost),
            offload: Arc::new(|work| work()),
            storage: Arc::new(|path| Ok(Arc::new(runlog::engine::storage::FsStorage::new(path)))),
        };
        let hub = Hub::new(host.clone(), || {});
        let embedded = Embedded::in_memory(Arc::new(SystemHost), Wait::Block);
        let store = Store::with_backend(Arc::new(Plain(embedded)));
        let shared = SharedStore::new(store.clone(), true);
        let object = Rc::new(OpenStore(Rc::new(StoreObject::new(shared, host, true))));
        let handle = hub.scope.objects.add(object).unwrap();
        (hub, handle, store)
    }

    #[test]
    fn a_snapshot_that_would_take_the_place_of_a_flows_state_is_refused() {
        let (mut hub, handle, store) = with_store();
        let flow = pollster::block_on(FlowRun::create(&store, None)).unwrap();
        let mut snapshot = |sequence: u64| {
            let arguments = format!(
                r#"{{"ops":[{{"op":"snapshot","stream":"{}","sequence":{sequence},"metaLength":1,"payloadLength":1}}]}}"#,
                flow.run_id()
            );
            match hub.call(handle, "commit", &arguments, b"xy") {
                Started::Done(Err(failure)) => failure,
                _ => panic!("it is no failure"),
            }
        };
        // Before its first event.
        let refused = snapshot(0);
        assert_eq!(refused.code, "invalid_input", "{refused:?}");
        // All else is a matter of the backend, which can't stage anything.
        assert_eq!(snapshot(1).code, "unsupported");
    }

    #[test]
    fn a_backend_without_maintenance_has_all_but_that() {
        let (mut hub, store, _) = with_store();
        done(&mut hub, store, "createSession", r#"{"title":"Trip"}"#).unwrap();
        let listed = done(&mut hub, store, "listSessions", "{}").unwrap();
        assert!(listed.json.unwrap().contains("Trip"));
        let runs = done(&mut hub, store, "listRuns", "{}").unwrap();
        assert!(runs.json.unwrap().contains("[]"));
        for method in ["stat", "verify", "sync", "lastPosition", "streams"] {
            let failure = done(&mut hub, store, method, "").unwrap_err();
            assert_eq!(failure.code, "unsupported", "{method}: {failure:?}");
        }
        done(&mut hub, store, "close", "").unwrap();
    }
}
