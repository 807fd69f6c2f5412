//! What a new run is written as.

use runlog_log::{Expected, Op};
use runlog_model::{EncodedEvent, Run};

use crate::kernel::{records::run_stream, runs::RUNS_STREAM};

/// What makes a run's stream and lists it.
pub(super) fn creation<'a>(
    run: &Run,
    own: &'a EncodedEvent,
    listed: &'a EncodedEvent,
) -> Vec<Op<'a>> {
    vec![
        Op::Append {
            stream: run_stream(run.id),
            expected: Expected::Absent,
            records: vec![own.record()],
        },
        Op::Append {
            stream: RUNS_STREAM,
            expected: Expected::Any,
            records: vec![listed.record()],
        },
    ]
}
