//! Stories of the one path on which a cancel, a shutdown and an operator stop a task.

use expect_test::expect;

use super::script::check;

#[test]
fn a_task_cancelled_while_it_waits_never_starts() {
    check(
        "",
        "0s submit to start at 2s
         1s ann cancels: wrong month
         2s claim",
        &expect![[r#"
            0s submit to start at 2s
                – → PENDING (submitted) by shop
            1s ann cancels: wrong month
                PENDING → CANCELLED (skipped_before_start) by ann: wrong month
            2s claim
                refused: task_ended
            = CANCELLED, skipped_before_start, not_running
        "#]],
    );
}

#[test]
fn a_task_cancelled_between_two_attempts_never_starts_again() {
    check(
        "",
        "0s submit
         1s claim
         2s attempt 1 fails system: the printer is off
         3s ann cancels
         1m claim",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 fails system: the printer is off
                RUNNING → FAILED (system) by guest: the printer is off
                FAILED → PENDING (retry) by host:retry: retry 1 of 3
            3s ann cancels
                PENDING → CANCELLED (cancelled) by ann
            1m claim
                refused: task_ended
            = CANCELLED, cancelled, not_running, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn a_guest_that_is_told_may_wind_up() {
    check(
        "",
        "0s submit
         1s claim
         5s ann cancels: wrong month
         6s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels: wrong month
                RUNNING → RUNNING (stop_asked_cancelled) by ann: wrong month
                tell guest 1
            6s attempt 1 returns stopped
                RUNNING → CANCELLED (cancelled) by ann: wrong month
            = CANCELLED, cancelled, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_guest_that_does_not_listen_is_killed() {
    check(
        "grace 5s",
        "0s submit
         1s claim
         5s ann cancels
         9s attempt 1 grace spent
         alarm
         alarm
         11s attempt 1 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            9s attempt 1 grace spent
                refused: too_early
            10s alarm: spent grace
                kill guest 1
            10s alarm: spent grace
                kill guest 1
            11s attempt 1 is killed
                RUNNING → CANCELLED (cancelled) by ann
            = CANCELLED, cancelled, killed, attempts 1
        "#]],
    );
}

#[test]
fn work_that_is_done_before_the_kill_is_a_success() {
    check(
        "",
        "0s submit
         1s claim
         5s ann cancels
         6s attempt 1 returns ok",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            6s attempt 1 returns ok
                RUNNING → SUCCESS (completed) by guest: the request to stop (cancelled) came too late
            = SUCCESS, completed, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_failure_after_a_cancel_is_a_cancel_and_not_retried() {
    check(
        "",
        "0s submit
         1s claim
         5s ann cancels
         6s attempt 1 fails system: the printer is off",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            6s attempt 1 fails system: the printer is off
                RUNNING → CANCELLED (cancelled) by ann
            = CANCELLED, cancelled, returned, attempts 1
        "#]],
    );
}

#[test]
fn a_cancelled_task_that_is_lost_with_its_node_is_cancelled() {
    check(
        "",
        "0s submit
         1s claim
         5s ann cancels
         6s attempt 1 is lost with its node",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            6s attempt 1 is lost with its node
                RUNNING → CANCELLED (cancelled) by ann
            = CANCELLED, cancelled, killed, attempts 1
        "#]],
    );
}

#[test]
fn a_second_cancel_changes_nothing_unless_it_is_sooner() {
    check(
        "grace 5s",
        "0s submit
         1s claim
         5s ann cancels
         6s bob cancels: me too
         7s bob cancels within 1h: let it finish
         8s bob cancels within 0s: now
         alarm",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            6s bob cancels: me too
                nothing changes
            7s bob cancels within 1h: let it finish
                nothing changes
            8s bob cancels within 0s: now
                RUNNING → RUNNING (stop_asked_cancelled) by bob: now
                tell guest 1
            8s alarm: spent grace
                kill guest 1
            = RUNNING, stopping (cancelled) for ann, kill at 8s, attempts 1
        "#]],
    );
}

#[test]
fn a_cancel_of_a_task_that_has_ended_is_refused() {
    check(
        "",
        "0s submit
         1s ann cancels
         2s ann cancels",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s ann cancels
                PENDING → CANCELLED (skipped_before_start) by ann
            2s ann cancels
                refused: task_ended
            = CANCELLED, skipped_before_start, not_running
        "#]],
    );
}

#[test]
fn a_cancel_during_shutdown_keeps_the_task_from_running_again() {
    check(
        "grace 1m",
        "0s submit
         1s claim
         5s shutdown of 1 within 30s
         6s ann cancels
         7s shutdown of 1 within 0s
         8s attempt 1 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            6s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            7s shutdown of 1 within 0s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            8s attempt 1 is killed
                RUNNING → CANCELLED (cancelled) by ann
            = CANCELLED, cancelled, killed, attempts 1
        "#]],
    );
}

#[test]
fn a_shutdown_cuts_the_grace_at_its_ceiling_and_a_second_one_to_nothing() {
    check(
        "grace 1m",
        "0s submit
         1s claim
         5s shutdown of 1 within 30s
         7s shutdown of 1 within 0s
         alarm
         8s attempt 1 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            7s shutdown of 1 within 0s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            7s alarm: spent grace
                kill guest 1
            8s attempt 1 is killed
                RUNNING → INTERRUPTED (shutdown) by host:shutdown
                INTERRUPTED → PENDING (requeued) by host:shutdown
            = PENDING, ready, ready at 8s, attempts 1
        "#]],
    );
}

#[test]
fn a_task_that_is_forced_to_fail_gets_no_grace_and_no_retry() {
    check(
        "",
        "0s submit
         1s claim
         5s ann fails it: stuck
         5s ann cancels
         alarm
         6s attempt 1 is killed
         7s ann reruns it",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann fails it: stuck
                RUNNING → RUNNING (stop_asked_forced) by ann: stuck
                tell guest 1
            5s ann cancels
                refused: stopping_already
            5s alarm: spent grace
                kill guest 1
            6s attempt 1 is killed
                RUNNING → FAILED (forced) by ann: stuck
            7s ann reruns it
                refused: not_recoverable
            = FAILED, forced, killed, attempts 1
        "#]],
    );
}

#[test]
fn a_task_that_waits_can_be_forced_to_fail() {
    check(
        "",
        "0s submit
         5s ann fails it: not needed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            5s ann fails it: not needed
                PENDING → FAILED (forced) by ann: not needed
            = FAILED, forced, not_running
        "#]],
    );
}

#[test]
fn a_cancel_stands_against_a_forced_failure() {
    check(
        "",
        "0s submit
         1s claim
         5s ann cancels
         6s bob fails it: stuck",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            6s bob fails it: stuck
                refused: stopping_already
            = RUNNING, stopping (cancelled) for ann, kill at 10s, attempts 1
        "#]],
    );
}

#[test]
fn an_operator_who_makes_a_stopping_task_fail_takes_its_grace() {
    check(
        "grace 1m",
        "0s submit
         1s claim
         5s shutdown of 1 within 30s
         6s ann fails it: stuck
         alarm
         7s attempt 1 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            6s ann fails it: stuck
                RUNNING → RUNNING (stop_asked_forced) by ann: stuck
                tell guest 1
            6s alarm: spent grace
                kill guest 1
            7s attempt 1 is killed
                RUNNING → FAILED (forced) by ann: stuck
            = FAILED, forced, killed, attempts 1
        "#]],
    );
}
