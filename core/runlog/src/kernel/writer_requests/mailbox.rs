//! [`Mailbox`]: the files of requests and answers.

use std::{io, path::Path, sync::Arc};

use runlog_engine::storage::{Access, FsStorage, Storage};
use uuid::Uuid;

use super::{
    claimant::{Claimant, has_ended},
    names::{ANSWERED, Entry, POSTED, WRITING, age_ms, claimed, named, there},
    request::{VALID_MAX, WAITED_MAX, milliseconds},
};

/// The folder of the files, in that of the store.
pub(super) const FOLDER: &str = "requests";
/// The most bytes of a request: a command's JSON is bounded, and the rest is short.
pub(super) const BYTES_MAX: u64 = 20 << 20;

/// The folder that a store's requests are posted in. It is opened for each use: it may be removed at any time. That of
/// the store is opened once: where it is moved it is still this one, and another store in its place isn't.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    store: FsStorage,
}

/// A request that this process has claimed.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) id: Uuid,
    /// Of all that is claimed at one time: dropped, and its file removed, with the last of them.
    by: Arc<Claimant>,
}

impl Claim {
    fn name(&self) -> String {
        claimed(self.id, self.by.id())
    }
}

/// How far a request has come, as who asked sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Posted,
    /// By a process that lives.
    Claimed,
    /// By a process that has ended since.
    Abandoned,
    Answered,
    /// Nothing is left of it, so that no answer to it will come.
    Gone,
}

impl Mailbox {
    /// That of the store in this folder.
    pub(super) fn of(store: &Path) -> io::Result<Self> {
        let store = FsStorage::new(store);
        // It opens the folder now.
        store.list()?;
        Ok(Self { store })
    }

    fn storage(&self) -> io::Result<FsStorage> {
        self.store.folder_in(FOLDER)
    }

    /// Writes a file so that nobody reads a part of it.
    fn put(&self, id: Uuid, ending: &str, text: &[u8]) -> io::Result<()> {
        let (storage, unfinished) = (self.storage()?, named(id, WRITING));
        let written = storage
            .create(&unfinished)
            .and_then(|file| file.write_at(0, text))
            .and_then(|()| storage.rename(&unfinished, &named(id, ending)));
        if written.is_err() {
            // The writer removes it later where this fails.
            let _ = storage.remove(&unfinished);
        }
        written
    }

    /// Posts a request.
    pub(super) fn post(&self, id: Uuid, text: &[u8]) -> io::Result<()> {
        // Looked for first: it may be there where none can be made.
        if there(self.storage())?.is_none() {
            self.store.make_folder_in(FOLDER)?;
        }
        self.put(id, POSTED, text)
    }

    /// Withdraws a request; `false` if the writer has claimed it.
    pub(super) fn withdraw(&self, id: Uuid) -> io::Result<bool> {
        let Some(storage) = there(self.storage())? else {
            return Ok(false);
        };
        let withdrawn = named(id, WRITING);
        // Of this rename and the writer's only one succeeds.
        let renamed = there(storage.rename(&named(id, POSTED), &withdrawn))?;
        if renamed.is_some() {
            // The writer removes it later where this fails.
            let _ = storage.remove(&withdrawn);
        }
        Ok(renamed.is_some())
    }

    /// Lets another process take a request that this one has claimed.
    pub(super) fn give_back(&self, claim: &Claim) {
        // It counts as one without an answer where this fails.
        let _ = self
            .storage()
            .and_then(|storage| storage.rename(&claim.name(), &named(claim.id, POSTED)));
    }

    /// How far a request has come. Of one that is given back meanwhile it may tell that it is gone, so that is to be asked
    /// twice.
    pub(super) fn stage(&self, id: Uuid) -> io::Result<Stage> {
        let Some(storage) = there(self.storage())? else {
            return Ok(Stage::Gone);
        };
        let is_there = |name: &str| there(storage.open(name, Access::Read)).map(|it| it.is_some());
        if is_there(&named(id, POSTED))? {
            return Ok(Stage::Posted);
        }
        let names = storage.list()?;
        let by = names.iter().find_map(|name| match Entry::of(name)? {
            Entry::Claimed(found, by) if found == id => Some(by),
            _ => None,
        });
        let is_abandoned = match by {
            // One that is given back has another name before its claimant goes.
            Some(by) => has_ended(&storage, by)? && is_there(&claimed(id, by))?,
            None => false,
        };
        // An answer is there before the claim is removed, so it is looked for last.
        Ok(match by {
            _ if is_there(&named(id, ANSWERED))? => Stage::Answered,
            Some(_) if is_abandoned => Stage::Abandoned,
            Some(_) => Stage::Claimed,
            None => Stage::Gone,
        })
    }

    /// The answer to a request, which is removed; `None` while there is none.
    pub(super) fn take_answer(&self, id: Uuid) -> io::Result<Option<Vec<u8>>> {
        let Some(storage) = there(self.storage())? else {
            return Ok(None);
        };
        let name = named(id, ANSWERED);
        let answer = there(read(&storage, &name))?;
        if answer.is_some() {
            // The writer removes it later where this fails.
            let _ = storage.remove(&name);
        }
        Ok(answer)
    }

    /// Claims all requests, in the order in which they were posted: each as its text, or what is wrong with it. Removes
    /// what nobody wants any more.
    pub(super) fn claim(&self, now_ms: u64) -> Vec<(Claim, io::Result<Vec<u8>>)> {
        // There is no folder before the first request.
        let Ok(storage) = self.storage() else {
            return Vec::new();
        };
        let names = storage.list().unwrap_or_default();
        tidy(&storage, &names, now_ms);
        let posted = names.iter().filter_map(|name| match Entry::of(name)? {
            Entry::Posted(id) => Some(id),
            _ => None,
        });
        let mut posted: Vec<Uuid> = posted.collect();
        if posted.is_empty() {
            return Vec::new();
        }
        posted.sort_unstable();
        // Nothing is claimed where nobody could tell that this process lives.
        let Ok(by) = Claimant::new(&storage).map(Arc::new) else {
            return Vec::new();
        };
        let claims = posted.into_iter().filter_map(|id| {
            let by = Arc::clone(&by);
            let claim = Claim { id, by };
            let name = claim.name();
            // It may have been withdrawn.
            storage.rename(&named(id, POSTED), &name).ok()?;
            Some((claim, read(&storage, &name)))
        });
        claims.collect()
    }

    /// Answers a claimed request.
    pub(super) fn answer(&self, claim: &Claim, text: &[u8]) -> io::Result<()> {
        let answered = self.put(claim.id, ANSWERED, text);
        // It is removed later where this fails.
        let _ = self
            .storage()
            .and_then(|storage| storage.remove(&claim.name()));
        answered
    }

    /// Removes what no living process can still want, for a process that has just opened the store for writing. A request
    /// that came too late for anyone gets this answer, in case who asked was only stopped.
    pub(super) fn clean(store: &Path, now_ms: u64, too_late: &[u8]) {
        let mailbox = Self {
            store: FsStorage::new(store),
        };
        // A store that nobody asked has no such folder.
        let Ok(storage) = mailbox.storage() else {
            return;
        };
        let names = storage.list().unwrap_or_default();
        tidy(&storage, &names, now_ms);
        for name in &names {
            if let Some(Entry::Posted(id)) = Entry::of(name)
                && age_ms(id, now_ms) > milliseconds(VALID_MAX)
                && mailbox.withdraw(id).unwrap_or(false)
            {
                // Who asked is told that the outcome isn't known where this fails.
                let _ = mailbox.put(id, ANSWERED, too_late);
            }
        }
    }
}

/// Withdraws the requests to whose texts there is an answer, and gives it to who waits for one.
pub(super) fn withdraw_where(store: &Path, answer_to: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let mailbox = Mailbox {
        store: FsStorage::new(store),
    };
    let Ok(storage) = mailbox.storage() else {
        return;
    };
    for name in storage.list().unwrap_or_default() {
        if let Some(Entry::Posted(id)) = Entry::of(&name)
            && let Ok(text) = read(&storage, &name)
            && let Some(answer) = answer_to(&text)
            && mailbox.withdraw(id).unwrap_or(false)
        {
            // Who asked is told that the outcome isn't known where this fails.
            let _ = mailbox.put(id, ANSWERED, &answer);
        }
    }
}

/// Removes what is left of processes that are gone: a claim whose process has ended, and answers, and files that were
/// being written, for which nobody can wait any more. What can't be removed does no harm.
fn tidy(storage: &FsStorage, names: &[String], now_ms: u64) {
    let is_late = |id: Uuid| age_ms(id, now_ms) > milliseconds(WAITED_MAX);
    let has_ended = |by: Uuid| has_ended(storage, by).unwrap_or(false);
    for name in names {
        let is_left = match Entry::of(name) {
            Some(Entry::Writing(id) | Entry::Answered(id)) => is_late(id),
            // Looking at it removes the file of the process.
            Some(Entry::Claimed(_, by) | Entry::Writer(by)) => has_ended(by),
            // Claimed, and told that it came too late; or answered so by the process that opens the store.
            Some(Entry::Posted(_)) | None => false,
        };
        if is_left {
            let _ = storage.remove(name);
        }
    }
}

fn read(storage: &FsStorage, name: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(name, Access::Read)?;
    let bytes = file.len()?;
    if bytes > BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has {bytes} bytes, at most {BYTES_MAX} are read"),
        ));
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    file.read_at(0, &mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use runlog_engine::{Host, SystemHost};

    use super::{super::names::WRITER, *};

    fn claims(mailbox: &Mailbox, now_ms: u64) -> Vec<Claim> {
        let claimed = mailbox.claim(now_ms);
        claimed.into_iter().map(|(claim, _)| claim).collect()
    }

    fn both(folder: &Path) -> [Mailbox; 2] {
        [0; 2].map(|_| Mailbox::of(folder).expect("it is there"))
    }

    fn now() -> u64 {
        SystemHost.now_ms()
    }

    fn ids(claims: &[Claim]) -> Vec<Uuid> {
        claims.iter().map(|claim| claim.id).collect()
    }

    #[test]
    fn what_is_given_back_is_claimed_by_another_or_withdrawn() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let [one, other] = both(folder.path());
        let id = SystemHost.new_id();
        one.post(id, b"text").expect("it can be posted");
        let claimed_now = claims(&one, now());
        assert_eq!(ids(&claimed_now), [id]);
        assert!(claims(&other, now()).is_empty());
        one.give_back(&claimed_now[0]);
        let claimed_now = claims(&other, now());
        assert_eq!(ids(&claimed_now), [id]);
        assert!(claims(&one, now()).is_empty());
        other.give_back(&claimed_now[0]);
        let stage = || one.stage(id).expect("it can be looked for");
        assert_eq!(stage(), Stage::Posted);
        assert!(one.withdraw(id).expect("it can be withdrawn"));
        assert_eq!(stage(), Stage::Gone);
        assert!(claims(&other, now()).is_empty());
    }

    #[test]
    fn a_claim_is_told_as_abandoned_once_its_process_has_ended_and_not_before() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let [one, other] = both(folder.path());
        let asker = Mailbox::of(folder.path()).expect("it is there");
        let stage = |id| asker.stage(id).expect("it can be looked for");
        let id = SystemHost.new_id();
        asker.post(id, b"text").expect("it can be posted");
        let claimed_now = claims(&one, now());
        // Another process writes, long after: this one may still answer.
        let later = now() + 3_600_000;
        assert!(claims(&other, later).is_empty());
        assert_eq!(stage(id), Stage::Claimed);
        other.answer(&claimed_now[0], b"done").expect("it can");
        assert_eq!(stage(id), Stage::Answered);
        let answer = asker.take_answer(id).expect("it can be read");
        assert_eq!(answer.as_deref(), Some(&b"done"[..]));
        // As by a kill: the lock is gone, and the files are there.
        let id = SystemHost.new_id();
        asker.post(id, b"text").expect("it can be posted");
        let storage = asker.storage().expect("it is there");
        let killed = SystemHost.new_id();
        storage
            .create(&named(killed, WRITER))
            .expect("it can be made");
        storage
            .rename(&named(id, POSTED), &claimed(id, killed))
            .expect("it can be claimed");
        assert_eq!(stage(id), Stage::Abandoned);
        assert_eq!(stage(id), Stage::Abandoned);
        assert!(claims(&other, now()).is_empty());
        assert_eq!(stage(id), Stage::Gone);
    }

    #[test]
    fn what_nobody_can_want_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let [writer, _] = both(folder.path());
        let (id, killed) = (SystemHost.new_id(), SystemHost.new_id());
        let own = [WRITING, POSTED, ANSWERED];
        writer.post(id, b"text").expect("it can be posted");
        let storage = writer.storage().expect("it is there");
        let others = ["notes.txt".to_owned(), named(id, "jsonl")];
        let all = own.iter().map(|ending| named(id, ending));
        let left = [claimed(id, killed), named(killed, WRITER)];
        for name in all.chain(others.clone()).chain(left) {
            storage.create(&name).expect("it can be made");
        }
        let names = || {
            let mut names = storage.list().expect("it can be listed");
            names.sort_unstable();
            names
        };
        let expected = |own: &[&str]| {
            let own = own.iter().map(|ending| named(id, ending));
            let mut names: Vec<String> = own.chain(others.clone()).collect();
            names.sort_unstable();
            names
        };
        let clean = |age| Mailbox::clean(folder.path(), now() + age, b"too late");
        // Who posted it may still be waiting, but not for the process that was killed.
        clean(0);
        assert_eq!(names(), expected(&own));
        let answer = || writer.take_answer(id).expect("it can be read");
        assert_eq!(answer().as_deref(), Some(&b""[..]));
        storage.remove(&named(id, WRITING)).expect("it can be");
        clean(milliseconds(VALID_MAX) + 60_000);
        assert_eq!(names(), expected(&[ANSWERED]));
        assert_eq!(answer().as_deref(), Some(&b"too late"[..]));
        for ending in [WRITING, ANSWERED] {
            storage.create(&named(id, ending)).expect("it can be made");
        }
        clean(milliseconds(WAITED_MAX) + 60_000);
        assert_eq!(names(), expected(&[]));
        // While a process writes it is the same.
        for ending in [WRITING, ANSWERED] {
            storage.create(&named(id, ending)).expect("it can be made");
        }
        assert!(claims(&writer, now()).is_empty());
        assert_eq!(names(), expected(&[WRITING, ANSWERED]));
        let later = now() + milliseconds(WAITED_MAX) + 60_000;
        assert!(claims(&writer, later).is_empty());
        assert_eq!(names(), expected(&[]));
    }
}
