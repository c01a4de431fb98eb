//! Stories of budgets that run out under a running task.

use expect_test::expect;

use super::script::check;

#[test]
fn a_run_that_is_too_long_is_stopped_and_not_retried() {
    check(
        "grace 5s",
        "0s submit
         1s claim
         59s attempt 1 run time spent
         alarm
         alarm
         66s attempt 1 is killed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            59s attempt 1 run time spent
                refused: too_early
            61s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            66s alarm: spent grace
                kill guest 1
            66s attempt 1 is killed
                RUNNING → TIMED_OUT (run_time_spent) by host:watch
            = TIMED_OUT, run_time_spent, killed, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn a_run_that_is_too_long_is_retried_if_the_terms_say_so() {
    check(
        "retry_timeouts",
        "0s submit
         1s claim
         alarm
         62s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            61s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            62s attempt 1 returns stopped
                RUNNING → TIMED_OUT (run_time_spent) by host:watch
                TIMED_OUT → PENDING (retry) by host:retry: retry 1 of 3
            = PENDING, retry, ready at 72.75s, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn a_longer_wish_of_the_guest_puts_off_the_retry_of_a_timeout_too() {
    check(
        "retry_timeouts",
        "0s submit
         1s claim
         alarm
         62s attempt 1 fails system retry after 10m: the printer is slow",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            61s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            62s attempt 1 fails system retry after 10m: the printer is slow
                RUNNING → TIMED_OUT (run_time_spent) by host:watch
                TIMED_OUT → PENDING (retry) by host:retry: retry 1 of 3
            = PENDING, retry, ready at 662s, attempts 1, retries 1
        "#]],
    );
}

#[test]
fn a_cancel_after_a_timeout_keeps_it_from_being_retried() {
    check(
        "retry_timeouts",
        "0s submit
         1s claim
         alarm
         62s ann cancels
         63s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            61s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            62s ann cancels
                RUNNING → RUNNING (stop_asked_cancelled) by ann
                tell guest 1
            63s attempt 1 returns stopped
                RUNNING → CANCELLED (cancelled) by ann
            = CANCELLED, cancelled, returned, attempts 1
        "#]],
    );
}

#[test]
fn the_run_budget_counts_from_entry() {
    check(
        "run_timeout 60s",
        "0s submit
         1s claim
         11s attempt 1 enters
         alarm",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            11s attempt 1 enters
            71s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            = RUNNING, stopping (run_time_spent) for host:watch, kill at 76s, attempts 1
        "#]],
    );
}

#[test]
fn a_guest_that_goes_silent_is_stopped() {
    check(
        "heartbeat_timeout 10s",
        "0s submit
         1s claim
         2s attempt 1 enters
         9s attempt 1 beats
         10s attempt 1 heartbeat missed
         alarm
         20s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            2s attempt 1 enters
            9s attempt 1 beats
            10s attempt 1 heartbeat missed
                refused: too_early
            19s alarm: missed heartbeat
                RUNNING → RUNNING (stop_asked_heartbeat_expired) by host:watch
                tell guest 1
            20s attempt 1 returns stopped
                RUNNING → TIMED_OUT (heartbeat_expired) by host:watch
            = TIMED_OUT, heartbeat_expired, returned, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn a_guest_that_need_not_call_misses_no_heartbeat() {
    check(
        "",
        "0s submit
         1s claim
         59s attempt 1 heartbeat missed",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            59s attempt 1 heartbeat missed
                refused: too_early
            = RUNNING, attempts 1
        "#]],
    );
}

#[test]
fn the_end_of_the_life_stops_a_running_task_and_forbids_a_retry() {
    check(
        "max_age 30s, retry_timeouts",
        "0s submit
         1s claim
         29s life spent
         alarm
         31s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            29s life spent
                refused: too_early
            30s alarm: spent life
                RUNNING → RUNNING (stop_asked_life_spent) by host:watch
                tell guest 1
            31s attempt 1 returns stopped
                RUNNING → TIMED_OUT (life_spent) by host:watch
            = TIMED_OUT, life_spent, returned, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn the_end_of_the_life_weighs_more_than_a_spent_run() {
    check(
        "run_timeout 29s, max_age 32s, retry_timeouts",
        "0s submit
         1s claim
         alarm
         32s life spent
         33s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            30s alarm: spent run time
                RUNNING → RUNNING (stop_asked_run_time_spent) by host:watch
                tell guest 1
            32s life spent
                RUNNING → RUNNING (stop_asked_life_spent) by host:watch
                tell guest 1
            33s attempt 1 returns stopped
                RUNNING → TIMED_OUT (life_spent) by host:watch
            = TIMED_OUT, life_spent, returned, recoverable, attempts 1
        "#]],
    );
}

#[test]
fn budgets_that_are_not_spent_do_not_change_why_a_task_stops() {
    check(
        "grace 1m, heartbeat_timeout 20s",
        "0s submit
         1s claim
         5s shutdown of 1 within 30s
         6s attempt 1 run time spent
         7s attempt 1 heartbeat missed
         8s life spent
         9s attempt 1 returns stopped",
        &expect![[r#"
            0s submit
                – → PENDING (submitted) by shop
            1s claim
                PENDING → RUNNING (claimed) by host:claim
                start guest 1
            5s shutdown of 1 within 30s
                RUNNING → RUNNING (stop_asked_shutdown) by host:shutdown
                tell guest 1
            6s attempt 1 run time spent
                refused: too_early
            7s attempt 1 heartbeat missed
                refused: too_early
            8s life spent
                refused: too_early
            9s attempt 1 returns stopped
                RUNNING → INTERRUPTED (shutdown) by host:shutdown
                INTERRUPTED → PENDING (requeued) by host:shutdown
            = PENDING, ready, ready at 9s, attempts 1
        "#]],
    );
}
