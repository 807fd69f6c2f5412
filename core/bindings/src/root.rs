//! [`Root`]: what can be asked before anything is open.

use std::{rc::Rc, sync::Arc, time::Duration};

use runlog::{
    Store, StoreOptions,
    engine::{
        Embedded, Missing, Mode, Preallocation, Wait,
        storage::{MemoryStorage, Storage},
    },
    sessions::ListSessions,
};
use serde::Deserialize;

use crate::{
    Failure, Host, Reply, Result,
    arguments::{DurabilityArgument, Input},
    object::{Object, Scope},
    orchestrator,
    store::{SharedStore, StoreObject},
    tasks::Answer,
    watched::{UnderWay, Watched},
};

/// What is there from the beginning.
#[derive(Debug)]
pub(crate) struct Root;

/// How a store is opened; what is left out is as the engine has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Open {
    path: Option<String>,
    durability: Option<DurabilityArgument>,
    segment_bytes_max: Option<u64>,
    missing: Option<MissingArgument>,
    mode: Option<ModeArgument>,
    preallocation: Option<PreallocationArgument>,
    lock_timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum MissingArgument {
    Create,
    Fail,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ModeArgument {
    Write,
    ReadOnly,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum PreallocationArgument {
    Auto,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimerOver {
    timer: u64,
}

impl Open {
    fn options(&self, host: &Host) -> StoreOptions {
        let mut options = StoreOptions::with_host(Arc::clone(&host.engine));
        if let Some(ModeArgument::ReadOnly) = self.mode {
            options = options.read_only();
        }
        options.durability = self.durability.map_or(options.durability, Into::into);
        options.segment_bytes_max = self.segment_bytes_max.unwrap_or(options.segment_bytes_max);
        options.lock_timeout = Duration::from_millis(self.lock_timeout_ms.unwrap_or(0));
        match self.missing {
            Some(MissingArgument::Create) if options.mode == Mode::Write => {
                options.missing = Missing::Create
            }
            Some(MissingArgument::Fail) => options.missing = Missing::Fail,
            _ => {}
        }
        options.preallocation = match self.preallocation {
            Some(PreallocationArgument::None) => Preallocation::None,
            Some(PreallocationArgument::Auto) => Preallocation::Auto,
            None => options.preallocation,
        };
        options
    }
}

fn open(scope: &Scope, input: Input<'_>) -> Result<Answer> {
    let arguments: Open = input.read()?;
    let path = arguments
        .path
        .as_deref()
        .filter(|path| !path.is_empty() && !path.contains('\0'));
    let path = path.ok_or_else(|| Failure::invalid("open needs the path of a folder"))?;
    let storage = (scope.host.storage)(path)?;
    let options = arguments.options(&scope.host);
    let under_way = scope.under_way.clone();
    let opening = scope.host.offload(async move {
        let mode = options.mode;
        let shared = open_on(storage, options, under_way, false)?;
        if mode == Mode::Write {
            shared.store.recover_runs().await?;
        }
        // What there is is read now, so that no call has to.
        shared
            .store
            .list_sessions(&ListSessions {
                limit: 1,
                ..ListSessions::default()
            })
            .await?;
        Ok(shared)
    });
    let scope = scope.clone();
    Ok(Answer::wait(
        async move { opened(&scope, opening.await?, true) },
    ))
}

fn open_in_memory(scope: &Scope, input: Input<'_>) -> Result<Reply> {
    let arguments: Open = input.read()?;
    if arguments.path.is_some() {
        return Err(Failure::invalid(
            "a store in memory has no path; leave it out",
        ));
    }
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let host = Host {
        engine: Arc::new(Threadless(Arc::clone(&scope.host.engine))),
        ..scope.host.clone()
    };
    opened(
        scope,
        open_on(
            storage,
            arguments.options(&host),
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
    Ok(SharedStore { store, in_memory })
}

/// Memory needs no threads to write to: whoever appends does it, at once.
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

fn attach(scope: &Scope, input: Input<'_>) -> Result<Reply> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arguments {
        token: u64,
    }
    let Arguments { token } = input.read()?;
    opened(scope, StoreObject::attach(token)?, false)
}

fn opened(scope: &Scope, shared: SharedStore, owns: bool) -> Result<Reply> {
    let object = StoreObject::new(shared, scope.host.clone(), owns);
    let recovery = object.backend()?.maintenance().recovery();
    let handle = scope.objects.add(Rc::new(object))?;
    let reply = Reply::json(&recovery.unwrap_or_default())?;
    Ok(reply.with_handle(handle))
}

impl Object for Root {
    fn name(&self) -> &'static str {
        "runlog"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        Ok(Some(match input.method {
            "open" => open(scope, input)?,
            "openInMemory" => Answer::known(open_in_memory(scope, input)),
            "attach" => Answer::known(attach(scope, input)),
            "timerOver" => {
                let TimerOver { timer } = input.read()?;
                scope.remote.is_over(timer);
                Answer::known(Ok(Reply::DONE))
            }
            "toolDefinitions" => Answer::known(orchestrator::tool_definitions()),
            "version" => Answer::known(Reply::json(&env!("CARGO_PKG_VERSION"))),
            _ => return Ok(None),
        }))
    }
}
