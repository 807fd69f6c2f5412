//! Pages whose size is bounded: by their number of items, and by the bytes of these.

use runlog::{
    chats::{ListMessages, ListSteps},
    pages::Page,
    runs::{ListRunMessages, ListToolCalls},
};

use crate::serve::problem::Answer;

/// A page ends once it has this many bytes of content; it may have fewer items than requested.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// How many items are read at a time, each of which may be large.
const READ_AT_ONCE: usize = 32;

/// Options that request a page of a list.
pub(super) trait AsksForPage: Sized {
    /// The requested number of items.
    fn limit(&self) -> usize;
    /// Where the page begins.
    fn cursor(&self) -> Option<String>;
    /// The same for another page.
    fn at(&self, limit: usize, cursor: Option<String>) -> Self;
}

macro_rules! asks_for_page {
    ($($options:ty),+) => {$(
        impl AsksForPage for $options {
            fn limit(&self) -> usize {
                self.limit
            }

            fn cursor(&self) -> Option<String> {
                self.cursor.clone()
            }

            fn at(&self, limit: usize, cursor: Option<String>) -> Self {
                Self { limit, cursor, ..self.clone() }
            }
        }
    )+};
}

asks_for_page!(ListRunMessages, ListToolCalls, ListMessages, ListSteps);

/// The requested page, which also ends after about [`PAGE_BYTES_MAX`], of a list without a limit of bytes: `list`
/// returns a page of it, `bytes` the size of an item.
pub(super) async fn bounded<O: AsksForPage, T>(
    options: &O,
    list: impl AsyncFn(O) -> runlog::Result<Page<T>>,
    bytes: impl Fn(&T) -> usize,
) -> Answer<Page<T>> {
    let limit = options.limit();
    let mut page = list(options.at(limit.min(READ_AT_ONCE), options.cursor())).await?;
    let mut total: usize = page.items.iter().map(&bytes).sum();
    while page.items.len() < limit && total < PAGE_BYTES_MAX {
        let Some(cursor) = page.next.take() else {
            break;
        };
        let rest = (limit - page.items.len()).min(READ_AT_ONCE);
        let more = list(options.at(rest, Some(cursor))).await?;
        total = total.saturating_add(more.items.iter().map(&bytes).sum());
        page.items.extend(more.items);
        page.next = more.next;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn numbers(count: usize, limit: usize, cursor: Option<String>) -> Page<usize> {
        let first: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        let end = (first + limit).min(count);
        Page {
            items: (first..end).collect(),
            next: (end < count).then(|| end.to_string()),
        }
    }

    #[test]
    fn a_page_has_what_its_limit_and_its_bytes_allow_and_goes_on_without_a_gap() {
        let walk = |limit: usize, size: usize| {
            let (mut found, mut pages, mut cursor) = (Vec::new(), 0, None);
            loop {
                let list =
                    async |asked: ListSteps| Ok(numbers(100, asked.limit, asked.cursor).await);
                let asked = ListSteps::default().at(limit, cursor);
                let page = pollster::block_on(bounded(&asked, list, |_| size)).unwrap();
                assert!(!page.items.is_empty() && page.items.len() <= limit);
                found.extend(page.items);
                pages += 1;
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, (0..100).collect::<Vec<_>>());
            pages
        };
        assert_eq!(walk(1_000, 1), 1);
        assert_eq!(walk(50, 1), 2);
        assert_eq!(walk(7, 1), 15);
        assert_eq!(
            walk(1_000, PAGE_BYTES_MAX),
            4,
            "each has what is read at once"
        );
    }
}
