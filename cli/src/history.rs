//! The history of a session, in the order in which it happened: events, and the records of its aside.

use std::{borrow::Cow, cmp::Reverse, collections::BinaryHeap};

use runlog::log::Position;
use runlog::{
    AgentInstance, InstanceId, RawJson, Session,
    blocking::Store,
    contexts::ContextEvent,
    transcripts::{
        Format,
        keep::{Aside, aside_stream, envelope_matches},
    },
};
use serde::Deserialize;

use crate::{failure::Result, read::records};

/// The most instances whose contexts are read at one time, a page of each in memory. A session with more instances is
/// read one after the other.
const MERGED_MAX: usize = 256;

/// One item of the history of a session.
#[derive(Clone, Debug)]
pub(crate) enum HistoryItem {
    /// An event, with the envelope of its message in the imported transcript.
    Event(ContextEvent, Option<RawJson>),
    /// An imported element that is no message.
    Other(InstanceId, RawJson),
}

type Source<'a> = Box<dyn Iterator<Item = Result<(u64, Piece)>> + 'a>;

enum Piece {
    Event(ContextEvent),
    Aside(Aside),
}

/// The history of a session's instances, in the order in which it happened.
pub(crate) fn history<'a>(
    store: &'a Store,
    session: &Session,
    instances: &'a [AgentInstance],
) -> Result<impl Iterator<Item = Result<HistoryItem>> + 'a> {
    let (together, after) = instances.split_at(instances.len().min(MERGED_MAX));
    let mut sources: Vec<Source<'a>> = vec![Box::new(asides(store, session))];
    for instance in together {
        sources.push(Box::new(events(store, instance.id)?));
    }
    let merged = Merge::new(sources)?;
    let after = after
        .iter()
        .flat_map(move |instance| match events(store, instance.id) {
            Ok(events) => Box::new(events) as Source<'a>,
            Err(failure) => Box::new(std::iter::once(Err(failure))) as Source<'a>,
        });
    let mut envelope: Option<(u64, RawJson)> = None;
    Ok(merged.chain(after).filter_map(move |piece| match piece {
        Err(failure) => Some(Err(failure)),
        Ok((position, Piece::Event(event))) => {
            let own = envelope.take_if(|_| event.event_type.is_message());
            let own = own.filter(|(at, _)| envelope_matches(Position(*at), Position(position)));
            Some(Ok(HistoryItem::Event(event, own.map(|(_, json)| json))))
        }
        Ok((position, Piece::Aside(Aside::Envelope(json)))) => {
            envelope = Some((position, json));
            None
        }
        Ok((_, Piece::Aside(Aside::Other(instance, json)))) => {
            Some(Ok(HistoryItem::Other(instance, json)))
        }
        Ok((_, Piece::Aside(Aside::Wrapper(_)))) => None,
    }))
}

fn events(
    store: &Store,
    instance: InstanceId,
) -> Result<impl Iterator<Item = Result<(u64, Piece)>> + use<>> {
    let events = store.contexts().events(instance, 1)?;
    Ok(events.map(|event| match event {
        Ok(event) => Ok((event.position, Piece::Event(event))),
        Err(error) => Err(error.into()),
    }))
}

fn asides<'a>(
    store: &'a Store,
    session: &Session,
) -> impl Iterator<Item = Result<(u64, Piece)>> + use<'a> {
    records(store, aside_stream(session.id)).filter_map(|record| match record {
        Ok(record) => match Aside::read(&record) {
            Ok(aside) => aside.map(|aside| Ok((record.position.0, Piece::Aside(aside)))),
            Err(error) => Some(Err(error.into())),
        },
        Err(failure) => Some(Err(failure)),
    })
}

/// The wrapper around all messages of a session in the imported transcript.
pub(crate) fn wrapper(store: &Store, session: &Session) -> Result<Option<RawJson>> {
    // It is written before anything else.
    let first = records(store, aside_stream(session.id))
        .next()
        .transpose()?;
    Ok(
        match first
            .map(|record| Aside::read(&record))
            .transpose()?
            .flatten()
        {
            Some(Aside::Wrapper(json)) => Some(json),
            _ => None,
        },
    )
}

/// The format that a session was imported from.
pub(crate) fn format_of(session: &Session) -> Option<Format> {
    let metadata: serde_json::Value = session.metadata.as_ref()?.to_value().ok()?;
    Format::from_name(metadata.get("source")?.get("format")?.as_str()?)
}

/// The type of the notes about runs that `runlog run` stores in the aside.
pub(crate) const RUN_NOTE: &str = "runlog:run";

/// Whether an element that is no message is a note of `runlog run`, not part of the imported transcript.
pub(crate) fn is_run_note(other: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct Tag<'a> {
        #[serde(rename = "type", borrow)]
        name: Cow<'a, str>,
    }
    serde_json::from_str::<Tag<'_>>(other.as_str()).is_ok_and(|tag| tag.name == RUN_NOTE)
}

/// Sources in order of position, merged into one.
struct Merge<'a> {
    sources: Vec<Source<'a>>,
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    pieces: Vec<Option<Piece>>,
    failure: Option<crate::failure::Failure>,
}

impl<'a> Merge<'a> {
    fn new(sources: Vec<Source<'a>>) -> Result<Self> {
        let pieces = sources.iter().map(|_| None).collect();
        let mut merge = Self {
            sources,
            heads: BinaryHeap::new(),
            pieces,
            failure: None,
        };
        for index in 0..merge.sources.len() {
            merge.advance(index)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, index: usize) -> Result<()> {
        if let Some((position, piece)) = self.sources[index].next().transpose()? {
            self.pieces[index] = Some(piece);
            self.heads.push(Reverse((position, index)));
        }
        Ok(())
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<(u64, Piece)>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(failure) = self.failure.take() {
            self.heads.clear();
            return Some(Err(failure));
        }
        let Reverse((position, index)) = self.heads.pop()?;
        let piece = self.pieces[index].take()?;
        self.failure = self.advance(index).err();
        Some(Ok((position, piece)))
    }
}
