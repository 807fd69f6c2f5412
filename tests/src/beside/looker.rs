//! [`Looker`]: asks a store that is written to whatever can be asked, and holds the answers against the history.

use runlog_engine::{
    Direction, FindOptions, Kind, Label, Position, ReadOptions, Record, Result, Sequence, Snapshot,
    StreamId, StreamInfo,
};

use super::history::{Given, Handle, History, Item, Progress};
use crate::{compare::Same, random::Random};

/// Records that are given one after the other.
pub type Records = Box<dyn Iterator<Item = Result<Record>>>;

/// What can be asked of a store.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "as in `runlog_engine::Store`"
)]
pub trait Reads {
    fn read(&self, stream: StreamId, options: ReadOptions) -> Result<Records>;
    /// The same records as they are shown in passing.
    fn read_shown(&self, stream: StreamId, options: ReadOptions) -> Result<Records>;
    fn find(&self, label: Label, options: FindOptions) -> Result<Records>;
    fn scan(&self, first: Position) -> Result<Records>;
    /// The same records as they are shown in passing.
    fn scan_shown(&self, first: Position) -> Result<Records>;
    fn record(&self, position: Position) -> Result<Option<Record>>;
    fn stream(&self, stream: StreamId) -> Result<Option<StreamInfo>>;
    fn streams(&self) -> Result<Vec<StreamInfo>>;
    fn last_position(&self) -> Result<Position>;
    fn latest_snapshot(&self, stream: StreamId, at_or_before: Sequence)
    -> Result<Option<Snapshot>>;
}

/// A question that is answered by records.
#[derive(Clone, Debug)]
enum Question {
    Read(StreamId, ReadOptions),
    Find(Label, FindOptions),
    Scan(Position),
}

/// One that is being answered.
struct Kept {
    question: Question,
    records: Option<Records>,
    /// Whether its records were all asked for when it began.
    is_shown: bool,
    given: Given,
}

/// How many questions are being answered at a time.
const KEPT_MAX: usize = 4;

/// Who asks.
pub struct Looker<'h, S> {
    store: S,
    handle: Handle,
    history: &'h History,
    progress: &'h Progress,
    random: Random,
    kept: Vec<Kept>,
    /// How many records it was given.
    pub given: u64,
}

impl<'h, S: Reads> Looker<'h, S> {
    /// One that asks a store, in an order that a seed says.
    pub fn new(
        store: S,
        handle: Handle,
        history: &'h History,
        progress: &'h Progress,
        seed: u64,
    ) -> Self {
        Self {
            store,
            handle,
            history,
            progress,
            random: Random::new(seed),
            kept: Vec::new(),
            given: 0,
        }
    }

    /// Asks one thing.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn look(&mut self) -> Same {
        match self.random.below(20) {
            0..5 => {
                let question = self.find();
                self.ask(&question)
            }
            5 | 6 => self.find_in_pages(),
            7 | 8 => {
                let question = self.read();
                self.ask(&question)
            }
            9 | 10 => self.scan(),
            11..16 => self.go_on(),
            16 => self.record(),
            17 => self.snapshot(),
            _ => self.told_of_streams(),
        }
    }

    /// Ends what is being answered.
    ///
    /// # Errors
    /// What is wrong with an answer.
    pub fn finish(&mut self) -> Same {
        std::mem::take(&mut self.kept)
            .into_iter()
            .try_for_each(|mut kept| {
                self.take(&mut kept, usize::MAX);
                self.check(&kept)
            })
    }

    /// Asks everything once the writer is done.
    ///
    /// # Errors
    /// What is wrong with an answer.
    pub fn look_at_all(&mut self) -> Same {
        self.finish()?;
        for nth in 0..60 {
            let question = if nth % 2 == 0 {
                self.find()
            } else {
                self.read()
            };
            self.ask(&question)?;
        }
        self.ask(&Question::Scan(Position::FIRST))?;
        self.told_of_streams()
    }

    fn stream(&mut self) -> StreamId {
        let version = self.progress.acknowledged();
        self.history.some_stream(version, &mut self.random)
    }

    fn last_position(&self) -> u64 {
        self.history.last_position(self.progress.acknowledged())
    }

    fn direction(&mut self) -> Direction {
        match self.random.one_in(2) {
            true => Direction::Forward,
            false => Direction::Backward,
        }
    }

    fn limit(&mut self) -> u64 {
        match self.random.one_in(3) {
            true => 1 + self.random.below(20),
            false => u64::MAX,
        }
    }

    fn find(&mut self) -> Question {
        let label = self.history.some_label(&mut self.random);
        let stream = self.random.one_in(2).then(|| self.stream());
        let last = self.last_position();
        let (mut first, mut end) = (0, u64::MAX);
        if self.random.one_in(3) {
            first = self.random.below(last + 2);
        }
        if self.random.one_in(3) {
            end = first + self.random.below(last + 2 - first.min(last));
        }
        let options = FindOptions {
            stream,
            direction: self.direction(),
            first: Position(first),
            last: Position(end),
            limit: self.limit(),
        };
        Question::Find(label, options)
    }

    fn read(&mut self) -> Question {
        let version = self.progress.acknowledged();
        let stream = self.history.some_stream(version, &mut self.random);
        let length = self.history.length(version, stream);
        let mut options = ReadOptions {
            direction: self.direction(),
            limit: self.limit(),
            ..ReadOptions::default()
        };
        if self.random.one_in(3) {
            options.first = Sequence(self.random.below(length + 2));
        }
        if self.random.one_in(4) {
            options.last = Sequence(options.first.0 + self.random.below(length + 2));
        }
        if self.random.one_in(3) {
            options.kinds = vec![Kind(0), Kind(2)];
        }
        Question::Read(stream, options)
    }

    fn scan(&mut self) -> Same {
        let last = self.last_position();
        let back = self.random.below(last + 2).min(200);
        let first = match self.random.one_in(4) {
            true => 0,
            false => last + 1 - back.min(last + 1),
        };
        self.ask(&Question::Scan(Position(first)))
    }

    /// Begins to have a question answered.
    fn begin(&mut self, question: &Question) -> Kept {
        let is_shown = !matches!(question, Question::Find(..)) && self.random.one_in(4);
        let store = &self.store;
        let (made, records) = self.progress.during(|| match question.clone() {
            Question::Read(stream, options) if is_shown => store.read_shown(stream, options),
            Question::Read(stream, options) => store.read(stream, options),
            Question::Find(label, options) => store.find(label, options),
            Question::Scan(first) if is_shown => store.scan_shown(first),
            Question::Scan(first) => store.scan(first),
        });
        let (records, items) = match records {
            Ok(records) => (Some(records), Ok(Vec::new())),
            Err(error) => (None, Err(error)),
        };
        Kept {
            question: question.clone(),
            records,
            is_shown,
            given: Given {
                made,
                items,
                ended: made.to,
                exhausted: None,
            },
        }
    }

    /// Takes the next records of an answer; whether there may be more.
    fn take(&mut self, kept: &mut Kept, count: usize) -> bool {
        let (Some(records), Ok(items)) = (&mut kept.records, &mut kept.given.items) else {
            return false;
        };
        for _ in 0..count {
            let acknowledged = match kept.is_shown {
                true => kept.given.made.from,
                false => self.progress.acknowledged(),
            };
            let Some(record) = records.next() else {
                kept.given.exhausted = Some(acknowledged);
                break;
            };
            self.given += 1;
            items.push(Item {
                acknowledged,
                record,
            });
            // Much worse than a few errors is not of interest.
            if items.len() > 1_000_000 {
                break;
            }
        }
        kept.given.ended = self.progress.begun();
        kept.given.exhausted.is_none()
    }

    fn check(&self, kept: &Kept) -> Same {
        let given = &kept.given;
        let checked = match &kept.question {
            Question::Read(stream, options) => {
                self.history
                    .check_read(*stream, options, given, self.handle)
            }
            Question::Find(label, options) => {
                self.history.check_find(*label, options, given, self.handle)
            }
            Question::Scan(first) => self.history.check_scan(*first, given, self.handle),
        };
        checked.map_err(|wrong| {
            format!(
                "{:?}, asked {:?} in {:?} until {}: {wrong}",
                self.handle, kept.question, given.made, given.ended
            )
        })
    }

    fn ask(&mut self, question: &Question) -> Same {
        let mut kept = self.begin(question);
        self.take(&mut kept, usize::MAX);
        self.check(&kept)
    }

    /// Goes on with a question that was asked before, or asks one and stops in the middle.
    fn go_on(&mut self) -> Same {
        if self.kept.len() < KEPT_MAX {
            let question = match self.random.one_in(2) {
                true => self.find(),
                false => self.read(),
            };
            let kept = self.begin(&question);
            self.kept.push(kept);
        }
        let nth = self.random.place(self.kept.len());
        let mut kept = self.kept.swap_remove(nth);
        let most = if self.random.one_in(4) { 300 } else { 8 };
        let count = 1 + self.random.place(most);
        if self.take(&mut kept, count) {
            self.kept.push(kept);
            return Ok(());
        }
        self.check(&kept)
    }

    /// Each page is a question of its own; together they have each record once.
    fn find_in_pages(&mut self) -> Same {
        let Question::Find(label, mut options) = self.find() else {
            return Ok(());
        };
        options.limit = 1 + self.random.below(12);
        let whole = FindOptions {
            limit: u64::MAX,
            ..options.clone()
        };
        let mut all: Option<Kept> = None;
        loop {
            let mut page = self.begin(&Question::Find(label, options.clone()));
            let limit = usize::try_from(options.limit).expect("small");
            self.take(&mut page, limit + 1);
            self.check(&page)?;
            let Ok(items) = page.given.items else {
                // The stream was deleted meanwhile.
                return Ok(());
            };
            let last = items.last().and_then(|item| item.record.as_ref().ok());
            let next = last
                .filter(|_| items.len() == limit)
                .map(|record| record.position.0);
            let ended = (page.given.ended, page.given.exhausted);
            let all = all.get_or_insert_with(|| Kept {
                question: Question::Find(label, whole.clone()),
                records: None,
                is_shown: false,
                given: Given {
                    made: page.given.made,
                    items: Ok(Vec::new()),
                    ended: 0,
                    exhausted: None,
                },
            });
            if let Ok(all) = &mut all.given.items {
                all.extend(items);
            }
            // What came while it was asked for pages is in those behind.
            all.given.made.to = page.given.made.to;
            (all.given.ended, all.given.exhausted) = ended;
            match (next, options.direction) {
                (Some(next), Direction::Forward) => options.first = Position(next + 1),
                (Some(next), Direction::Backward) if next > 1 => options.last = Position(next - 1),
                _ => return self.check(all),
            }
        }
    }

    fn record(&mut self) -> Same {
        let last = self.last_position();
        let position = match self.random.one_in(2) {
            true => last + 1 - self.random.below(10).min(last),
            false => self.random.below(last + 3),
        };
        let store = &self.store;
        let (window, found) = self.progress.during(|| store.record(Position(position)));
        let checked = self.history.check_record(position, found, window);
        checked.map_err(|wrong| {
            format!(
                "{:?}, position {position} in {window:?}: {wrong}",
                self.handle
            )
        })
    }

    fn snapshot(&mut self) -> Same {
        let version = self.progress.acknowledged();
        let stream = self.stream();
        let at = match self.random.one_in(2) {
            true => Sequence::MAX,
            false => Sequence(self.random.below(self.history.length(version, stream) + 2)),
        };
        let store = &self.store;
        let (window, found) = self.progress.during(|| store.latest_snapshot(stream, at));
        let checked = self.history.check_snapshot(stream, at, found, window);
        checked.map_err(|wrong| {
            format!(
                "{:?}, snapshot of {stream} at {at} in {window:?}: {wrong}",
                self.handle
            )
        })
    }

    fn told_of_streams(&mut self) -> Same {
        let stream = self.stream();
        let store = &self.store;
        let (window, found) = self.progress.during(|| store.stream(stream));
        self.history
            .check_stream(stream, found, window)
            .map_err(|wrong| {
                format!("{:?}, stream {stream} in {window:?}: {wrong}", self.handle)
            })?;
        let (window, found) = self.progress.during(|| store.streams());
        self.history
            .check_streams(found, window)
            .map_err(|wrong| format!("{:?}, streams in {window:?}: {wrong}", self.handle))?;
        let (window, found) = self.progress.during(|| store.last_position());
        self.history
            .check_last_position(found, window)
            .map_err(|wrong| format!("{:?}, last position in {window:?}: {wrong}", self.handle))
    }
}

/// Follows the log: every record once, in order, and all that is acknowledged.
pub struct Follower<'h> {
    history: &'h History,
    progress: &'h Progress,
    next: u64,
    /// The version that was acknowledged when there was nothing left. What comes may have been read at once then, and
    /// be redacted before it is given.
    exhausted: usize,
}

impl<'h> Follower<'h> {
    /// One that has seen nothing yet.
    pub fn new(history: &'h History, progress: &'h Progress) -> Self {
        Self {
            history,
            progress,
            next: 1,
            exhausted: 0,
        }
    }

    /// Whether it has all there will be.
    pub fn is_done(&self) -> bool {
        self.next > self.history.last_position(self.history.last_version())
    }

    /// What it is given next; `None` says that there is nothing now.
    ///
    /// # Errors
    /// What is wrong.
    pub fn follow(&mut self, next: impl FnOnce() -> Result<Option<Record>>) -> Same {
        let acknowledged = self.progress.acknowledged();
        let found = next();
        let ended = self.progress.begun();
        let is_none = matches!(&found, Ok(None));
        let items = found.transpose().map(|record| Item {
            acknowledged,
            record,
        });
        let given = Given {
            made: super::Window {
                from: self.exhausted,
                to: ended,
            },
            items: Ok(items.into_iter().collect()),
            ended,
            exhausted: is_none.then_some(acknowledged),
        };
        self.next = self
            .history
            .check_followed(self.next, &given)
            .map_err(|wrong| format!("followed to {} until {ended}: {wrong}", self.next))?;
        if is_none {
            self.exhausted = acknowledged;
        }
        Ok(())
    }
}
