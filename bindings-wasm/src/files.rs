//! [`Storage`] over files that JavaScript has: the browser's own file system in a worker, or files a user has picked.
//!
//! JavaScript's values belong to one thread, and a [`Storage`] may be used from any. So the values stay in a table of the
//! thread, and what the engine holds are numbers.

use std::{cell::RefCell, io, sync::Arc};

use js_sys::{Array, Error, Reflect};
use runlog::engine::storage::{Access, File, Storage};
use runlog_bindings::Failure;
use wasm_bindgen::{JsCast, prelude::*};

#[wasm_bindgen]
extern "C" {
    /// One flat folder of files, each opened by name and then named by a number. Every method is synchronous, and
    /// throws a `DOMException` where it fails. The interface `Files` of the npm package says the same in TypeScript.
    pub type Files;

    #[wasm_bindgen(method, getter)]
    fn name(this: &Files) -> String;
    #[wasm_bindgen(method, catch)]
    fn list(this: &Files) -> Result<Array, JsValue>;
    #[wasm_bindgen(method, catch, js_name = isWhole)]
    fn is_whole(this: &Files) -> Result<bool, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn create(this: &Files, name: &str) -> Result<u32, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn open(this: &Files, name: &str, write: bool) -> Result<u32, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn rename(this: &Files, from: &str, to: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn remove(this: &Files, name: &str) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch, js_name = flushNames)]
    fn flush_names(this: &Files) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn read(this: &Files, file: u32, offset: f64, bytes: &mut [u8]) -> Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn write(this: &Files, file: u32, offset: f64, bytes: &[u8]) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn flush(this: &Files, file: u32) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn truncate(this: &Files, file: u32, bytes: f64) -> Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn size(this: &Files, file: u32) -> Result<f64, JsValue>;
    /// The file isn't used any more.
    #[wasm_bindgen(method)]
    fn close(this: &Files, file: u32);
    /// Whoever had it open doesn't any more: what is still open of it is closed. Never throws.
    #[wasm_bindgen(method)]
    fn unlock(this: &Files);
}

/// What the paths of mounted folders begin with.
const PREFIX: &str = "mounted:";

thread_local! {
    /// By number; `None` once nobody uses it. A number isn't given again: a file that is still open of a folder that is gone
    /// would be one of another's.
    static MOUNTED: RefCell<Vec<Option<Files>>> = const { RefCell::new(Vec::new()) };
}

/// Puts a folder into the table, and gives its path.
pub(crate) fn mount(files: Files) -> String {
    MOUNTED.with(|table| {
        let mut table = table.borrow_mut();
        table.push(Some(files));
        format!("{PREFIX}{}", table.len() - 1)
    })
}

/// Lets go of a folder that [`mount`] gave a path to, if it is still there.
pub(crate) fn unmount(path: &str) {
    if let Some(folder) = folder_of(path) {
        folder.forget();
    }
}

fn folder_of(path: &str) -> Option<Folder> {
    let folder = path.strip_prefix(PREFIX)?.parse().ok()?;
    let is_there = MOUNTED.with(|table| table.borrow().get(folder).is_some_and(Option::is_some));
    is_there.then_some(Folder(folder))
}

/// The storage of a path that [`mount`] gave.
pub(crate) fn storage(path: &str) -> Result<Arc<dyn Storage>, Failure> {
    let folder = folder_of(path).ok_or_else(|| {
        Failure::invalid(format!(
            "{path:?} names no folder here; open a store in memory, or in the browser's own file system"
        ))
    })?;
    Ok(Arc::new(Mounted(folder)))
}

/// A folder that is in use. With its end others may have the folder.
struct Mounted(Folder);

impl Drop for Mounted {
    fn drop(&mut self) {
        self.0.forget();
    }
}

/// A folder of the table.
#[derive(Clone, Copy)]
struct Folder(usize);

impl Folder {
    fn with<T>(self, work: impl FnOnce(&Files) -> Result<T, JsValue>) -> io::Result<T> {
        MOUNTED.with(|table| {
            let table = table.borrow();
            let files = table
                .get(self.0)
                .and_then(Option::as_ref)
                .ok_or_else(|| io::Error::other("the store was closed"))?;
            work(files).map_err(|thrown| io_error(&thrown))
        })
    }

    /// Lets others have the folder; more than once is the same as once.
    fn unlock(self) {
        // Where the table is gone, so is all that it held.
        let _ = self.with(|files| {
            files.unlock();
            Ok(())
        });
    }

    /// The end of its use.
    fn forget(self) {
        self.unlock();
        let files = MOUNTED.with(|table| table.borrow_mut().get_mut(self.0).and_then(Option::take));
        drop(files);
    }

    fn opened(
        self,
        open: impl FnOnce(&Files) -> Result<u32, JsValue>,
    ) -> io::Result<Arc<dyn File>> {
        let file = self.with(open)?;
        Ok(Arc::new(OpenFile { folder: self, file }))
    }
}

impl Storage for Mounted {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.0.opened(|files| files.create(name))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.0
            .opened(|files| files.open(name, access == Access::Write))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.0.with(Files::list)?;
        Ok(names.iter().filter_map(|name| name.as_string()).collect())
    }

    fn is_whole(&self) -> bool {
        // One that can't say has failed, which the call says that needs it.
        self.0.with(Files::is_whole).unwrap_or(true)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.with(|files| files.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.with(|files| files.remove(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.0.with(Files::flush_names)
    }

    fn create_dir(&self) -> io::Result<()> {
        Ok(())
    }

    /// Whoever mounts a folder that can be written has it for itself already: the lock only tells when it is let go.
    fn lock(&self, _name: &str, _holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        Ok(Box::new(Lock(self.0)))
    }

    fn describe(&self) -> String {
        self.0.with(|files| Ok(files.name())).unwrap_or_default()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        None
    }
}

struct Lock(Folder);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

struct OpenFile {
    folder: Folder,
    file: u32,
}

impl File for OpenFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let wanted = bytes.len();
        let read = self
            .folder
            .with(|files| files.read(self.file, offset as f64, bytes))?;
        if read >= wanted as f64 {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.folder
            .with(|files| files.write(self.file, offset as f64, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.with(|files| files.flush(self.file))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.folder
            .with(|files| files.truncate(self.file, bytes as f64))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "lengths of files are whole numbers below 2^53"
    )]
    fn len(&self) -> io::Result<u64> {
        self.folder
            .with(|files| files.size(self.file))
            .map(|bytes| bytes as u64)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let _ = self.folder.with(|files| {
            files.close(self.file);
            Ok(())
        });
    }
}

/// What JavaScript threw, as an error of files: its name says which one.
fn io_error(thrown: &JsValue) -> io::Error {
    let name = Reflect::get(thrown, &JsValue::from("name"))
        .ok()
        .and_then(|name| name.as_string())
        .unwrap_or_default();
    let kind = match name.as_str() {
        "NotFoundError" => io::ErrorKind::NotFound,
        "QuotaExceededError" => io::ErrorKind::StorageFull,
        "NoModificationAllowedError" => io::ErrorKind::ReadOnlyFilesystem,
        // The user took back, or never gave, the page's access to a file.
        "NotAllowedError" | "SecurityError" => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    let message = thrown
        .dyn_ref::<Error>()
        .map(|error| String::from(error.message()));
    io::Error::new(
        kind,
        message
            .filter(|message| !message.is_empty())
            .unwrap_or(name),
    )
}
