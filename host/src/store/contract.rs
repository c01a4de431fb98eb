//! What every backend promises, once for all of them.
//!
//! A promise is a function over a fresh backend; the list at the end runs each against each.

mod lists;
mod lives;
mod queues;
mod rows;
mod support;
mod walk;

/// Runs every promise against one backend; `$open` gives a fresh one, and what must live as long as it.
macro_rules! keeps {
    ($backend:ident, $open:expr, $($part:ident: $($promise:ident),+;)+) => {
        mod $backend {
            $($(
                #[test]
                fn $promise() {
                    let (backend, _folder) = $open;
                    super::$part::$promise(&backend);
                }
            )+)+
        }
    };
}

macro_rules! contract {
    ($($promises:tt)+) => {
        keeps!(memory, (crate::store::memory::Memory::default(), ()), $($promises)+);
        keeps!(sqlite, super::support::on_disk(), $($promises)+);
    };
}

contract! {
    rows:
        a_task_comes_back_as_it_was,
        an_input_stays_and_a_missing_one_is_none,
        an_id_is_given_once,
        a_write_sees_its_own_changes,
        replacing_needs_the_version_that_was_seen,
        a_failed_write_changes_nothing,
        a_write_that_panics_changes_nothing,
        a_priority_past_a_hundred_is_refused,
        numbers_count_up_in_the_order_of_writing,
        an_attempt_comes_back_as_it_was,
        an_attempt_and_a_result_are_written_once,
        log_lines_are_kept_from_a_number_on,
        log_lines_that_come_twice_are_kept_once,
        versions_of_a_type_stay,
        a_component_is_kept_as_it_came_first;
    lists:
        tasks_are_listed_newest_first,
        every_filter_shows_what_it_names_and_nothing_else,
        filters_narrow_each_other,
        pages_follow_each_other_without_gap_or_repeat,
        a_span_of_time_is_found_whatever_the_ids_say;
    queues:
        lines_are_those_with_pending_tasks,
        a_line_is_in_the_order_of_readiness,
        alarms_are_those_of_pending_tasks,
        a_pause_stands_until_it_is_lifted,
        queues_are_counted,
        a_key_is_held_once_for_each_type;
    lives:
        a_newborn_that_stands_first_is_claimed_at_once,
        a_newborn_does_not_pass_what_is_ready_before_it,
        a_newborn_is_not_claimed_if_it_is_held_back,
        a_known_key_gives_the_task_that_holds_it_and_writes_nothing,
        a_refused_task_has_a_record_and_leaves_its_key_free,
        a_live_key_is_free_again_when_the_task_ends,
        a_rerun_is_refused_if_its_key_was_taken_meanwhile,
        claims_follow_priority_and_then_the_wait,
        one_claim_in_ten_takes_the_oldest,
        a_claim_leaves_what_is_paused_or_not_ready,
        a_claim_ends_what_cannot_start,
        a_refused_event_writes_nothing,
        success_keeps_result_attempt_and_audit,
        a_late_report_changes_nothing,
        a_retry_is_two_lines_of_audit_and_a_second_attempt,
        a_stop_leaves_its_receipt,
        spent_waits_end_when_their_time_comes,
        the_next_wake_up_is_the_soonest_of_all;
}
