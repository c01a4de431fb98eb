//! Every problem that the API can answer with, in one table: the documents are made from it, and tests hold it to be complete.
//!
//! Knows nothing of requests.

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Stable: programs may rely on it.
    pub name: &'static str,
    pub status: u16,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What to do about it, in general. A problem's own hint may know better.
    pub advice: &'static str,
}

impl Code {
    /// The entry of this code.
    #[must_use]
    pub fn find(code: &str) -> Option<&'static Self> {
        CODES.iter().find(|entry| entry.name == code)
    }
}

const fn code(name: &'static str, status: u16, title: &'static str, advice: &'static str) -> Code {
    Code { name, status, title, advice }
}

/// Every code, in the order of what they are about.
pub const CODES: &[Code] = &[
    // The request as such.
    code("route_not_found", 404, "there is no such route", "see `/openapi.json` for the routes there are"),
    code("method_not_allowed", 405, "the route does not know this method", "use one of those in the `Allow` header"),
    code(
        "host_not_allowed",
        421,
        "the request is not meant for this machine",
        "name the API `localhost`, `127.0.0.1` or `[::1]`: it answers nobody else",
    ),
    code(
        "origin_not_allowed",
        403,
        "another site's page may not change anything here",
        "send the request from a program, or from a page of this host",
    ),
    code(
        "unsupported_media_type",
        415,
        "the body is of another type than the route takes",
        "send JSON as `application/json`, a component as `application/wasm`",
    ),
    code(
        "body_too_large",
        413,
        "the body is larger than the route takes",
        "send less; many tasks go in several arrays",
    ),
    code("body_timeout", 408, "the body did not arrive in time", "send it again, faster"),
    code("body_incomplete", 400, "the body broke off", "send it again, whole"),
    code(
        "malformed_json",
        400,
        "the body is not JSON",
        "send UTF-8 JSON; the detail names the place where it stops being that",
    ),
    code("invalid_body", 422, "the JSON is not what the route takes", "see the fields of the route in `/openapi.json`"),
    code("invalid_batch", 422, "the array cannot be taken as a batch of tasks", "send 1 to 1,000 tasks in one array"),
    code("invalid_path", 400, "a part of the path is not what it should be", "correct the id or name in the path"),
    code(
        "invalid_query",
        400,
        "a query parameter is not what it should be",
        "see the parameters of the route in `/openapi.json`",
    ),
    code(
        "invalid_field",
        422,
        "a field has a value that cannot be taken",
        "correct the field and send the request again",
    ),
    // What is not there.
    code("task_not_found", 404, "there is no such task", "list the tasks to find its id: `atropos list`"),
    code("type_not_found", 404, "there is no such task type", "see which there are: `atropos type list`"),
    code("component_not_found", 404, "there is no such component", "upload it first: `atropos push TYPE FILE`"),
    code("not_found", 404, "it is not there", "check the name"),
    code("no_result", 404, "the task has no result", "only a task in SUCCESS has one"),
    code(
        "no_core_dump",
        404,
        "the attempt has no core dump",
        "only the terms `core_dump` ask for them, and old ones make room",
    ),
    code("no_input", 404, "the task's input was not kept", "an input that was too large is not kept"),
    // The task's state says no.
    code("task_ended", 409, "the task has ended", "nothing is left to stop; see how it ended"),
    code("task_still_live", 409, "the task has not ended", "cancel it first, or wait for its end"),
    code("task_not_pending", 409, "the task does not wait for its start", "look at it again"),
    code("task_not_running", 409, "the task does not run", "look at it again"),
    code("stale_attempt", 409, "a later attempt has begun", "look at it again"),
    code("too_early", 409, "the time for this has not come", "look at it again"),
    code("budget_spent", 409, "a budget of the task is spent", "look at it again"),
    code(
        "not_recoverable",
        409,
        "the task ended in a way that is not taken up again",
        "force the rerun with a reason, or submit a new task",
    ),
    code("task_final", 409, "the task never changes again", "submit a new task"),
    code(
        "stopping_already",
        409,
        "the task is being stopped for another reason",
        "wait for its end, or repeat the request that is under way with no grace",
    ),
    code("reason_missing", 409, "this needs a reason", "give one in `reason`"),
    code("dedup_key_taken", 409, "another task has the deduplication key now", "wait for its end or cancel it"),
    // The submission was refused, and is on record as REJECTED.
    code(
        "unknown_type",
        404,
        "the task was rejected: its type is not registered",
        "register the type, then submit the task again",
    ),
    code(
        "input_too_large",
        413,
        "the task was rejected: its input is too large",
        "pass a reference to the data instead of the data",
    ),
    code(
        "input_invalid",
        422,
        "the task was rejected: its input does not fit the type's schema",
        "correct the input; the detail names the place",
    ),
    code(
        "run_after_too_late",
        422,
        "the task was rejected: it would start after its life is over",
        "choose an earlier `run_after` or a longer `max_age`",
    ),
    code("queue_full", 429, "the task was rejected: its queue is full", "try again later, or use another queue"),
    code("component_missing", 422, "the task was rejected: its component is gone", "upload the component again"),
    // Terms.
    code(
        "run_timeout_missing",
        422,
        "nobody says how long the task may run",
        "give `terms.run_timeout` to the type or to the submission",
    ),
    code("terms_out_of_range", 422, "a term is out of its range", "choose a value within the range"),
    code(
        "grants_invalid",
        422,
        "a grant cannot be taken",
        "correct the grant that the detail names; see `Grants` in `/openapi.json`",
    ),
    code("config_out_of_range", 500, "a setting of the node is out of its range", "choose a value within the range"),
    // Uploads.
    code("component_empty", 422, "the upload is empty", "send the component's bytes as the body"),
    code(
        "component_too_large",
        413,
        "the component is too large",
        "strip debug information, or raise the node's limit",
    ),
    code("component_not_webassembly", 422, "the upload is no WebAssembly", "send a WebAssembly component"),
    code("component_is_text", 422, "the upload is WebAssembly text", "make it binary first: `wasm-tools parse`"),
    code(
        "component_is_core_module",
        422,
        "the upload is a core module",
        "make a component of it: `wasm-tools component new`",
    ),
    code("component_is_precompiled", 422, "the upload is machine code", "send the component itself"),
    code("component_invalid", 422, "the component is not valid", "see `wasm-tools validate`; build it anew"),
    code(
        "component_import_not_offered",
        422,
        "the component imports what is not offered",
        "build it without this import",
    ),
    code(
        "component_import_mismatch",
        422,
        "the component imports something in another shape",
        "build it against the `wit/task.wit` of this version",
    ),
    code(
        "component_run_missing",
        422,
        "the component does not export `run`",
        "export the world `task` of `wit/task.wit`",
    ),
    code(
        "component_run_mistyped",
        422,
        "the component's `run` has another type",
        "export the world `task` of `wit/task.wit`",
    ),
    code(
        "component_too_complex",
        422,
        "the component is too complex to be compiled safely",
        "split large functions and tables, and build with optimisations",
    ),
    code(
        "component_compile_limit",
        422,
        "compiling the component took too much time or memory",
        "build it with optimisations, or in smaller parts",
    ),
    code("compiler_busy", 503, "too many uploads wait for the compiler", "send it again in some seconds"),
    code(
        "component_check_failed",
        500,
        "the host could not check the component",
        "try again; the node's log says more",
    ),
    // The node.
    code("too_many_waits", 503, "too many requests wait for the end of tasks", "ask again without `wait`, or later"),
    code("shutting_down", 503, "the host is shutting down", "try again once it is up again"),
    code("host_broken", 503, "a part of the host has failed", "restart the host; its log says what failed"),
    code("store_failed", 503, "the store failed", "see the node's log; check the disk"),
    code("store_in_use", 503, "another process has the store", "stop the other process"),
    code("store_too_new", 503, "the store was written by a newer program", "use the newer program"),
    code("io_failed", 503, "a file could not be read or written", "see the node's log; check the disk"),
    code("sandbox_unavailable", 503, "the sandbox cannot be set up", "see the node's log"),
    code("internal", 500, "a defect of the host", "see the node's log, and tell its makers"),
];
