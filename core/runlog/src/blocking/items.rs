//! [`items`]: what all pages of a list have, as an iterator.

use crate::{
    Result,
    pages::{Page, Pages},
};

/// All items of a list that comes in pages, one after the other; one page of them is held in memory. `list` reads a page: the first one
/// for `None`, else the one at a cursor. Ends after an error.
///
/// ```
/// use runlog::{
///     NewSession,
///     blocking::{Store, items},
///     sessions::ListSessions,
/// };
///
/// let store = Store::in_memory();
/// for number in 0..120 {
///     store.create_session(NewSession::titled(&number.to_string()))?;
/// }
/// let all = items(|cursor| store.list_sessions(&ListSessions { cursor, ..ListSessions::default() }));
/// let titles = all.map(|session| Ok(session?.title)).collect::<runlog::Result<Vec<_>>>()?;
/// assert_eq!((titles.len(), titles[119].as_deref()), (120, Some("0")));
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn items<T, F>(list: F) -> Items<T, F>
where
    F: FnMut(Option<String>) -> Result<Page<T>>,
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

impl<T, F> Iterator for Items<T, F>
where
    F: FnMut(Option<String>) -> Result<Page<T>>,
{
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.pages.page.next() {
                return Some(Ok(item));
            }
            match (self.list)(self.pages.next.clone()?) {
                Ok(page) => self.pages.turn(Some(page)),
                Err(error) => {
                    self.pages.turn(None);
                    return Some(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn empty_pages_are_passed_and_an_error_ends_it() {
        let list = |cursor: Option<String>| match cursor.as_deref() {
            None => Ok(page(&[1], Some("a"))),
            Some("a") => Ok(page(&[], Some("b"))),
            Some("b") => Ok(page(&[2, 3], Some("c"))),
            _ => Err(Error::invalid("no such page")),
        };
        let mut all = items(list);
        let read: Vec<_> = all.by_ref().take(3).collect();
        assert_eq!(read, [Ok(1), Ok(2), Ok(3)]);
        assert!(all.next().is_some_and(|last| last.is_err()));
        assert_eq!((all.next(), all.next()), (None, None));
    }

    fn page(items: &[u32], next: Option<&str>) -> Page<u32> {
        Page {
            items: items.to_vec(),
            next: next.map(str::to_owned),
        }
    }
}
