//! Stories of how tasks are born, wait, start and end by themselves.

use expect_test::expect;

use super::script::check;

#[test]
fn a_task_is_registered_then_claimed_then_done() {
    check(
        "",
        "0s submit
         2s claim
         3s attempt 1 returns ok",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            2s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            3s attempt 1 returns ok
                RUNNING → SUCCESS (completed) by guest
            = SUCCESS, completed, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_refused_task_has_a_record_and_never_changes() {
    check(
        "",
        "0s submit refused unknown_type: there is no task type `x`
         1s claim
         2s ann cancels
         3s ann reruns it by force: please",
        &expect![[r#"
            0s submit refused unknown_type: there is no task type `x`
                – → REJECTED (unknown_type) by host:admission: there is no task type `x`
            1s claim
                refused: task_ended
            2s ann cancels
                refused: task_ended
            3s ann reruns it by force: please
                refused: task_final
            = REJECTED, unknown_type, not_running
        "#]],
    );
}

#[test]
fn a_start_past_the_end_of_the_life_is_refused_at_birth() {
    check(
        "max_age 1h",
        "0s submit to start at 1h",
        &expect![[r#"
        0s submit to start at 1h
            – → REJECTED (run_after_too_late) by host:admission: `run_after` is past the end of the task's `max_age`
        = REJECTED, run_after_too_late, not_running
    "#]],
    );
}

#[test]
fn a_task_does_not_start_before_its_time() {
    check(
        "",
        "0s submit to start at 30s
         29s claim
         30s claim",
        &expect![[r#"
            0s submit to start at 30s
                – → PENDING (submitted) by shop
            29s claim
                refused: too_early
            30s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            = RUNNING, attempts 1
        "#]],
    );
}

#[test]
fn a_pre_check_that_fails_for_good_rejects_the_task() {
    check(
        "",
        "0s submit
         1s pre-check fails component_missing",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s pre-check fails component_missing
                PENDING → REJECTED (component_missing) by host:claim
            = REJECTED, component_missing, not_running
        "#]],
    );
}

#[test]
fn a_wait_that_is_too_long_ends_the_task_when_its_time_comes() {
    check(
        "queue_timeout 10m",
        "0s submit
         599s queue wait spent
         alarm",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            599s queue wait spent
                refused: too_early
            600s alarm: spent queue wait
                PENDING → TIMED_OUT (queue_wait_spent) by host:watch
            = TIMED_OUT, queue_wait_spent, not_running, recoverable
        "#]],
    );
}

#[test]
fn the_queue_wait_counts_from_when_the_task_is_ready() {
    check(
        "queue_timeout 10m, max_age 2h",
        "0s submit to start at 1h
         alarm",
        &expect![[r#"
            0s submit to start at 1h
                – → PENDING (submitted) by shop
            4200s alarm: spent queue wait
                PENDING → TIMED_OUT (queue_wait_spent) by host:watch
            = TIMED_OUT, queue_wait_spent, not_running, recoverable
        "#]],
    );
}

#[test]
fn a_task_whose_wait_is_spent_is_not_claimed_though_nobody_has_ended_it_yet() {
    check(
        "queue_timeout 10m",
        "0s submit
         10m claim",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            10m claim
                refused: budget_spent
            = PENDING, ready, ready at 0s
        "#]],
    );
}

#[test]
fn the_life_counts_across_waits_and_attempts() {
    check(
        "max_age 30s, queue_timeout 1h",
        "0s submit
         1s claim
         20s attempt 1 fails system: the printer is off
         alarm",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            20s attempt 1 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 1 of 3
            30s alarm: spent life
                PENDING → TIMED_OUT (life_spent) by host:watch
            = TIMED_OUT, life_spent, not_running, recoverable, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn a_business_failure_is_told_and_not_retried() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 fails business: no such month
         3s ann reruns it",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails business: no such month
                RUNNING → FAILED (business) by guest: no such month
            3s ann reruns it
                refused: not_recoverable
            = FAILED, business, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_fatal_failure_is_not_retried() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 fails fatal: the table has no rows",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails fatal: the table has no rows
                RUNNING → FAILED (guest_fatal) by guest: the table has no rows
            = FAILED, guest_fatal, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_trap_is_a_fatal_failure() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 traps: unreachable",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 traps: unreachable
                RUNNING → FAILED (trap) by guest: unreachable
            = FAILED, trap, killed, attempts 1
        "#]],
    );
}

#[test]
fn a_guest_that_stops_though_nobody_asked_has_failed() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 returns stopped
                RUNNING → FAILED (stopped_unasked) by guest: the guest returned `stopped`, but nobody had asked it to stop
            = FAILED, stopped_unasked, returned, attempts 1
        "#]],
    );
}

#[test]
fn spent_fuel_is_not_recoverable() {
    check(
        "retry_timeouts",
        "0s submit
         1s claim
         2s attempt 1 spends its fuel
         3s ann reruns it",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 spends its fuel
                RUNNING → TIMED_OUT (fuel_spent) by guest
            3s ann reruns it
                refused: not_recoverable
            = TIMED_OUT, fuel_spent, killed, attempts 1
        "#]],
    );
}

#[test]
fn a_claimed_task_is_not_claimed_again() {
    check(
        "",
        "0s submit
         1s claim
         1s claim
         2s pre-check fails component_missing",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            1s claim
                refused: task_not_pending
            2s pre-check fails component_missing
                refused: task_not_pending
            = RUNNING, attempts 1
        "#]],
    );
}
