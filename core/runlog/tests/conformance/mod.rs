//! What every backend must do, run on each of them by waiting callers and by awaiting ones.
//!
//! `conformance_tests!(name, make)` makes a module `name` with one test for each claim; `make` is an
//! expression that gives a fresh `Arc<dyn Backend>`, and what must outlive it. Each claim runs twice: polled by the test's own thread,
//! and as a task of a tokio runtime with several workers.

#![allow(
    missing_docs,
    unreachable_pub,
    reason = "a module of test binaries: its claims are named, and used by whoever includes it"
)]

pub mod backend;
pub mod contexts;
pub mod late_results;
pub mod runs;
pub mod sessions;

use std::{future::Future, sync::Arc};

use runlog::backend::Backend;

/// Runs a claim for a waiting caller and for an awaiting one, each on a fresh backend. What `make` gives beside
/// the backend is dropped after it: a temporary folder.
pub fn check<F: Future<Output = ()> + Send + 'static, Place>(
    make: impl Fn() -> (Arc<dyn Backend>, Place),
    claim: impl Fn(Arc<dyn Backend>) -> F,
) {
    let (backend, place) = make();
    pollster::block_on(claim(backend));
    drop(place);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (backend, place) = make();
    runtime.block_on(async { tokio::spawn(claim(backend)).await.unwrap() });
    drop(place);
}

#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            $crate::conformance_claims! { $make, backend:
                a_batch_happens_whole_or_not_at_all
                sequences_are_dense_and_positions_grow
                payload_and_metadata_come_back_byte_for_byte
                a_wrong_expectation_is_refused_and_writes_nothing
                a_repeated_key_returns_the_first_result
                a_repeated_key_returns_what_a_mere_expectation_found
                a_key_belongs_to_its_stream
                truncated_records_do_not_come_back
                a_fork_keeps_what_it_shares
                a_fork_and_its_parent_go_their_own_ways
                forks_of_forks_read_to_any_depth
                a_refused_fork_makes_no_stream
                a_deleted_stream_is_gone_and_its_id_is_spent
                the_latest_snapshot_is_the_one_at_or_before
                a_position_tells_a_record_from_another_with_its_sequence
                steps_of_a_batch_expect_the_positions_that_those_before_them_leave
                a_repeated_key_tells_that_what_it_wrote_was_truncated
                what_a_batch_truncates_itself_is_not_told_as_truncated
                a_fork_does_not_know_its_parents_keys
                a_redacted_snapshot_gives_way_to_the_one_before
                a_redacted_payload_is_gone_from_forks_too
                pages_give_every_record_once_in_both_directions
                a_page_of_large_payloads_is_bounded
                a_scan_gives_the_log_in_the_order_of_positions
                input_over_a_limit_is_refused
                a_waiter_is_told_of_the_next_append
                many_writers_lose_nothing
                a_conflict_can_be_seen_by_whoever_is_told_of_it
                steps_of_a_batch_see_those_before_them
                what_is_not_there_is_not_found
            }
            $crate::conformance_claims! { $make, contexts:
                events_are_created_read_and_deleted
                events_keep_their_order_over_many_pages
                every_event_tells_what_was_said_of_it
                a_message_and_its_tool_calls_are_one_append
                messages_come_back_byte_for_byte
                replay_starts_where_it_is_asked_to
                truncation_counts_what_it_deletes
                a_copy_is_independent_of_its_source
                a_copy_into_an_emptied_context_is_the_same_copy
                a_refused_copy_copies_nothing
                an_expected_sequence_guards_a_context
                an_idempotency_key_appends_once
                bad_input_is_refused_and_writes_nothing
                a_redacted_event_keeps_its_place
                dangling_calls_are_found_and_closed
                an_agent_run_is_persisted_as_it_happens
            }
            $crate::conformance_claims! { $make, runs:
                scenario_message_persistence_during_execution
                scenario_message_content_format
                scenario_successful_tool_call_recording
                scenario_failed_tool_call_recording
                scenario_tool_call_duration_tracking
                scenario_resume_a_paused_run
                scenario_cumulative_step_counter_across_resumes
                scenario_fresh_step_budget_per_resume
                scenario_max_total_steps_enforcement
                scenario_resume_non_paused_run_rejected
                scenario_list_agent_runs
                scenario_get_agent_run_detail
                scenario_list_messages_for_a_run
                scenario_get_single_message
                scenario_list_tool_calls_for_a_run
                scenario_get_single_tool_call
                scenario_new_columns_on_agent_runs
                scenario_parent_child_run_relationship
                late_writes_to_an_ended_run_are_refused
                a_paused_run_can_be_cancelled_but_not_one_that_was_resumed
                a_step_is_one_batch
                orphaned_runs_are_paused_once
                dangling_calls_are_reported_or_closed
                a_context_that_another_run_went_on_with_is_not_resumed
                many_tasks_write_one_run
                what_a_run_refuses_is_written_nowhere
                a_cursor_fits_only_the_list_it_came_from
                a_run_begins_with_its_messages
                events_of_others_in_a_runs_stream_disturb_nothing
            }
            $crate::conformance_claims! { $make, late_results:
                a_result_recorded_after_a_resume_ends_the_call
                a_result_after_two_resumes_ends_the_call
                a_result_of_a_newer_call_of_the_same_id_is_not_a_late_one
                calls_closed_by_no_run_are_ended
                a_late_result_is_written_in_the_providers_form
                dangling_calls_are_answered_before_the_agent_is_told_to_go_on
            }
            $crate::conformance_claims! { $make, sessions:
                sessions_are_found_by_id_name_and_prefix
                sessions_are_listed_newest_first_in_pages
                a_name_belongs_to_one_session
                racing_creators_of_one_name_leave_one_session
                a_session_is_changed_archived_and_deleted
                instances_belong_to_their_session
                a_resumed_session_goes_on_where_it_stopped
                a_copied_session_has_every_context
                a_copy_up_to_a_point_is_the_session_as_it_was
                an_overwritten_session_goes_on_from_the_point
                an_overwritten_session_forgets_what_its_sub_agents_wrote_since
                a_copy_has_of_each_context_what_stood_in_the_log_before_the_point
                entries_are_written_with_their_session_or_nothing_is
                what_is_kept_beside_the_contexts_is_copied_and_truncated_with_them
                a_second_store_sees_what_the_first_one_does
                a_catalog_of_many_pages_is_read_whole
            }
        }
    };
}

#[macro_export]
macro_rules! conformance_claims {
    ($make:expr, $module:ident: $($claim:ident)*) => {
        $(
            #[test]
            fn $claim() {
                $crate::conformance::check(|| $make, $crate::conformance::$module::$claim);
            }
        )*
    };
}
