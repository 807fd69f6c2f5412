//! [`StoreObject`]: an open store.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::Future,
    pin::Pin,
    rc::{Rc, Weak},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog::{
    Store,
    backend::Backend,
    log::{BackupOptions, Position, Verification},
};
use serde::{Deserialize, Serialize};

use crate::{
    Failure, Host, Reply, Result, agents,
    arguments::Input,
    chats, contexts, flows,
    object::{Object, Scope},
    orchestrator,
    requests::RequestObject,
    runs, sessions, streams,
    tasks::Answer,
};

/// Stores that threads of this process may share, by token.
static SHARED: Mutex<Option<HashMap<u64, SharedStore>>> = Mutex::new(None);
static LAST_TOKEN: AtomicU64 = AtomicU64::new(0);

/// An open store, without what belongs to one thread.
#[derive(Clone)]
pub(crate) struct SharedStore {
    pub(crate) store: Store,
    pub(crate) in_memory: bool,
}

/// An open store.
pub(crate) struct StoreObject {
    shared: Option<SharedStore>,
    host: Host,
    closed: Cell<bool>,
    token: Cell<Option<u64>>,
    /// Whether closing it closes the store for everyone.
    owns: bool,
    /// The requests that were begun on it, which its end writes.
    requests: RefCell<Vec<Weak<RequestObject>>>,
}

impl StoreObject {
    pub(crate) fn new(shared: SharedStore, host: Host, owns: bool) -> Self {
        Self {
            shared: Some(shared),
            host,
            closed: Cell::new(false),
            token: Cell::new(None),
            owns,
            requests: RefCell::default(),
        }
    }

    /// The store another thread shares under this token.
    pub(crate) fn attach(token: u64) -> Result<SharedStore> {
        let found = shared_stores(|stores| stores.get(&token).cloned());
        found.ok_or_else(|| Failure::closed("the store that was shared"))
    }

    fn shared(&self) -> Result<&SharedStore> {
        match &self.shared {
            Some(shared) if !self.closed.get() => Ok(shared),
            _ => Err(Failure::closed("the store")),
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> Result<Store> {
        Ok(self.shared()?.store.clone())
    }

    /// An answer that reads: where it blocks nobody.
    pub(crate) fn offload(
        &self,
        future: impl Future<Output = Result<Reply>> + Send + 'static,
    ) -> Answer {
        Answer::wait(self.run_blocking(future))
    }

    /// Runs what reads to its end where it blocks nobody.
    pub(crate) fn run_blocking<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<T>>>> {
        match &self.shared {
            Some(shared) if shared.in_memory => Box::pin(future),
            _ => Box::pin(self.host.offload(future)),
        }
    }

    /// Notes a request, so that it is written when the store is closed before it has ended.
    pub(crate) fn begun(&self, request: &Rc<RequestObject>) {
        let mut requests = self.requests.borrow_mut();
        if requests.len() == requests.capacity() {
            requests.retain(|request| request.strong_count() > 0);
        }
        requests.push(Rc::downgrade(request));
    }

    fn close(self: Rc<Self>) -> Result<Answer> {
        let shared = self.shared()?.clone();
        self.closed.set(true);
        self.unshare();
        // What is dropped without an end is written as interrupted, in the thread that drops it.
        let requests = self.requests.take();
        let open: Vec<_> = requests
            .iter()
            .filter_map(|request| request.upgrade()?.leave())
            .collect();
        if !self.owns && open.is_empty() {
            return Ok(Answer::known(Ok(Reply::DONE)));
        }
        let owns = self.owns;
        Ok(self.offload(async move {
            drop(open);
            if owns {
                shared.store.close().await?;
            }
            Ok(Reply::DONE)
        }))
    }

    fn backup(&self, input: Input<'_>) -> Result<Answer> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Arguments {
            folder: String,
            #[serde(default)]
            verify: bool,
        }
        let Arguments { folder, verify } = input.read()?;
        if folder.is_empty() || folder.contains('\0') {
            return Err(Failure::invalid("a backup needs the path of a folder"));
        }
        let backend = self.backend()?;
        Ok(self.offload(async move {
            let options = BackupOptions { verify };
            let done = backend.maintenance().backup(folder.as_ref(), options);
            Reply::json(&done.await?)
        }))
    }

    fn share(&self) -> Result<Reply> {
        let shared = self.shared()?.clone();
        let token = self
            .token
            .get()
            .unwrap_or_else(|| LAST_TOKEN.fetch_add(1, Ordering::Relaxed) + 1);
        self.token.set(Some(token));
        shared_stores(|stores| stores.insert(token, shared));
        Reply::json(&token)
    }

    fn unshare(&self) {
        if let Some(token) = self.token.take() {
            shared_stores(|stores| stores.remove(&token));
        }
    }

    fn stat(&self) -> Result<Answer> {
        let backend = self.backend()?;
        Ok(self.offload(async move { Reply::json(&backend.maintenance().stat().await?) }))
    }

    fn verify(&self) -> Result<Answer> {
        let backend = self.backend()?;
        Ok(self.offload(async move {
            let found = backend.maintenance().verify().await?;
            Reply::json(&VerifyReply {
                sound: found.is_sound(),
                found,
            })
        }))
    }

    fn wait_past(&self, input: Input<'_>) -> Result<Answer> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Arguments {
            position: u64,
        }
        let Arguments { position } = input.read()?;
        let store = self.store()?;
        Ok(Answer::wait(async move {
            Reply::json(&store.backend().wait_past(Position(position)).await?.0)
        }))
    }
}

impl Object for StoreObject {
    fn name(&self) -> &'static str {
        "a store"
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::clone(self.shared()?.store.backend()))
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        if input.method == "close" {
            return self.close().map(Some);
        }
        self.shared()?;
        for class in [
            contexts::call,
            streams::call,
            sessions::call,
            runs::call,
            flows::call,
            chats::call,
            agents::call,
            orchestrator::call,
        ] {
            if let Some(answer) = class(&self, scope, input)? {
                return Ok(Some(answer));
            }
        }
        #[cfg(not(target_family = "wasm"))]
        if let Some(answer) = crate::archives::call(&self, scope, input)? {
            return Ok(Some(answer));
        }
        Ok(Some(match input.method {
            "stat" => self.stat()?,
            "verify" => self.verify()?,
            "backup" => self.backup(input)?,
            "share" => Answer::known(self.share()),
            "waitPast" => self.wait_past(input)?,
            "sync" => {
                let backend = self.backend()?;
                self.offload(async move {
                    backend.maintenance().flush().await?;
                    Ok(Reply::DONE)
                })
            }
            "newId" => Answer::known(Reply::json(&self.store()?.backend().new_id())),
            _ => return Ok(None),
        }))
    }
}

impl Drop for StoreObject {
    fn drop(&mut self) {
        self.unshare();
        // The last one closes the store, which waits for the storage.
        if let Some(shared) = self.shared.take() {
            (self.host.offload)(Box::new(move || drop(shared)));
        }
    }
}

fn shared_stores<T>(with: impl FnOnce(&mut HashMap<u64, SharedStore>) -> T) -> T {
    with(
        SHARED
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get_or_insert_default(),
    )
}

/// A verification, with its verdict.
#[derive(Serialize)]
struct VerifyReply {
    sound: bool,
    #[serde(flatten)]
    found: Verification,
}
