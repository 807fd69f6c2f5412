//! A progress bar on stderr, for work that takes longer than a second, and only on a terminal.

use std::{
    io::{self, IsTerminal},
    ops::ControlFlow,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runlog::log::CompactProgress;

/// Work that is finished sooner than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// The progress of some work.
pub(crate) struct Progress {
    bar: ProgressBar,
    since: std::time::Instant,
    shown: bool,
    quiet: bool,
    json: bool,
}

/// The progress of a compaction.
pub(crate) struct Compacting {
    bar: Option<Progress>,
    before: u64,
    json: bool,
}

impl Compacting {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            bar: None,
            before: 0,
            json,
        }
    }

    /// Shows how far it is; it always continues.
    pub(crate) fn at(&mut self, at: CompactProgress) -> ControlFlow<()> {
        let bar = self
            .bar
            .get_or_insert_with(|| Progress::bytes(Some(at.bytes_total), self.json));
        bar.about("compacting");
        // What finds no room on the disk is written again, in smaller packs.
        bar.of(at.bytes_total);
        bar.add(at.bytes_done.saturating_sub(self.before));
        self.before = at.bytes_done;
        ControlFlow::Continue(())
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

impl Progress {
    /// Work on `total` bytes; `None` or 0 if the number is unknown.
    pub(crate) fn bytes(total: Option<u64>, json: bool) -> Self {
        let total = total.filter(|total| *total > 0);
        let template = match total {
            Some(_) => "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
            None => "{msg} {spinner} {bytes}",
        };
        Self::with(total, template, json)
    }

    /// Work on `total` things; `None` or 0 if the number is unknown.
    pub(crate) fn count(total: Option<u64>, json: bool) -> Self {
        let total = total.filter(|total| *total > 0);
        let template = match total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
            None => "{msg} {spinner} {human_pos}",
        };
        Self::with(total, template, json)
    }

    fn with(total: Option<u64>, template: &str, json: bool) -> Self {
        let quiet = json || !io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            since: std::time::Instant::now(),
            shown: false,
            quiet,
            json,
        }
    }

    /// Whether a program reads what the command prints.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Sets the current subject.
    pub(crate) fn about(&self, what: &str) {
        self.bar.set_message(crate::text::name(what));
    }

    /// The number has changed of what is to be done.
    pub(crate) fn of(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Adds this many bytes or items.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bar.inc(bytes);
        if !self.quiet && !self.shown && self.since.elapsed() >= PATIENCE {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Runs `print` while the bar is hidden.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Removes the bar when the work has ended.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
