//! The store as a whole.

use runlog::{Store, log::Stat};

use crate::serve::{
    endpoint::{Endpoint, NoPath, NoQuery, get},
    problem::Answer,
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![get(
        "/v1/store",
        "Says how large the store is and what is in it.",
        stat,
    )]
}

async fn stat(store: Store, _: NoPath, _: NoQuery) -> Answer<Stat> {
    Ok(store.backend().maintenance().stat().await?)
}
