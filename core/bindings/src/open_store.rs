//! [`OpenStore`]: the calls of an open store.

use std::rc::Rc;

use runlog::{
    Store,
    log::{Backup, BackupOptions, CompactOptions, CompactProgress, Compaction, Stat, Verification},
    retention::{Erase, Erased, RetainProgress, Retained, RetentionPolicy},
    watch::{Mark, Watched},
};
use serde::Serialize;

use crate::{
    Failure, Result, agents,
    answers::{after_writes, known, wait},
    arguments::Input,
    calls::calls,
    chats, contexts, flows,
    object::{Object, Scope},
    orchestrator, runs, sessions,
    store::StoreObject,
    streams,
    tasks::Answer,
};

/// An open store, with its calls.
pub(crate) struct OpenStore(pub(crate) Rc<StoreObject>);

/// A verification, with its verdict.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Verification"))]
struct Verified {
    /// Whether nothing is damaged.
    sound: bool,
    #[serde(flatten)]
    found: Verification,
}

impl From<Verification> for Verified {
    fn from(found: Verification) -> Self {
        Self {
            sound: found.is_sound(),
            found,
        }
    }
}

fn folder_of(folder: String) -> Result<String> {
    if folder.is_empty() || folder.contains('\0') {
        return Err(Failure::invalid("a backup needs the path of a folder"));
    }
    Ok(folder)
}

impl Object for OpenStore {
    fn name(&self) -> &'static str {
        "a store"
    }

    fn store(&self) -> Result<Store> {
        self.0.store()
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.0.check()?;
        for table in [
            call,
            contexts::call,
            streams::call,
            sessions::call,
            runs::call,
            flows::call,
            chats::call,
            agents::call,
            orchestrator::call,
            crate::archives::call,
        ] {
            if let Some(answer) = table(&self.0, scope, input)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

calls! {
    (of: &Rc<StoreObject>, _scope, input) {}

    close {} -> () => Rc::clone(of).close()?;
    stat {} -> Stat => {
        let backend = of.backend()?;
        of.read(async move { backend.maintenance().stat().await })
    };
    verify {} -> Verified => {
        let backend = of.backend()?;
        of.read(async move { backend.maintenance().verify().await.map(Verified::from) })
    };
    backup { folder: String, #[serde(default)] options: BackupOptions } -> Backup => {
        let (backend, folder) = (of.backend()?, folder_of(folder)?);
        of.read(async move {
            backend.maintenance().backup(folder.as_ref(), options).await
        })
    };
    compact { #[serde(default)] options: CompactOptions, watch: Option<u64> } -> Compaction => {
        of.run_watched(&of.compactions, watch, |store, reporter| async move {
            store.compact_with(options, |at| reporter.report(at))
        })?
    };
    compactProgress { watch: u64 } -> Option<CompactProgress> => wait(of.compactions.next(watch));
    retain { policy: RetentionPolicy, watch: Option<u64> } -> Retained => {
        of.run_watched(&of.retentions, watch, |store, reporter| async move {
            store.retain_with(&policy, |at| reporter.report(at)).await
        })?
    };
    retainProgress { watch: u64 } -> Option<RetainProgress> => wait(of.retentions.next(watch));
    erase { what: Erase } -> Erased => {
        of.check()?;
        let of = Rc::clone(of);
        after_writes(async move {
            let erasing = of.watched(&of.compactions, None, |store, reporter| async move {
                store.erase_with(&what, |at| reporter.report(at)).await
            });
            erasing?.await
        })
    };
    share {} -> u64 => known(of.share());
    mark { watched: Watched } -> Mark => {
        let store = of.store()?;
        of.read(async move { store.mark(watched).await })
    };
    changed { mark: Mark } -> () => {
        let store = of.store()?;
        wait(async move { store.changed(&mark).await })
    };
    sync {} -> () => {
        let backend = of.backend()?;
        of.read(async move { backend.maintenance().flush().await })
    };
    newId {} -> String => known(of.store().map(|store| store.backend().new_id().to_string()));
}
