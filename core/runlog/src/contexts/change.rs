//! Changing a context as a whole: truncating it, and copying it to another one.

use runlog_log::{Batch, Expected, Op, Sequence};
use runlog_model::{ContextEvent, InstanceId};

use super::{
    append::AppendOptions,
    events::{Contexts, name_instance},
};
use crate::{Error, ErrorKind, Result, kernel::records::context_stream};

impl Contexts {
    /// Deletes the events after a sequence, and returns how many. Later ones continue at `sequence + 1`. Forks keep
    /// what they share. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such instance, [`InvalidInput`](ErrorKind::InvalidInput)
    /// when the context ends before the sequence.
    pub async fn delete_events_after(&self, instance: InstanceId, sequence: u64) -> Result<u64> {
        self.delete_events_with(instance, sequence, || std::future::ready(Ok(Vec::new())))
            .await
    }

    /// [`delete_events_after`](Self::delete_events_after), with further operations in the same batch, which are decided
    /// again each time another writer has written in between.
    pub(crate) async fn delete_events_with<Along>(
        &self,
        instance: InstanceId,
        sequence: u64,
        along: impl Fn() -> Along,
    ) -> Result<u64>
    where
        Along: Future<Output = Result<Vec<Op<'static>>>>,
    {
        self.store.writable_instance(instance).await?;
        let stream = context_stream(instance);
        let after = Sequence(sequence);
        let mut attempts = self.store.attempts(stream).await;
        loop {
            let last = self.stream_last(instance).await?.unwrap_or_default();
            check_within(instance, after, last)?;
            if after == last {
                return Ok(0);
            }
            let truncate = Op::Truncate {
                stream,
                expected: Expected::Last(last),
                after,
            };
            let ops = std::iter::once(truncate).chain(along().await?).collect();
            match self.store.backend().commit(Batch::new(ops)).await {
                Ok(_) => return Ok(last.0 - after.0),
                // Another writer appended in between; what it appended is deleted and counted too.
                Err(error) => attempts
                    .again(error)
                    .await
                    .map_err(|error| name_instance(error, instance))?,
            }
        }
    }

    /// Copies the events of one context, up to a sequence, into another one that is empty, and returns how many. The
    /// copy's events keep sequence, content and time. Durable when it returns.
    ///
    /// Into an instance that never had an event this is a fork: no bytes are copied, however many events.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when either instance doesn't exist,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when the target has events,
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the source ends before `up_to_sequence`. Nothing is copied then.
    pub async fn copy_events(
        &self,
        source: InstanceId,
        target: InstanceId,
        up_to_sequence: Option<u64>,
    ) -> Result<u64> {
        if source == target {
            return Err(Error::invalid(format!(
                "instance {source} can't be copied to itself; make a new one"
            )));
        }
        self.store.known_instance(source).await?;
        let removals = &self.store.shared.folds.removals;
        let removals_ended = removals.ended();
        let of = self.store.writable_instance(target).await?;
        let source_last = self.stream_last(source).await?;
        let last = source_last.unwrap_or_default();
        let at = up_to_sequence.map_or(last, Sequence);
        check_within(source, at, last)?;
        let target_last = self.stream_last(target).await?;
        if let Some(events) = target_last.filter(|last| last.0 > 0) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "instance {target} has {events} events already; copy to an instance that has none"
                ),
            ));
        }
        if at == Sequence::ZERO {
            return Ok(0);
        }
        if target_last.is_some() {
            return self.copy_records(source, target, at).await;
        }
        let (parent, child) = (context_stream(source), context_stream(target));
        let fork = Op::Fork {
            parent,
            expected: Expected::Any,
            at,
            child,
        };
        self.store
            .backend()
            .commit(Batch::new(vec![fork]))
            .await
            .map_err(|error| name_instance(error, target))?;
        if removals.any_since(removals_ended) {
            self.check_kept(&of, Sequence(1), at).await?;
        }
        Ok(at.0)
    }

    /// Writes copies of the events, as one batch: the target's stream exists already, so it can't be a fork.
    async fn copy_records(
        &self,
        source: InstanceId,
        target: InstanceId,
        at: Sequence,
    ) -> Result<u64> {
        let mut pages = self.events(source, 1).await?.up_to(at);
        let mut events = Vec::new();
        while let Some(page) = pages.next_page().await? {
            events.extend(page.iter().map(ContextEvent::to_new));
        }
        let options = AppendOptions {
            expected_last_sequence: Some(0),
            ..AppendOptions::default()
        };
        match self.append(target, &events, &options).await {
            Ok(_) => Ok(events.len() as u64),
            Err(error) if error.kind() == ErrorKind::TooLarge => Err(Error::with_source(
                ErrorKind::TooLarge,
                format!(
                    "{at} events are too many to write out in one batch; copy to an instance that never had any: {error}"
                ),
                error,
            )),
            Err(error) => Err(error),
        }
    }
}

fn check_within(instance: InstanceId, sequence: Sequence, last: Sequence) -> Result<()> {
    if sequence <= last {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the context of instance {instance} ends at sequence {last}, before {sequence}; give at most {last}"
    )))
}
