//! Lists in pages: one [`Page`] of them, and the [`items`] of all.

use std::vec;

pub use runlog_model::Page;

use crate::Result;

/// All items of a list that comes in pages, one after the other; one page of them is held in memory. `list` reads a page: the first one
/// for `None`, else the one at a cursor. [`blocking::items`](crate::blocking::items) is the same for callers that wait.
///
/// ```
/// use runlog::{NewRun, NewSession, Store, pages::items, runs::ListRuns};
///
/// # pollster::block_on(async {
/// let runs = Store::in_memory().runs();
/// for _ in 0..120 {
///     runs.start(NewRun::in_new_session(NewSession::default(), "coder")).await?;
/// }
/// let mut all = items(async |cursor| runs.list(&ListRuns { cursor, ..ListRuns::default() }).await);
/// let mut count = 0;
/// while let Some(run) = all.next().await? {
///     assert_eq!(run.agent_name, "coder");
///     count += 1;
/// }
/// assert_eq!(count, 120);
/// # Ok::<(), runlog::Error>(())
/// # }).unwrap();
/// ```
pub fn items<T, F>(list: F) -> Items<T, F>
where
    F: AsyncFnMut(Option<String>) -> Result<Page<T>>,
{
    Items {
        list,
        pages: Pages::new(),
    }
}

/// The items of all pages of a list.
#[derive(Debug)]
pub struct Items<T, F> {
    list: F,
    pages: Pages<T>,
}

impl<T, F> Items<T, F>
where
    F: AsyncFnMut(Option<String>) -> Result<Page<T>>,
{
    /// The next item; `None` after the last.
    ///
    /// # Errors
    /// Those of the list. A call after one reads the same page again.
    pub async fn next(&mut self) -> Result<Option<T>> {
        loop {
            if let Some(item) = self.pages.page.next() {
                return Ok(Some(item));
            }
            let Some(cursor) = self.pages.next.clone() else {
                return Ok(None);
            };
            self.pages.turn(Some((self.list)(cursor).await?));
        }
    }
}

/// A page, and the cursor of the one behind it.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    pub(crate) page: vec::IntoIter<T>,
    /// `Some(None)` before the first page, `None` after the last.
    pub(crate) next: Option<Option<String>>,
}

impl<T> Pages<T> {
    pub(crate) fn new() -> Self {
        Self {
            page: Vec::new().into_iter(),
            next: Some(None),
        }
    }

    /// Goes on with a page; without one to its end.
    pub(crate) fn turn(&mut self, page: Option<Page<T>>) {
        let (items, next) = page.map_or((Vec::new(), None), |page| (page.items, page.next));
        (self.page, self.next) = (items.into_iter(), next.map(Some));
    }
}
