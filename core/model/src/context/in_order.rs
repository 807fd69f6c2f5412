//! [`InOrder`]: things with ids in the order they came, of which one is found and taken out by its id however many there are.

use std::collections::{HashMap, VecDeque};

/// Things in the order they came, by the id that each has, or none. Several may have one id.
///
/// A context may have tens of thousands of calls that wait for their results: looked for one by one, each would cost all of them.
#[derive(Clone, Debug)]
pub struct InOrder<T> {
    /// By their numbers, with their ids; nothing in the place of what was taken out. Begun anew when all are.
    items: Vec<Option<(Option<String>, T)>>,
    /// All before it were taken out.
    first: usize,
    count: usize,
    numbers: HashMap<Option<String>, VecDeque<usize>>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            first: 0,
            count: 0,
            numbers: HashMap::new(),
        }
    }
}

impl<T> InOrder<T> {
    /// Adds one behind all others.
    pub fn push(&mut self, id: Option<String>, item: T) {
        let numbers = self.numbers.entry(id.clone()).or_default();
        numbers.push_back(self.items.len());
        self.items.push(Some((id, item)));
        self.count += 1;
    }

    /// Takes one out.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let (id, item) = self.items.get_mut(number)?.take()?;
        self.count -= 1;
        if self.count == 0 {
            self.clear();
            return Some(item);
        }
        if let Some(numbers) = self.numbers.get_mut(&id) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.numbers.remove(&id);
            }
        }
        let is_gone = |item: &Option<_>| Option::is_none(item);
        while self.items.get(self.first).is_some_and(is_gone) {
            self.first += 1;
        }
        Some(item)
    }

    /// Those with an id, or with none, in order, by their numbers.
    pub fn with_id(&self, id: &Option<String>) -> impl Iterator<Item = (usize, &T)> {
        let numbers = self.numbers.get(id).into_iter().flatten();
        numbers.filter_map(|number| {
            let (_, item) = self.items.get(*number)?.as_ref()?;
            Some((*number, item))
        })
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        let item = self.items.get_mut(number)?.as_mut();
        item.map(|(_, item)| item)
    }

    /// The first of all.
    pub fn first(&self) -> Option<(usize, &T)> {
        let (_, item) = self.items.get(self.first)?.as_ref()?;
        Some((self.first, item))
    }

    /// All of them in order, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&Option<String>, &T)> {
        let items = self.items.get(self.first..).unwrap_or_default();
        items.iter().flatten().map(|(id, item)| (id, item))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of them in order.
    pub fn into_items(self) -> Vec<T> {
        let items = self.items.into_iter().flatten();
        items.map(|(_, item)| item).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_found_by_its_id_the_first_first() {
        let mut open = InOrder::default();
        for (id, item) in [(Some("a"), 1), (None, 2), (Some("a"), 3), (Some("b"), 4)] {
            open.push(id.map(str::to_owned), item);
        }
        let a = Some("a".to_owned());
        let found: Vec<_> = open.with_id(&a).collect();
        assert_eq!(found, [(0, &1), (2, &3)]);
        assert_eq!((open.remove(0), open.remove(0)), (Some(1), None));
        assert_eq!(open.with_id(&a).next(), Some((2, &3)));
        assert_eq!(open.first(), Some((1, &2)));
        *open.get_mut(2).unwrap() = 5;
        assert_eq!(open.with_id(&Some("c".to_owned())).next(), None);
        assert_eq!((open.iter().count(), open.len()), (3, 3));
        assert_eq!(open.clone().into_items(), [2, 5, 4]);
        assert_eq!(
            [1, 2, 3].map(|number| open.remove(number)),
            [Some(2), Some(5), Some(4)]
        );
        assert!(open.is_empty() && open.first().is_none());
        open.push(None, 6);
        assert_eq!(open.first(), Some((0, &6)));
        open.clear();
        assert!(open.is_empty() && open.with_id(&None).next().is_none());
    }
}
