//! [`List`]: runs linked from the newest to the oldest; [`Names`]: the lists of the runs of agents and projects.

use crate::table::Interned;

/// No place: the end of a linked list.
pub(super) const NONE: u32 = u32::MAX;

/// A list of runs, linked from its newest to its oldest.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) newest: u32,
    pub(super) count: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            newest: NONE,
            count: 0,
        }
    }
}

impl List {
    /// Adds a newer run, and returns the previous newest one.
    pub(super) fn push(&mut self, place: u32) -> u32 {
        self.count += 1;
        std::mem::replace(&mut self.newest, place)
    }
}

/// Names, each kept once, with the list of its runs.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Interned,
    lists: Vec<List>,
}

impl Names {
    /// The number of a name, which is added if it is new.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        let number = self.names.number(name);
        let number = number.expect("there are fewer names than runs");
        if number as usize == self.lists.len() {
            self.lists.push(List::default());
        }
        number
    }

    pub(super) fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number)
    }

    /// The runs of a name.
    pub(super) fn list(&self, name: &str) -> List {
        let number = self.names.find(name);
        let list = number.and_then(|number| self.lists.get(number as usize));
        list.copied().unwrap_or_default()
    }

    /// Adds a newer run of a name, and returns the previous newest one.
    pub(super) fn push(&mut self, number: u32, place: u32) -> u32 {
        let list = self.lists.get_mut(number as usize);
        list.map_or(NONE, |list| list.push(place))
    }
}
