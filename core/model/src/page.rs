//! [`Page`]: one page of a list.

use serde::{Deserialize, Serialize};

/// One page of a list, and where the next begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Page_for_{T}"))]
pub struct Page<T, Next = String> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` when this is the last. It stays valid while more is recorded, for the same
    /// list with the same filters only.
    pub next: Option<Next>,
}

impl<T, Next> Page<T, Next> {
    /// The only page of a list.
    pub fn only(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// The same page, with something else for each item.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U, Next> {
        Page {
            items: self.items.into_iter().map(each).collect(),
            next: self.next,
        }
    }
}
