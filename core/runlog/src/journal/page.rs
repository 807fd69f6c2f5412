//! The check of a page's limit.

use crate::{Error, Result};

pub(crate) fn check_limit(limit: usize) -> Result<()> {
    match limit {
        0 => Err(Error::invalid(
            "a page of 0 lists nothing; give a limit of at least 1",
        )),
        _ => Ok(()),
    }
}
