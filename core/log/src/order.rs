//! [`sort_by`] and [`sort_by_key`]: sorting, of little code in WebAssembly.
//!
//! The standard library's sorts are compiled for each type and each order, 4 KB at a time; a module that browsers download
//! has one of them, over places. Elsewhere they are the standard library's own.

use std::cmp::Ordering;

/// Sorts; what is equal stays in order.
///
/// ```
/// let mut words = ["bb", "a", "aa", "b"];
/// runlog_log::order::sort_by(&mut words, |one, other| one.len().cmp(&other.len()));
/// assert_eq!(words, ["a", "b", "bb", "aa"]);
/// ```
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    if cfg!(target_family = "wasm") {
        let order = order_of(items.len(), &mut |one, other| {
            compare(&items[one], &items[other])
        });
        arrange(order, |one, other| items.swap(one, other));
    } else {
        items.sort_by(compare);
    }
}

/// Sorts by a key; what has the same key stays in order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts by the type's own order; what is equal in it is taken for the same.
pub fn sort<T: Ord>(items: &mut [T]) {
    if cfg!(target_family = "wasm") {
        sort_by(items, Ord::cmp);
    } else {
        items.sort_unstable();
    }
}

/// The place that each item comes from, once they are sorted.
fn order_of(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Moves to each place the item that is to be there, one cycle after the other.
fn arrange(mut order: Vec<usize>, mut swap: impl FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut place = start;
        loop {
            let from = std::mem::replace(&mut order[place], place);
            if from == start {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_give_the_order_that_the_standard_library_gives() {
        let mut state = 1_u32;
        for count in 0..200 {
            let items: Vec<(u32, usize)> = (0..count)
                .map(|place| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 27, place)
                })
                .collect();
            let mut arranged = items.clone();
            let order = order_of(count, &mut |one, other| items[one].0.cmp(&items[other].0));
            arrange(order, |one, other| arranged.swap(one, other));
            let mut sorted = items;
            sorted.sort_by_key(|item| item.0);
            assert_eq!(arranged, sorted);
        }
    }
}
