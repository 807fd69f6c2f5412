//! The store as a whole.

use runlog::{SessionId, Store, log::Stat};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    search::{Found, Search},
    serve::{
        endpoint::{Endpoint, NoPath, NoQuery, get},
        problem::{Answer, Problem},
    },
};

/// How many parts of the log, of about 4 MiB of contents each, a page of a search examines at most.
const SEARCH_PARTS_MAX: usize = 16;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/v1/store",
            "Says how large the store is and what is in it.",
            stat,
        ),
        get(
            "/v1/search",
            "Finds a text in everything that is recorded, in the order of the log, in pages. A page examines about 64 MiB: it may \
             be empty although others follow, which its `next` says.",
            search,
        )
        .example_query("text=weather&limit=10"),
    ]
}

/// What to search for, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SearchOptions {
    /// The text, found in any case, also where JSON has it with backslashes.
    text: String,
    /// Only in what is of this session.
    #[serde(default)]
    session_id: Option<SessionId>,
    /// At most so many.
    #[serde(default = "usual_limit")]
    limit: usize,
    /// The `next` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

const fn usual_limit() -> usize {
    50
}

async fn search(store: Store, _: NoPath, options: SearchOptions) -> Answer<Found> {
    if options.limit == 0 {
        let detail = "a page of 0 records finds nothing; give a `limit` of 1 or more";
        return Err(Problem::invalid(detail));
    }
    let search = Search {
        text: &options.text,
        session: options.session_id,
        limit: options.limit,
        cursor: options.cursor.as_deref(),
        parts_max: SEARCH_PARTS_MAX,
    };
    Ok(search.page(&store).await?)
}

async fn stat(store: Store, _: NoPath, _: NoQuery) -> Answer<Stat> {
    Ok(store.backend().maintenance().stat().await?)
}
