//! The spaces of trees: one for each, which all its runs share, and which is there again when one of them is resumed.

use runlog_log::{Direction, FindOptions, Position};
use runlog_model::{RunId, SpaceRecord, space_label};

use super::{SharedSpace, inner::Inner};
use crate::Result;

/// So many records at most are looked at for the newest: runs of a tree that write at the same time may write an older version
/// after a newer one.
const LOOKED_AT: usize = 32;

impl Inner {
    /// The run that a tree began with: the one at its top, which was started and not resumed.
    pub(super) async fn tree_of(&self, id: RunId) -> Result<RunId> {
        let mut top = id;
        while let Some(run) = self.store.runs().get(top).await? {
            let Some(above) = run.parent_run_id.or(run.resumed_from) else {
                break;
            };
            top = above;
        }
        Ok(top)
    }

    /// The space of the tree that a run is in, or was: that of the tree's active runs, or else as it was saved last.
    pub(super) async fn space_of(&self, id: RunId) -> Result<SharedSpace> {
        let tree = self.tree_of(id).await?;
        let (space, is_new) = self.shared(tree);
        // Only a space that somebody else has can be that of an active run, so that most resumes look at none of them.
        let is_active = || {
            let live_runs = self.live_runs();
            let mut live = live_runs.values();
            live.any(|live| live.space.tree() == Some(tree) && !live.ended.is_cancelled())
        };
        if is_new || !is_active() {
            // Also where a handle of a run that has ended still holds it: what was erased since is gone from it, too.
            space.reload(self.saved_space(tree).await?.as_ref())?;
        }
        Ok(space)
    }

    /// The space of a run that is started.
    pub(super) fn new_space(&self, run: RunId) -> SharedSpace {
        self.shared(run).0
    }

    /// The one space of a tree, and whether nobody had it before: it is empty then.
    fn shared(&self, tree: RunId) -> (SharedSpace, bool) {
        let mut spaces = self.spaces.lock();
        if let Some(known) = spaces.get(&tree).and_then(SharedSpace::upgrade) {
            return (known, false);
        }
        if spaces.len() == spaces.capacity() {
            // Seldom, as each start would look at all trees else.
            spaces.retain(|_, space| space.strong_count() > 0);
            let kept = spaces.len();
            spaces.reserve(kept + 1);
        }
        let space = SharedSpace::of_tree(tree);
        spaces.insert(tree, space.downgrade());
        (space, true)
    }

    /// What a run that is resumed in another tree brings along: the space of the tree that it was in.
    pub(super) async fn space_brought(
        &self,
        run: RunId,
        into: &SharedSpace,
    ) -> Result<Option<SpaceRecord>> {
        let tree = self.tree_of(run).await?;
        match into.tree() == Some(tree) {
            true => Ok(None),
            false => self.saved_space(tree).await,
        }
    }

    /// The newest record of the space of a tree, by whichever of its runs.
    async fn saved_space(&self, tree: RunId) -> Result<Option<SpaceRecord>> {
        let mut newest: Option<SpaceRecord> = None;
        let (mut looked_at, mut last) = (0, Position(u64::MAX));
        while looked_at < LOOKED_AT {
            let options = FindOptions {
                direction: Direction::Backward,
                last,
                limit: (LOOKED_AT - looked_at) as u64,
                ..FindOptions::default()
            };
            let page = self
                .store
                .backend()
                .find(space_label(tree), options)
                .await?;
            for record in &page.records {
                looked_at += 1;
                let record = SpaceRecord::decode(record.kind.0, &record.meta, &record.payload)?;
                if newest
                    .as_ref()
                    .is_none_or(|newest| newest.version < record.version)
                {
                    newest = Some(record);
                }
            }
            match page.next {
                Some(next) if !page.records.is_empty() => last = next,
                _ => break,
            }
        }
        Ok(newest)
    }
}
