//! [`Object`]: an object with a handle; [`Objects`]: those of one JavaScript thread.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use runlog::Store;

use crate::{
    Failure, Host, Result, arguments::Input, remote::Remote, tasks::Answer, watched::UnderWay,
};

/// An object with a handle. Each class has its own file.
pub(crate) trait Object {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// Answers a call; `None` for a method that it doesn't have.
    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>>;

    /// The store that it appends to; only a store has one.
    fn store(&self) -> Result<Store> {
        Err(Failure::invalid(format!(
            "{} has no streams to append to",
            self.name()
        )))
    }
}

/// The environment of calls.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) host: Host,
    pub(crate) objects: Rc<Objects>,
    pub(crate) remote: Arc<Remote>,
    /// The pending writes of this thread's stores.
    pub(crate) under_way: UnderWay,
}

/// The objects of one JavaScript thread. Handles are never reused.
#[derive(Default)]
pub(crate) struct Objects {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    last: u32,
    held: HashMap<u32, Rc<dyn Object>>,
}

impl Objects {
    pub(crate) fn add(&self, object: Rc<dyn Object>) -> Result<u32> {
        let mut state = self.state.borrow_mut();
        let handle = state
            .last
            .checked_add(1)
            .ok_or_else(|| Failure::invalid("this thread has used up its handles"))?;
        state.last = handle;
        state.held.insert(handle, object);
        Ok(handle)
    }

    pub(crate) fn get(&self, handle: u32) -> Option<Rc<dyn Object>> {
        self.state.borrow().held.get(&handle).cloned()
    }

    pub(crate) fn remove(&self, handle: u32) -> Option<Rc<dyn Object>> {
        self.state.borrow_mut().held.remove(&handle)
    }
}
