//! Steps of all chats, found by the labels of their records, without folding whole chats.

use std::collections::{HashMap, VecDeque, hash_map::Entry};

use runlog_log::{Direction, FindOptions, Label, Position, Record, StreamInfo};
use runlog_model::{
    ChatEvent, ChatIdOf, FoldedStep, SessionId, Step, StepStatus, StepType, assistant_steps_label,
    kinds, status_steps_label, type_steps_label,
};

use serde::Deserialize;

use super::lookup::event_of;
use crate::{
    Result, Store,
    kernel::{lookup::live_session, records::chat_stream, shared_fold::SharedFold},
};

/// How many records of a label are read at once.
const RECORDS_TOGETHER: u64 = 64;

/// Which steps to list, of one chat or of all, and how many.
///
/// ```
/// use runlog::{
///     blocking::Store,
///     chats::{Chat, ListSteps, Step, StepStatus, StepType},
/// };
///
/// let chats = Store::in_memory().chats();
/// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
/// let step = Step { chat_id: chat_id.clone(), ..Step::new("req_1", "travel", "stk_1", StepType::Llm) };
/// chats.save_steps(vec![step])?;
/// let pending = ListSteps { status: Some(StepStatus::Pending), limit: 10, ..ListSteps::default() };
/// let page = chats.list_steps(&pending)?;
/// assert_eq!((page.items.len(), page.next), (1, None));
/// let of_chat = ListSteps { chat_id: Some(chat_id), ..pending };
/// assert_eq!(chats.list_steps(&of_chat)?.items, page.items);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListSteps {
    /// Only steps of this chat; `None` is all that aren't deleted.
    pub chat_id: Option<String>,
    /// Only steps of this request; `None` is all.
    pub request_id: Option<String>,
    /// Only steps of this node of the call stack; `None` is all.
    pub stack_id: Option<String>,
    /// Only steps of this assistant; `None` is all.
    pub assistant_id: Option<String>,
    /// Only steps of this type; `None` is all.
    #[serde(rename = "type")]
    pub step_type: Option<StepType>,
    /// Only steps of this status; `None` is all.
    pub status: Option<StepStatus>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListSteps {
    fn default() -> Self {
        Self {
            chat_id: None,
            request_id: None,
            stack_id: None,
            assistant_id: None,
            step_type: None,
            status: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl ListSteps {
    pub(super) fn admits(&self, step: &Step) -> bool {
        self.request_id
            .as_ref()
            .is_none_or(|request| step.request_id == *request)
            && self
                .stack_id
                .as_ref()
                .is_none_or(|stack| step.stack_id == *stack)
            && self
                .assistant_id
                .as_ref()
                .is_none_or(|assistant| step.assistant_id == *assistant)
            && self
                .step_type
                .is_none_or(|step_type| step.step_type == step_type)
            && self.status.is_none_or(|status| step.status == status)
    }

    /// The labels to search for: those of the narrowest filter. A matching step has at least one of them.
    fn labels(&self) -> Vec<Label> {
        let all_types = || StepType::ALL.into_iter().map(type_steps_label).collect();
        let request = self.request_id.as_deref();
        let request = request.map(|id| ChatIdOf::Request.label(id));
        let stack = self.stack_id.as_deref();
        let stack = stack.map(|id| ChatIdOf::Stack.label(id));
        let open = self.status.filter(|it| *it != StepStatus::Completed);
        let one = request
            .or(stack)
            .or(open.map(status_steps_label))
            .or(self.assistant_id.as_deref().map(assistant_steps_label))
            .or(self.step_type.map(type_steps_label))
            .or(self.status.map(status_steps_label));
        one.map_or_else(all_types, |label| vec![label])
    }
}

/// A step, with its place in the list.
pub(super) struct Listed {
    pub(super) position: u64,
    pub(super) step: FoldedStep,
}

/// A chat that has steps of a list.
struct ChatOfSteps {
    is_live: bool,
    /// Its fold, if that is cached.
    whole: Option<SharedFold>,
    /// Otherwise folds with the steps of one request each,
    requests: HashMap<String, SharedFold>,
    /// which are cached since its stream, and the redaction count of the store, were this.
    read_at: Option<(StreamInfo, u64)>,
}

impl ChatOfSteps {
    /// The step that a record saved, as it is now, where the chat's fold has it. A record that saves a step has the labels of what it saves,
    /// so that it isn't decoded again: it is the first that gives the step any of them.
    fn step_saved_by(&self, record: &Record) -> Option<FoldedStep> {
        let is_save = [kinds::STEP_SAVED, kinds::STEP_DIFF_SAVED].contains(&record.kind.0);
        if !is_save || record.redacted {
            return None;
        }
        let fold = self.whole.as_ref()?.read();
        fold.step_saved_at(record.position.0).cloned()
    }
}

impl Store {
    /// Steps of chats that aren't deleted, after a position: each at the position where it first matched. One more than
    /// the limit if there are more.
    pub(super) async fn steps_found(&self, options: &ListSteps, after: u64) -> Result<Vec<Listed>> {
        let labels = options.labels();
        let mut reader = LabelledReader::new(&labels, Position(after.saturating_add(1)));
        let mut chats: HashMap<SessionId, ChatOfSteps> = HashMap::new();
        let mut found: Vec<Listed> = Vec::new();
        while found.len() <= options.limit {
            let Some(record) = reader.next(self).await? else {
                break;
            };
            let session = SessionId(record.stream.0);
            let chat = match chats.entry(session) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(self.chat_of_steps(session).await?),
            };
            if !chat.is_live {
                continue;
            }
            let step = match chat.step_saved_by(&record) {
                Some(step) => Some(step),
                None => self.step_listed_at(&record, &labels, chat).await?,
            };
            if let Some(step) = step.filter(|step| options.admits(step)) {
                let position = record.position.0;
                found.push(Listed { position, step });
            }
        }
        Ok(found)
    }

    async fn chat_of_steps(&self, session: SessionId) -> Result<ChatOfSteps> {
        let is_live = self
            .shared
            .catalog
            .read(|catalog| live_session(catalog, session).is_ok())
            .await?;
        let whole = match is_live {
            true => self.kept_chat_fold(session).await?,
            false => None,
        };
        let redactions = self.backend().redactions();
        let info = match is_live && whole.is_none() {
            true => self.backend().stream(chat_stream(session)).await?,
            false => None,
        };
        Ok(ChatOfSteps {
            is_live,
            whole,
            requests: HashMap::new(),
            read_at: info.map(|info| (info, redactions)),
        })
    }

    /// The step, as it is now, if a record is the first one that gives it one of some labels.
    async fn step_listed_at(
        &self,
        record: &Record,
        labels: &[Label],
        chat: &mut ChatOfSteps,
    ) -> Result<Option<FoldedStep>> {
        let session = SessionId(record.stream.0);
        let Some((step_id, request_id)) = self.listed_at(record, labels).await? else {
            return Ok(None);
        };
        // A fold that was made before the record was written doesn't have its step, which would be left out of the list for good:
        // a step that is listed behind it takes the next page past it.
        let is_behind = |fold: &&SharedFold| fold.read().last_sequence() >= record.sequence.0;
        let fold = match chat.requests.get(&request_id).filter(is_behind) {
            Some(fold) => fold.clone(),
            None => {
                let known = chat
                    .read_at
                    .filter(|(info, _)| record.sequence <= info.last_sequence)
                    .and_then(|at| self.chat_cache().steps.known(session, &request_id, at));
                let fold = match known {
                    Some(fold) => fold,
                    None => {
                        self.steps_fold(session, ChatIdOf::Request, &request_id)
                            .await?
                    }
                };
                chat.requests.insert(request_id, fold.clone());
                fold
            }
        };
        let step = fold.read().step(&step_id).cloned();
        Ok(step)
    }

    /// The step and its request, if a record is the first one that gives the step one of some labels.
    async fn listed_at(
        &self,
        record: &Record,
        labels: &[Label],
    ) -> Result<Option<(String, String)>> {
        if record.redacted || !ChatEvent::KINDS.contains(&record.kind.0) {
            return Ok(None);
        }
        // A record that saves a step has the labels of what it saves: the rest of it isn't needed.
        if record.kind.0 == kinds::STEP_SAVED
            && let Ok(saved) = serde_json::from_slice::<SavedStep>(&record.payload)
        {
            return Ok(Some((saved.step_id, saved.request_id)));
        }
        let session = SessionId(record.stream.0);
        let has = |event: &ChatEvent| {
            let mut of_event = event.labels(session).into_iter();
            of_event.any(|label| labels.contains(&label))
        };
        let event = event_of(record)?;
        if !has(&event) {
            return Ok(None);
        }
        if let Some(step) = event.saved_step() {
            return Ok(Some((step.step_id.clone(), step.request_id.clone())));
        }
        let ChatEvent::StepUpdated { step_id, .. } = &event else {
            return Ok(None);
        };
        let label = ChatIdOf::Step.label(step_id);
        let mut request_id = None;
        for other in self.labelled_in(session, label).await? {
            if other.redacted {
                continue;
            }
            let other_event = event_of(&other)?;
            if !other_event.is_of(ChatIdOf::Step, step_id) {
                continue;
            }
            if other.position < record.position && has(&other_event) {
                return Ok(None);
            }
            if let Some(step) = other_event.saved_step() {
                request_id = Some(step.request_id.clone());
            }
        }
        if request_id.is_none() {
            // A step that a copy has from its original.
            let fold = self.chat_fold(session).await?;
            request_id = fold.read().step(step_id).map(|it| it.request_id.clone());
        }
        Ok(request_id.map(|request_id| (step_id.clone(), request_id)))
    }
}

/// What names a step in the record that saves it.
#[derive(Deserialize)]
struct SavedStep {
    step_id: String,
    request_id: String,
}

/// Reads the records that have one of some labels, in the order of the log.
struct LabelledReader {
    sources: Vec<Source>,
}

struct Source {
    label: Label,
    read: VecDeque<Record>,
    next: Option<Position>,
}

impl LabelledReader {
    fn new(labels: &[Label], first: Position) -> Self {
        let source = |label: &Label| Source {
            label: *label,
            read: VecDeque::new(),
            next: Some(first),
        };
        Self {
            sources: labels.iter().map(source).collect(),
        }
    }

    async fn next(&mut self, store: &Store) -> Result<Option<Record>> {
        for source in &mut self.sources {
            while let Some(first) = source.next.filter(|_| source.read.is_empty()) {
                let options = FindOptions {
                    direction: Direction::Forward,
                    first,
                    limit: RECORDS_TOGETHER,
                    ..FindOptions::default()
                };
                let page = store.backend().find(source.label, options).await?;
                source.read.extend(page.records);
                source.next = page.next;
            }
        }
        let place = |source: &&mut Source| source.read.front().map(|record| record.position);
        let with_records = self.sources.iter_mut().filter(|it| !it.read.is_empty());
        let first = with_records.min_by_key(place);
        Ok(first.and_then(|source| source.read.pop_front()))
    }
}
