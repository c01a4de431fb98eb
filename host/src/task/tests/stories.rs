//! Stories of what comes after an attempt: retries, losses, dead letters, and what operators do about them.

use expect_test::expect;

use super::script::check;

#[test]
fn a_system_failure_is_retried_with_growing_delays_and_then_left_to_a_person() {
    check(
        "max_retries 2",
        "0s submit
         1s claim
         2s attempt 1 fails system: the printer is off
         12s claim
         1m claim
         61s attempt 2 fails system: the printer is off
         2m claim
         121s attempt 3 fails system: the printer is off",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 1 of 2
            12s claim
                refused: too_early
            1m claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            61s attempt 2 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 2 of 2
            2m claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 3
            121s attempt 3 fails system: the printer is off
                RUNNING → FAILED (retries_spent) by guest: the printer is off
            = FAILED, retries_spent, returned, recoverable, attempts 3, retries 2
        "#]],
    );
}

#[test]
fn a_longer_wish_of_the_guest_puts_the_retry_off() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 fails system retry after 10m: come back later",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails system retry after 10m: come back later
                RUNNING → FAILED (system) by guest: come back later
                FAILED → PENDING (retry) by host:retry: retry 1 of 3
            = PENDING, retry, ready at 602s, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn a_retry_whose_wait_is_too_long_is_timed_out() {
    check(
        "queue_timeout 1m",
        "0s submit
         1s claim
         2s attempt 1 fails system
         alarm",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails system
                RUNNING → FAILED (system) by guest
                FAILED → PENDING (retry) by host:retry: retry 1 of 3
            72.75s alarm: spent queue wait
                PENDING → TIMED_OUT (queue_wait_spent) by host:watch
            = TIMED_OUT, queue_wait_spent, not_running, recoverable, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn an_attempt_lost_with_its_node_counts_as_a_retry() {
    check(
        "max_retries 1",
        "0s submit
         1s claim
         2s attempt 1 is lost with its node
         1m claim
         61s attempt 2 is lost with its node",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its node
                RUNNING → INTERRUPTED (node_lost) by host:reconcile
                INTERRUPTED → PENDING (retry) by host:retry: retry 1 of 1
            1m claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            61s attempt 2 is lost with its node
                RUNNING → INTERRUPTED (node_lost) by host:reconcile
            = INTERRUPTED, node_lost, killed, recoverable, attempts 2, retries 1
        "#]],
    );
}

#[test]
fn an_attempt_lost_with_its_executor_does_not_count() {
    check(
        "max_retries 1",
        "0s submit
         1s claim
         2s attempt 1 is lost with its executor
         2s claim",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its executor
                RUNNING → INTERRUPTED (executor_lost) by host:reconcile
                INTERRUPTED → PENDING (requeued) by host:reconcile
            2s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            = RUNNING, attempts 2
        "#]],
    );
}

#[test]
fn an_attempt_that_may_have_killed_its_executor_counts_as_a_retry() {
    check(
        "max_retries 1",
        "0s submit
         1s claim
         2s attempt 1 is lost as a suspect
         60s claim
         61s attempt 2 is lost as a suspect",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost as a suspect
                RUNNING → INTERRUPTED (executor_lost) by host:reconcile
                INTERRUPTED → PENDING (retry) by host:retry: retry 1 of 1
            60s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            61s attempt 2 is lost as a suspect
                RUNNING → INTERRUPTED (executor_lost) by host:reconcile
            = INTERRUPTED, executor_lost, killed, recoverable, attempts 2, retries 1
        "#]],
    );
}

#[test]
fn an_attempt_ended_by_shutdown_does_not_count() {
    check(
        "max_retries 1",
        "0s submit
         1s claim
         2s shutdown of 1 within 30s
         3s attempt 1 returns stopped
         1m claim
         61s attempt 2 fails system: the printer is off",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            3s attempt 1 returns stopped
                RUNNING → INTERRUPTED (shutdown) by host:shutdown
                INTERRUPTED → PENDING (requeued) by host:shutdown
            1m claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            61s attempt 2 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 1 of 1
            = PENDING, retry, ready at 71.75s, attempts 2, retries 1
        "#]],
    );
}

#[test]
fn at_most_once_means_that_a_lost_attempt_is_not_run_again() {
    check(
        "max_retries 0",
        "0s submit
         1s claim
         2s attempt 1 is lost with its node",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its node
                RUNNING → INTERRUPTED (node_lost) by host:reconcile
            = INTERRUPTED, node_lost, killed, recoverable, attempts 1
        "#]],
    );
    check(
        "max_retries 0",
        "0s submit
         1s claim
         2s attempt 1 is lost with its executor",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its executor
                RUNNING → INTERRUPTED (executor_lost) by host:reconcile
            = INTERRUPTED, executor_lost, killed, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn at_most_once_means_that_an_attempt_ended_by_shutdown_is_not_run_again() {
    check(
        "max_retries 0",
        "0s submit
         1s claim
         2s shutdown of 1 within 30s
         3s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            3s attempt 1 returns stopped
                RUNNING → INTERRUPTED (shutdown) by host:shutdown
            = INTERRUPTED, shutdown, returned, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn the_late_report_of_an_older_attempt_changes_nothing() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 is lost with its executor
         3s attempt 1 returns ok
         3s claim
         4s attempt 1 returns ok
         4s attempt 1 grace spent
         5s attempt 2 returns ok
         6s attempt 2 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its executor
                RUNNING → INTERRUPTED (executor_lost) by host:reconcile
                INTERRUPTED → PENDING (requeued) by host:reconcile
            3s attempt 1 returns ok
                refused: stale_attempt
            3s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            4s attempt 1 returns ok
                refused: stale_attempt
            4s attempt 1 grace spent
                refused: stale_attempt
            5s attempt 2 returns ok
                RUNNING → SUCCESS (completed) by guest
            6s attempt 2 is killed
                refused: task_ended
            = SUCCESS, completed, returned, attempts 2
        "#]],
    );
}

#[test]
fn a_dead_letter_can_be_rerun_as_a_new_generation() {
    check(
        "max_retries 1, max_age 5m",
        "0s submit
         1s claim
         2s attempt 1 is lost with its node
         1m claim
         61s attempt 2 is lost with its node
         1h ann reruns it: the node has new memory
         1h claim
         1h attempt 3 fails system: the printer is off",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 is lost with its node
                RUNNING → INTERRUPTED (node_lost) by host:reconcile
                INTERRUPTED → PENDING (retry) by host:retry: retry 1 of 1
            1m claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 2
            61s attempt 2 is lost with its node
                RUNNING → INTERRUPTED (node_lost) by host:reconcile
            1h ann reruns it: the node has new memory
                INTERRUPTED → PENDING (rerun) by ann: the node has new memory
            1h claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 3
            1h attempt 3 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 1 of 1
            = PENDING, retry, ready at 3610.75s, attempts 3, retries 1, generation 2
        "#]],
    );
}

#[test]
fn a_dead_letter_can_be_given_up() {
    check(
        "max_retries 0",
        "0s submit
         1s claim
         2s attempt 1 fails system: the printer is off
         1h ann gives it up: printed by hand
         2h ann reruns it by force: once more",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails system: the printer is off
                RUNNING → FAILED (retries_spent) by guest: the printer is off
            1h ann gives it up: printed by hand
                FAILED → CANCELLED (given_up) by ann: printed by hand
            2h ann reruns it by force: once more
                refused: task_final
            = CANCELLED, given_up, returned, attempts 1
        "#]],
    );
}

#[test]
fn what_is_not_recoverable_is_rerun_only_by_force_and_with_a_reason() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 traps: unreachable
         3s ann gives it up: hopeless
         3s ann reruns it: please
         3s ann reruns it by force
         3s ann reruns it by force: the defect is mended",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 traps: unreachable
                RUNNING → FAILED (trap) by guest: unreachable
            3s ann gives it up: hopeless
                refused: not_recoverable
            3s ann reruns it: please
                refused: not_recoverable
            3s ann reruns it by force
                refused: reason_missing
            3s ann reruns it by force: the defect is mended
                FAILED → PENDING (rerun) by ann: the defect is mended
            = PENDING, ready, ready at 3s, attempts 1, generation 2
        "#]],
    );
}

#[test]
fn a_task_that_lives_is_neither_rerun_nor_given_up() {
    check(
        "",
        "0s submit
         1s ann reruns it
         2s ann gives it up
         3s claim
         4s ann reruns it by force: now",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s ann reruns it
                refused: task_still_live
            2s ann gives it up
                refused: task_still_live
            3s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            4s ann reruns it by force: now
                refused: task_still_live
            = RUNNING, attempts 1
        "#]],
    );
}

#[test]
fn success_is_final() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 returns ok
         3s ann cancels
         4s ann fails it
         5s ann reruns it by force: once more
         6s ann gives it up
         7s claim
         8s attempt 1 is lost with its node",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 returns ok
                RUNNING → SUCCESS (completed) by guest
            3s ann cancels
                refused: task_ended
            4s ann fails it
                refused: task_ended
            5s ann reruns it by force: once more
                refused: task_final
            6s ann gives it up
                refused: task_final
            7s claim
                refused: task_ended
            8s attempt 1 is lost with its node
                refused: task_ended
            = SUCCESS, completed, returned, attempts 1
        "#]],
    );
}
