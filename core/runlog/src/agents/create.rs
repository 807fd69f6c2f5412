//! [`NewChild`]: a sub-agent to create, with all its records; many of them go into one batch.

use runlog_log::{Expected, Op};
use runlog_model::{
    AgentDefinition, AgentInstance, CatalogEvent, EncodedEvent, EncodedMeta, EventOptions,
    InstanceId, NewContextEvent, NewMessage, Run, RunCatalogEvent, RunEvent, RunId, ToolStyle,
};

use super::SpawnRequest;
use crate::{
    Result,
    backend::Backend,
    kernel::{
        catalog::CATALOG_STREAM,
        records::{append, context_records, context_stream, run_stream},
        runs::RUNS_STREAM,
    },
    runs::fresh_run,
};

/// About how many bytes the records of one child take, without its messages.
const OWN_BYTES: usize = 2 << 10;

/// A sub-agent to create: its instance, its run, and its first messages.
pub(super) struct NewChild {
    pub(super) run: Run,
    instance: EncodedEvent,
    own: EncodedEvent,
    listed: EncodedEvent,
    messages: Vec<NewContextEvent>,
    metas: Vec<EncodedMeta>,
}

impl NewChild {
    /// A child of `parent` for one request, as its agent's definition says.
    pub(super) fn new(
        backend: &dyn Backend,
        parent: &Run,
        definition: &AgentDefinition,
        request: &SpawnRequest,
        style: Option<ToolStyle>,
    ) -> Result<Self> {
        let now_ms = backend.now_ms();
        let instance = AgentInstance {
            id: InstanceId(backend.new_id()),
            session_id: parent.session_id,
            agent_name: definition.name.clone(),
            parent_instance_id: Some(parent.instance_id),
            created_at_ms: now_ms,
        };
        let run = Run {
            project: definition.project.clone(),
            max_steps: request.steps_of(definition),
            parent_run_id: Some(parent.id),
            ..fresh_run(RunId(backend.new_id()), &instance, now_ms)
        };
        let options = EventOptions {
            run_id: Some(run.id),
            step_number: Some(0),
            ..EventOptions::default()
        };
        let mut messages = Vec::new();
        for message in first_messages(definition, &request.task) {
            messages.extend(NewContextEvent::of_message(
                message.to_json_in(style)?,
                &options,
            )?);
        }
        let metas = messages
            .iter()
            .map(|event| event.encode(run.instance_id))
            .collect::<Result<_>>()?;
        Ok(Self {
            instance: CatalogEvent::InstanceCreated(instance).encode()?,
            own: RunEvent::Created(Box::new(run.clone())).encode()?,
            listed: RunCatalogEvent::Created(Box::new(run.to_summary())).encode()?,
            run,
            messages,
            metas,
        })
    }

    /// About how many bytes its records take.
    pub(super) fn bytes(&self) -> usize {
        let messages: usize = self
            .messages
            .iter()
            .map(|message| message.content.as_bytes().len())
            .sum();
        OWN_BYTES + messages
    }
}

/// The first messages of an agent: its system prompt and its task.
pub(super) fn first_messages(definition: &AgentDefinition, task: &str) -> Vec<NewMessage> {
    let prompt = definition.system_prompt.as_deref().map(NewMessage::system);
    prompt.into_iter().chain([NewMessage::user(task)]).collect()
}

/// The ops that create children.
pub(super) fn creation_ops(children: &[NewChild]) -> Vec<Op<'_>> {
    let instances = children
        .iter()
        .map(|child| child.instance.record())
        .collect();
    let mut ops = vec![append(CATALOG_STREAM, instances)];
    for child in children {
        // The creation comes first: the run's messages are those after it.
        let (stream, expected) = (run_stream(child.run.id), Expected::Absent);
        ops.push(Op::Append {
            stream,
            expected,
            records: vec![child.own.record()],
        });
        let (stream, expected) = (context_stream(child.run.instance_id), Expected::Absent);
        ops.push(Op::Append {
            stream,
            expected,
            records: context_records(&child.messages, &child.metas),
        });
    }
    let listed = children.iter().map(|child| child.listed.record()).collect();
    ops.push(append(RUNS_STREAM, listed));
    ops
}
