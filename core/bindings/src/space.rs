//! The calls of a space: a request's own, or one that a tree of runs shares.

use runlog::{RawJson, agents::SharedSpace, chats::Space};

use crate::{Failure, Result, answers::known, calls::calls};

/// The methods of both kinds.
pub(crate) trait AnySpace {
    fn get(&self, key: &str) -> Option<RawJson>;
    fn set(&mut self, key: String, value: RawJson) -> Result<()>;
    fn get_and_delete(&mut self, key: &str) -> Option<RawJson>;
    fn keys(&self) -> Vec<String>;
    fn snapshot(&self) -> RawJson;
    fn restore(&mut self, snapshot: &RawJson) -> Result<()>;
}

impl AnySpace for Space {
    fn get(&self, key: &str) -> Option<RawJson> {
        Self::get(self, key).cloned()
    }

    fn set(&mut self, key: String, value: RawJson) -> Result<()> {
        Self::set(self, key, value);
        Ok(())
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

    fn set(&mut self, key: String, value: RawJson) -> Result<()> {
        Self::set(self, key, value)?;
        Ok(())
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

calls! {
    (of: &mut dyn AnySpace, _scope, input) {}

    spaceGet { key: String } -> Option<RawJson> => known(Ok::<_, Failure>(of.get(&key)));
    spaceSet { key: String, value: RawJson } -> () => known(of.set(key, value));
    spaceGetAndDelete { key: String } -> Option<RawJson> =>
        known(Ok::<_, Failure>(of.get_and_delete(&key)));
    spaceSnapshot {} -> RawJson => known(Ok::<_, Failure>(of.snapshot()));
    spaceRestore {} -> () => known(of.restore(&input.json()?));
    spaceKeys {} -> Vec<String> => known(Ok::<_, Failure>(of.keys()));
}
