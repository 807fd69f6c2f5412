//! [`CallStack`]: the nodes of a request's call stack, which is a tree if assistants are called concurrently.

use std::collections::HashMap;

use runlog_model::{Step, limits::STACK_DEPTH_MAX};

use super::store::{already_exists, not_found};
use crate::{Error, Result};

/// One call of an assistant.
#[derive(Clone, Debug)]
pub(super) struct StackNode {
    pub(super) stack_id: String,
    pub(super) assistant_id: String,
    pub(super) parent_id: Option<String>,
    pub(super) depth: u32,
    /// The caller's step that waits for it.
    pub(super) delegate_step_id: Option<String>,
}

impl StackNode {
    /// The node of the assistant that a request is for.
    pub(super) fn root(stack_id: String, assistant_id: String) -> Self {
        Self {
            stack_id,
            assistant_id,
            parent_id: None,
            depth: 0,
            delegate_step_id: None,
        }
    }

    /// The node of a step.
    fn of(step: &Step) -> Self {
        Self {
            stack_id: step.stack_id.clone(),
            assistant_id: step.assistant_id.clone(),
            parent_id: step.stack_parent_id.clone(),
            depth: step.stack_depth,
            delegate_step_id: step.delegate_step_id.clone(),
        }
    }
}

/// The nodes of a request, and the current one. Invariant: the parent of each node except the root is a node.
pub(super) struct CallStack {
    nodes: HashMap<String, StackNode>,
    current: String,
}

impl CallStack {
    /// The stack of a new request.
    pub(super) fn new(root: StackNode) -> Self {
        Self {
            current: root.stack_id.clone(),
            nodes: HashMap::from([(root.stack_id.clone(), root)]),
        }
    }

    /// The stack of a resumed request: the path to the current node, and the other nodes of its steps.
    pub(super) fn resumed<'a>(path: Vec<StackNode>, steps: impl Iterator<Item = &'a Step>) -> Self {
        let current = path.last().map(|node| node.stack_id.clone());
        let of_steps = steps.map(StackNode::of);
        let mut nodes: HashMap<_, _> = of_steps.map(|node| (node.stack_id.clone(), node)).collect();
        nodes.extend(path.into_iter().map(|node| (node.stack_id.clone(), node)));
        let is_whole = |node: &StackNode, nodes: &HashMap<String, StackNode>| {
            let parent = node.parent_id.as_ref();
            parent.is_none_or(|parent| nodes.contains_key(parent))
        };
        while let Some(lost) = nodes.values().find(|node| !is_whole(node, &nodes)) {
            let lost = lost.stack_id.clone();
            nodes.remove(&lost);
        }
        Self {
            nodes,
            current: current.unwrap_or_default(),
        }
    }

    /// The current node.
    pub(super) fn top(&self) -> &StackNode {
        self.nodes
            .get(&self.current)
            .expect("the node at work never leaves the stack")
    }

    pub(super) fn node(&self, stack_id: &str) -> Result<&StackNode> {
        self.nodes
            .get(stack_id)
            .ok_or_else(|| not_found("node of the request's call stack", stack_id))
    }

    /// Whether this delegate step waits for a node already.
    pub(super) fn has_delegate(&self, step_id: &str) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.delegate_step_id.as_deref() == Some(step_id))
    }

    /// Adds a node below another. Calling a node again from the same caller replaces it.
    pub(super) fn call(
        &mut self,
        from: &str,
        assistant_id: String,
        stack_id: String,
        delegate_step_id: Option<String>,
    ) -> Result<()> {
        if assistant_id.is_empty() || stack_id.is_empty() {
            return Err(Error::invalid(
                "an assistant is called by its id, in a node with an id: neither may be empty",
            ));
        }
        let depth = self.node(from)?.depth + 1;
        if depth as usize >= STACK_DEPTH_MAX {
            return Err(Error::too_large(format!(
                "assistants call each other at most {STACK_DEPTH_MAX} deep"
            )));
        }
        let called_before = self.nodes.get(&stack_id);
        if called_before.is_some_and(|node| {
            node.parent_id.as_deref() != Some(from) || node.assistant_id != assistant_id
        }) {
            return Err(already_exists(
                "node of the call stack",
                &stack_id,
                "each call has an id of its own",
            ));
        }
        let node = StackNode {
            stack_id: stack_id.clone(),
            assistant_id,
            parent_id: Some(from.to_owned()),
            depth,
            delegate_step_id,
        };
        self.nodes.insert(stack_id, node);
        Ok(())
    }

    /// Makes a node the current one.
    pub(super) fn go_to(&mut self, stack_id: &str) -> Result<()> {
        self.current = self.node(stack_id)?.stack_id.clone();
        Ok(())
    }

    /// Makes the caller of the current node the current one.
    pub(super) fn leave(&mut self) -> Result<()> {
        let Some(caller) = self.top().parent_id.clone() else {
            return Err(Error::invalid(
                "the root assistant has no caller to return to; end the request instead",
            ));
        };
        self.go_to(&caller)
    }
}
