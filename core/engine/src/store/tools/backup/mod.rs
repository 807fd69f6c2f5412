//! A consistent copy of a store that is in use: what is published when it begins, segment by segment.
//!
//! A sealed segment never changes, so that a copy of it is made once; of the active one the records are copied that are
//! published. Whatever cuts a backup off, what is there is a store that ends earlier, because it goes through the states
//! that a writer's crash leaves: a segment's records come first, under another name until they are whole; then the next
//! segment, empty; and only then what seals the one before.
//!
//! What is read to be copied is checked too. Damage of the store doesn't end the backup, since what else there is is worth
//! having, but for where it would take the place of what may be whole: it is the error when the rest was copied.

mod check;
mod copy;
mod place;
mod source;

pub(crate) use copy::backup;
