//! What a new run is written as.

use runlog_log::{Expected, Op};
use runlog_model::{EncodedEvent, Run};

use crate::kernel::{
    records::{append, run_stream},
    runs::RUNS_STREAM,
};

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
        append(RUNS_STREAM, vec![listed.record()]),
    ]
}
