//! [`Root`]: the calls that need no open store.

use std::{rc::Rc, sync::Arc, time::Duration};

use runlog::{
    Store, StoreOptions,
    backend::if_supported,
    durability,
    engine::{
        Embedded, Missing, Mode, Preallocation, Wait,
        storage::{MemoryStorage, Storage},
    },
    log::Recovery,
    sessions::ListSessions,
};
use serde::Deserialize;

use crate::{
    Failure, Host, Result,
    answers::{Made, Typed, known, wait},
    arguments::Input,
    calls::calls,
    object::{Object, Scope},
    open_store::OpenStore,
    orchestrator::{self, DefinedTool},
    store::{SharedStore, StoreObject},
    tasks::Answer,
    watched::{UnderWay, Watched},
};

/// The root object, which always exists.
#[derive(Debug)]
pub(crate) struct Root;

/// How a store is opened; what is left out is as the engine has it.
#[derive(Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "OpenOptions"))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Open {
    /// How durable an append is when acknowledged, unless it says otherwise; `sync` when left out.
    durability: Option<durability::Given>,
    /// The largest size of a segment file in bytes, from 64 KiB to 1 GiB; 32 MiB when left out.
    segment_bytes_max: Option<u64>,
    /// What a missing store means: it is made (when left out), or the error `not_found`.
    missing: Option<GivenMissing>,
    /// `write` (the one writer, refused with `locked` while another has the store; when left out), or `readOnly`: a
    /// reader, beside a writer in another process or without one, which changes no file.
    mode: Option<GivenMode>,
    /// Whether the space of segments is made ahead of need, so that a flush is faster; `auto` when left out.
    preallocation: Option<GivenPreallocation>,
    /// How long to wait for another writer to let go of the store, in milliseconds, before it is refused with
    /// `locked`; 0 when left out. A service that is restarted waits for the one before it to end.
    lock_timeout_ms: Option<u64>,
    /// Whether files of which nothing is in use any more, because all in them was truncated or deleted, are given up by
    /// themselves in the background; true when left out. Nothing else is rewritten unless `compact` is called.
    auto_compact: Option<bool>,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum GivenMissing {
    Create,
    Fail,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum GivenMode {
    Write,
    ReadOnly,
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum GivenPreallocation {
    Auto,
    None,
}

impl Open {
    fn options(&self, host: &Host) -> StoreOptions {
        let mut options = StoreOptions::with_host(Arc::clone(&host.engine));
        if let Some(GivenMode::ReadOnly) = self.mode {
            options = options.read_only();
        }
        options.durability = self.durability.map_or(options.durability, Into::into);
        options.segment_bytes_max = self.segment_bytes_max.unwrap_or(options.segment_bytes_max);
        options.lock_timeout = Duration::from_millis(self.lock_timeout_ms.unwrap_or(0));
        options.auto_compact = self.auto_compact.unwrap_or(options.auto_compact);
        match self.missing {
            Some(GivenMissing::Create) if options.mode == Mode::Write => {
                options.missing = Missing::Create
            }
            Some(GivenMissing::Fail) => options.missing = Missing::Fail,
            _ => {}
        }
        options.preallocation = match self.preallocation {
            Some(GivenPreallocation::None) => Preallocation::None,
            Some(GivenPreallocation::Auto) => Preallocation::Auto,
            None => options.preallocation,
        };
        options
    }
}

fn open(scope: &Scope, path: &str, options: &Open) -> Result<Typed<Made<Recovery>>> {
    if path.is_empty() || path.contains('\0') {
        return Err(Failure::invalid("open needs the path of a folder"));
    }
    let storage = (scope.host.storage)(path)?;
    let options = options.options(&scope.host);
    let under_way = scope.under_way.clone();
    let opening = scope.host.offload(Box::pin(async move {
        let mode = options.mode;
        let shared = open_on(storage, options, under_way, false)?;
        if mode == Mode::Write {
            shared.store.recover_runs().await?;
        }
        // Reads the catalog now, so that later calls don't have to.
        shared
            .store
            .list_sessions(&ListSessions {
                limit: 1,
                ..ListSessions::default()
            })
            .await?;
        Ok(shared)
    }));
    let scope = scope.clone();
    Ok(wait(async move { opened(&scope, opening.await?, true) }))
}

fn open_in_memory(scope: &Scope, options: &Open) -> Result<Made<Recovery>> {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let host = Host {
        engine: Arc::new(Threadless(Arc::clone(&scope.host.engine))),
        ..scope.host.clone()
    };
    opened(
        scope,
        open_on(
            storage,
            options.options(&host),
            scope.under_way.clone(),
            true,
        )?,
        true,
    )
}

fn open_on(
    storage: Arc<dyn Storage>,
    options: StoreOptions,
    under_way: UnderWay,
    in_memory: bool,
) -> Result<SharedStore> {
    let embedded = Embedded::open_on(storage, options, Wait::Await)?;
    let store = Store::with_backend(Arc::new(Watched {
        embedded,
        under_way,
    }));
    Ok(SharedStore::new(store, in_memory))
}

/// A host without threads: a store in memory writes in the calling thread.
struct Threadless(Arc<dyn runlog::engine::Host>);

impl runlog::engine::Host for Threadless {
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.0.random(bytes);
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn wake_after(&self, duration: Duration, waker: std::task::Waker) {
        self.0.wake_after(duration, waker);
    }

    fn process_id(&self) -> u32 {
        self.0.process_id()
    }
}

fn opened(scope: &Scope, shared: SharedStore, owns: bool) -> Result<Made<Recovery>> {
    let object = StoreObject::new(shared, scope.host.clone(), owns);
    let recovery = object.backend()?.maintenance().recovery();
    let recovered = if_supported(recovery)?.unwrap_or_default();
    Made::new(scope, Rc::new(OpenStore(Rc::new(object))), &recovered)
}

impl Object for Root {
    fn name(&self) -> &'static str {
        "runlog"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        call(&self, scope, input)
    }
}

calls! {
    (_of: &Rc<Root>, scope, input) {}

    open { path: String, #[serde(default)] options: Open } -> Made<Recovery> =>
        open(scope, &path, &options)?;
    openInMemory(options: Open) -> Made<Recovery> => known(open_in_memory(scope, &options));
    attach { token: u64 } -> Made<Recovery> =>
        known(StoreObject::attach(token).and_then(|shared| opened(scope, shared, false)));
    timerOver { timer: u64 } -> () => {
        scope.remote.is_over(timer);
        known(Ok::<_, Failure>(()))
    };
    toolDefinitions {} -> Vec<DefinedTool> =>
        known(Ok::<_, Failure>(orchestrator::tool_definitions()));
    version {} -> &'static str => known(Ok::<_, Failure>(env!("CARGO_PKG_VERSION")));
}
