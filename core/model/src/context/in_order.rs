//! [`InOrder`]: things with ids in the order they came, of which one is found and taken out by its id however many there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Things in the order they came, by the id that each has, or none. Several may have one id.
///
/// A context may have tens of thousands of calls that wait for their results: looked for one by one, each would cost all of them.
#[derive(Clone, Debug)]
pub struct InOrder<T> {
    /// By a number that rises with each, with its id.
    items: BTreeMap<u64, (Option<String>, T)>,
    numbers: HashMap<Option<String>, BTreeSet<u64>>,
    next: u64,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            numbers: HashMap::new(),
            next: 0,
        }
    }
}

impl<T> InOrder<T> {
    /// Adds one behind all others.
    pub fn push(&mut self, id: Option<String>, item: T) {
        let number = self.next;
        self.next += 1;
        self.numbers.entry(id.clone()).or_default().insert(number);
        self.items.insert(number, (id, item));
    }

    /// Takes one out.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (id, item) = self.items.remove(&number)?;
        if let Some(numbers) = self.numbers.get_mut(&id) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.numbers.remove(&id);
            }
        }
        Some(item)
    }

    /// Those with an id, or with none, in order, by their numbers.
    pub fn with_id(&self, id: &Option<String>) -> impl Iterator<Item = (u64, &T)> {
        let numbers = self.numbers.get(id).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, &self.items.get(number)?.1)))
    }

    /// One of them, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.items.get_mut(&number).map(|(_, item)| item)
    }

    /// The first of all.
    pub fn first(&self) -> Option<(u64, &T)> {
        let (number, (_, item)) = self.items.first_key_value()?;
        Some((*number, item))
    }

    /// All of them in order, with their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Option<String>, &T)> {
        self.items.values().map(|(id, item)| (id, item))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.items.clear();
        self.numbers.clear();
    }

    /// All of them in order.
    pub fn into_items(self) -> Vec<T> {
        self.items.into_values().map(|(_, item)| item).collect()
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
        assert_eq!(open.iter().len(), 3);
        assert_eq!(open.clone().into_items(), [2, 5, 4]);
        open.clear();
        assert!(open.is_empty() && open.with_id(&None).next().is_none());
    }
}
