-- Frozen: what has been released is never edited; a change is a file of its own.
--
-- Instants are microseconds since 1970 in UTC, durations carry their unit, ids have 16 bytes, digests 32.
-- The CHECKs repeat what the state machine holds to; SQL decides nothing. No foreign keys: one writer puts a task
-- and what belongs to it into one transaction, and a look-up for each row would only tell it what it knows.

-- Numbers that are never given twice, whatever is deleted, and what else the writer must not forget.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('audit', 0), ('outbox', 0), ('logs', 0), ('id_skew_ms', 0);

-- Terms are few and tasks many: each set is kept once. `max_age` stands in the task, as it varies with the start.
CREATE TABLE terms (
    id   INTEGER PRIMARY KEY,
    body TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE tasks (
    id            BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
    -- What it is: never changes.
    task_type     TEXT    NOT NULL,
    type_version  INTEGER,
    component     BLOB    CHECK (length(component) = 32),
    queue         TEXT    NOT NULL,
    priority      INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
    dedup_key     TEXT,
    dedup_scope   TEXT    NOT NULL CHECK (dedup_scope = 'record' OR dedup_scope = 'live'),
    creator       TEXT,
    request_id    TEXT,
    -- Trace id, span id, flags of the W3C trace context.
    trace         BLOB    NOT NULL CHECK (length(trace) = 25),
    -- JSON: name and value, sorted by name.
    labels        TEXT,
    created_at    INTEGER NOT NULL,
    run_after     INTEGER,
    max_age_ns    INTEGER NOT NULL,
    terms         INTEGER NOT NULL,
    -- Where it is in its life.
    version       INTEGER NOT NULL CHECK (version >= 1),
    holds_key     INTEGER NOT NULL CHECK (holds_key = 0 OR holds_key = 1),
    state         TEXT    NOT NULL,
    generation    INTEGER NOT NULL CHECK (generation >= 1),
    generation_at INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    retries       INTEGER NOT NULL,
    wait          TEXT,
    ready_at      INTEGER,
    alarm_at      INTEGER,
    node          BLOB    CHECK (length(node) = 16),
    claimed_at    INTEGER,
    stop_reason   TEXT,
    stop_by       TEXT,
    stop_why      TEXT,
    stop_asked_at INTEGER,
    stop_kill_at  INTEGER,
    reason        TEXT,
    manner        TEXT,
    ended_at      INTEGER,
    detail        TEXT    NOT NULL,

    CONSTRAINT component_has_version CHECK ((type_version IS NULL) = (component IS NULL)),
    CONSTRAINT held_key_exists CHECK (holds_key = 0 OR dedup_key IS NOT NULL),
    CONSTRAINT state_known CHECK (
        state = 'PENDING' OR state = 'RUNNING' OR state = 'SUCCESS' OR state = 'FAILED' OR state = 'CANCELLED'
        OR state = 'TIMED_OUT' OR state = 'INTERRUPTED' OR state = 'REJECTED'
    ),
    CONSTRAINT retries_within_attempts CHECK (retries BETWEEN 0 AND attempts),
    CONSTRAINT running_has_attempt CHECK (attempts >= 1 OR state <> 'RUNNING'),
    CONSTRAINT pending_and_nothing_else_waits CHECK (
        (wait IS NOT NULL) = (state = 'PENDING')
        AND (ready_at IS NULL) = (wait IS NULL) AND (alarm_at IS NULL) = (wait IS NULL)
    ),
    CONSTRAINT running_and_nothing_else_has_node CHECK (
        (node IS NOT NULL) = (state = 'RUNNING')
        AND (claimed_at IS NULL) = (node IS NULL) AND (stop_reason IS NULL OR node IS NOT NULL)
    ),
    CONSTRAINT stop_is_whole CHECK (
        (stop_by IS NULL) = (stop_reason IS NULL) AND (stop_why IS NULL) = (stop_reason IS NULL)
        AND (stop_asked_at IS NULL) = (stop_reason IS NULL) AND (stop_kill_at IS NULL) = (stop_reason IS NULL)
    ),
    CONSTRAINT ended_and_nothing_else_has_reason CHECK (
        (reason IS NULL) = (state = 'PENDING' OR state = 'RUNNING')
        AND (manner IS NULL) = (reason IS NULL) AND (ended_at IS NULL) = (reason IS NULL)
        AND (reason IS NOT NULL OR detail = '')
    ),
    CONSTRAINT wait_fits CHECK (
        wait IS NULL OR wait = 'ready' OR (wait = 'scheduled' AND attempts = 0) OR (wait = 'retry' AND retries >= 1)
    ),
    CONSTRAINT manner_fits CHECK (
        manner IS NULL OR manner = 'not_running' OR (attempts >= 1 AND (manner = 'returned' OR manner = 'killed'))
    )
) STRICT, WITHOUT ROWID;

-- Each index ends with the id, which sorts by birth.
-- PENDING tasks: only they have these columns.
CREATE INDEX tasks_pending ON tasks (queue, priority, ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX tasks_alarm ON tasks (alarm_at) WHERE alarm_at IS NOT NULL;
CREATE UNIQUE INDEX tasks_key ON tasks (task_type, dedup_key) WHERE holds_key = 1;
CREATE INDEX tasks_state ON tasks (state);
CREATE INDEX tasks_type ON tasks (task_type);
CREATE INDEX tasks_queue ON tasks (queue) WHERE queue <> 'default';
CREATE INDEX tasks_creator ON tasks (creator) WHERE creator IS NOT NULL;
CREATE INDEX tasks_trace ON tasks (trace);

-- The index to `tasks.labels`.
CREATE TABLE labels (
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    task  BLOB NOT NULL,
    PRIMARY KEY (name, value, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE inputs (
    task  BLOB NOT NULL PRIMARY KEY CHECK (length(task) = 16),
    input TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE results (
    task    BLOB    NOT NULL PRIMARY KEY CHECK (length(task) = 16),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    result  TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Attempts that are over.
CREATE TABLE attempts (
    task              BLOB    NOT NULL CHECK (length(task) = 16),
    attempt           INTEGER NOT NULL CHECK (attempt >= 1),
    generation        INTEGER NOT NULL CHECK (generation >= 1),
    node              BLOB    NOT NULL CHECK (length(node) = 16),
    claimed_at        INTEGER NOT NULL,
    entered_at        INTEGER,
    heartbeat_at      INTEGER,
    ended_at          INTEGER NOT NULL,
    outcome           TEXT    NOT NULL CHECK (outcome <> 'PENDING' AND outcome <> 'RUNNING'),
    reason            TEXT    NOT NULL,
    detail            TEXT    NOT NULL,
    -- The cost receipt.
    wall_us           INTEGER NOT NULL,
    cpu_us            INTEGER NOT NULL,
    fuel              INTEGER,
    memory_bytes_peak INTEGER NOT NULL,
    host_calls        INTEGER NOT NULL,
    bytes_in          INTEGER NOT NULL,
    bytes_out         INTEGER NOT NULL,
    log_lines         INTEGER NOT NULL,
    log_lines_dropped INTEGER NOT NULL,
    -- The stop receipt.
    stop_asked_at     INTEGER,
    stop_told_at      INTEGER,
    stop_seen_at      INTEGER,
    stop_killed_at    INTEGER,
    stop_gone_at      INTEGER,
    stop_written_at   INTEGER,
    stop_ring         INTEGER CHECK (stop_ring BETWEEN 1 AND 3),
    progress_done     REAL,
    progress_total    REAL,
    progress_note     TEXT,
    -- JSON: where the guest died.
    scene             TEXT,

    PRIMARY KEY (task, attempt),
    CONSTRAINT stop_is_whole CHECK (
        (stop_ring IS NULL) = (stop_asked_at IS NULL) AND (stop_gone_at IS NULL) = (stop_asked_at IS NULL)
        AND (stop_written_at IS NULL) = (stop_asked_at IS NULL)
    ),
    CONSTRAINT progress_is_done_first CHECK (
        progress_done IS NOT NULL OR (progress_total IS NULL AND progress_note IS NULL)
    )
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    number     INTEGER PRIMARY KEY,
    task       BLOB    NOT NULL CHECK (length(task) = 16),
    at         INTEGER NOT NULL,
    from_state TEXT,
    to_state   TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    trace      BLOB    NOT NULL CHECK (length(trace) = 25)
) STRICT;

CREATE INDEX audit_task ON audit (task);

CREATE TABLE outbox (
    number     INTEGER PRIMARY KEY,
    task       BLOB    NOT NULL CHECK (length(task) = 16),
    event      TEXT    NOT NULL,
    audit      INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE logs (
    task    BLOB    NOT NULL CHECK (length(task) = 16),
    attempt INTEGER NOT NULL,
    -- The line's number within the attempt.
    line    INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    level   TEXT    NOT NULL,
    message TEXT    NOT NULL,
    PRIMARY KEY (task, attempt, line)
) STRICT, WITHOUT ROWID;

CREATE INDEX logs_number ON logs (task, number);

CREATE TABLE components (
    digest      BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
    bytes       INTEGER NOT NULL,
    uploaded_at INTEGER NOT NULL,
    uploaded_by TEXT    NOT NULL,
    -- JSON: lists of names.
    imports     TEXT    NOT NULL,
    exports     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE types (
    name         TEXT    NOT NULL,
    version      INTEGER NOT NULL CHECK (version >= 1),
    component    BLOB    NOT NULL CHECK (length(component) = 32),
    -- JSON: what differs from the defaults.
    terms        TEXT    NOT NULL,
    input_schema TEXT,
    created_at   INTEGER NOT NULL,
    created_by   TEXT    NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

-- The queues that are paused; without `below`, whole.
CREATE TABLE pauses (
    queue TEXT    NOT NULL PRIMARY KEY,
    below INTEGER CHECK (below BETWEEN -128 AND 127),
    by    TEXT    NOT NULL,
    why   TEXT    NOT NULL,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
