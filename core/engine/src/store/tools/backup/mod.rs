//! A consistent copy of a store in use: everything published when it starts, segment by segment.
//!
//! A sealed segment never changes, so it is copied once; of the active one the published records are copied. If a
//! backup is interrupted, the copy is a valid store that ends earlier, because it only passes through states that a
//! writer's crash may leave: first a segment's records, under a temporary name until they are complete; then the next
//! segment, empty; and only then the seal of the previous one.
//!
//! The bytes are verified while they are copied. Damage of the store doesn't end the backup, because the other segments
//! are worth copying, except where it would overwrite a copy that may be whole: it is returned as the error once the
//! rest was copied.

mod check;
mod copy;
mod place;
mod source;

pub(crate) use copy::backup;
