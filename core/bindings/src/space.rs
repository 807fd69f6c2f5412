//! What is asked of a space: a request's own, or one that a tree of runs shares.

use runlog::{RawJson, agents::SharedSpace, chats::Space};
use serde::Deserialize;

use crate::{Reply, Result, arguments::Input};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValue {
    key: String,
    value: RawJson,
}

/// What both kinds have.
pub(crate) trait AnySpace {
    fn get(&self, key: &str) -> Option<RawJson>;
    fn set(&mut self, key: String, value: RawJson);
    fn get_and_delete(&mut self, key: &str) -> Option<RawJson>;
    fn keys(&self) -> Vec<String>;
    fn snapshot(&self) -> RawJson;
    fn restore(&mut self, snapshot: &RawJson) -> Result<()>;
}

impl AnySpace for Space {
    fn get(&self, key: &str) -> Option<RawJson> {
        Self::get(self, key).cloned()
    }

    fn set(&mut self, key: String, value: RawJson) {
        Self::set(self, key, value);
    }

    fn get_and_delete(&mut self, key: &str) -> Option<RawJson> {
        Self::get_and_delete(self, key)
    }

    fn keys(&self) -> Vec<String> {
        Self::keys(self).map(str::to_owned).collect()
    }

    fn snapshot(&self) -> RawJson {
        Self::snapshot(self)
    }

    fn restore(&mut self, snapshot: &RawJson) -> Result<()> {
        Ok(Self::restore(self, snapshot)?)
    }
}

impl AnySpace for SharedSpace {
    fn get(&self, key: &str) -> Option<RawJson> {
        Self::get(self, key)
    }

    fn set(&mut self, key: String, value: RawJson) {
        Self::set(self, key, value);
    }

    fn get_and_delete(&mut self, key: &str) -> Option<RawJson> {
        Self::get_and_delete(self, key)
    }

    fn keys(&self) -> Vec<String> {
        Self::keys(self)
    }

    fn snapshot(&self) -> RawJson {
        Self::snapshot(self)
    }

    fn restore(&mut self, snapshot: &RawJson) -> Result<()> {
        Ok(Self::restore(self, snapshot)?)
    }
}

/// Answers a call about a space; `None` when it is about something else.
pub(crate) fn call(space: &mut impl AnySpace, input: Input<'_>) -> Result<Option<Reply>> {
    Ok(Some(match input.method {
        "spaceGet" => {
            let Key { key } = input.read()?;
            Reply::json(&space.get(&key))?
        }
        "spaceSet" => {
            let KeyValue { key, value } = input.read()?;
            space.set(key, value);
            Reply::DONE
        }
        "spaceGetAndDelete" => {
            let Key { key } = input.read()?;
            Reply::json(&space.get_and_delete(&key))?
        }
        "spaceSnapshot" => Reply::json(&space.snapshot())?,
        "spaceRestore" => {
            space.restore(&input.json()?)?;
            Reply::DONE
        }
        "spaceKeys" => Reply::json(&space.keys())?,
        _ => return Ok(None),
    }))
}
