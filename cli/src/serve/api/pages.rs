//! Pages whose size is bounded: by their number of items, and by the bytes of these.

use runlog::Page;

use crate::serve::problem::Answer;

/// A page ends once it has so many bytes of content: it may have fewer items than were asked for.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;

/// How many items are read at a time, each of which may be large.
const READ_AT_ONCE: usize = 32;

/// A page of at most `limit` items, and about [`PAGE_BYTES_MAX`], from a list that knows no bound of bytes: `list` gives the
/// page of a limit at a cursor, `bytes` says how large an item is.
pub(super) async fn bounded<T>(
    limit: usize,
    cursor: Option<String>,
    list: impl AsyncFn(usize, Option<String>) -> runlog::Result<Page<T>>,
    bytes: impl Fn(&T) -> usize,
) -> Answer<Page<T>> {
    let mut page = list(limit.min(READ_AT_ONCE), cursor).await?;
    let mut total: usize = page.items.iter().map(&bytes).sum();
    while page.items.len() < limit && total < PAGE_BYTES_MAX {
        let Some(cursor) = page.next.take() else {
            break;
        };
        let rest = (limit - page.items.len()).min(READ_AT_ONCE);
        let more = list(rest, Some(cursor)).await?;
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
                let list = async |limit, cursor| Ok(numbers(100, limit, cursor).await);
                let page = pollster::block_on(bounded(limit, cursor, list, |_| size)).unwrap();
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
