//! `runlog serve`: a store over HTTP.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `listen` | connections, with their bounds of number, size and time |
//! | `guard`, `tokens` | checks of the host, the page and the rights of a request |
//! | `endpoint`, `query`, `names` | one endpoint with the types of its input and output, and reading the input |
//! | `api` | the endpoints |
//! | `tail`, `playback`, `sse` | streams of events: live, or played back at their pace |
//! | `files` | the raw files of the store |
//! | `folder` | whether the store's folder is still there |
//! | `openapi` | the OpenAPI description, generated from the endpoints |
//! | `viewer` | the viewer, if the build has it |
//! | `problem` | why a request was refused |

mod api;
mod app;
mod background;
mod cache;
mod endpoint;
mod files;
mod folder;
mod guard;
mod listen;
mod names;
mod openapi;
mod playback;
mod problem;
mod query;
mod router;
mod sse;
mod tail;
mod tokens;
mod viewer;
mod waiting;

use std::path::PathBuf;

use runlog::Store;
use tokio::net::TcpListener;

pub(crate) use tokens::{Tokens, given, random};

use app::App;
use folder::Folder;

/// The served store, and its access rules.
pub(crate) struct Served {
    pub(crate) store: Store,
    /// The folder of the store.
    pub(crate) folder: PathBuf,
    pub(crate) tokens: Tokens,
    /// The names by which the server may be reached, besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
}

/// A server that accepts connections already, and answers them once it [runs](Self::run).
pub(crate) struct Server {
    listener: TcpListener,
    app: App,
    folder: Folder,
}

impl Server {
    /// A server of this store on this listener; `port` is the listener's.
    pub(crate) fn new(listener: TcpListener, port: u16, served: Served) -> Self {
        let Served {
            store,
            folder,
            tokens,
            hosts,
        } = served;
        Self {
            listener,
            folder: Folder::new(&folder),
            app: App::new(store, folder, tokens, hosts, port),
        }
    }

    /// The tokens that allow reading and writing.
    pub(crate) fn tokens(&self) -> &Tokens {
        self.app.tokens()
    }

    /// Answers requests until `ended` is ready, or the store's folder is gone: then the error says so.
    pub(crate) async fn run(self, ended: impl Future<Output = ()>) -> Result<(), String> {
        listen::allow_open_files();
        let router = router::router(self.app.clone());
        let (app, stopped) = (self.app.clone(), self.app.stopped().clone());
        tokio::spawn(async move {
            app.follower().run(app.store().clone(), stopped).await;
        });
        let mut result = Ok(());
        let until = async {
            tokio::select! {
                () = ended => {}
                why = self.folder.gone() => result = Err(why),
            }
        };
        listen::serve(self.listener, router, self.app.stopped(), until).await;
        result
    }
}
