-- The first schema. The database repeats every rule that must never break, so that a fault in the program, or a
-- hand at the sqlite3 shell, is refused and not believed. Times are milliseconds since 1970, UTC.
-- Lists of more than two words are spelled out in the checks of hot tables: SQLite builds a table for each IN list
-- that is longer, whenever the statement runs.

-- One run of the process: a dispatch of an earlier run has no living owner.
CREATE TABLE run (
    key         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE,
    started_at  INTEGER NOT NULL
) STRICT;

-- An invocation of a governed action and its effect: one row, because there is exactly one of each.
CREATE TABLE effect (
    key             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE CHECK (id GLOB 'eff_*'),
    invocation      TEXT    NOT NULL UNIQUE CHECK (invocation GLOB 'inv_*'),
    caller          TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    listener        TEXT    NOT NULL,
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    caller_key      TEXT,
    declared_key    TEXT,
    subject         TEXT,
    resource        TEXT,
    dimension       TEXT,
    unit            TEXT,
    amount          INTEGER CHECK (amount >= 0),
    bound           TEXT    CHECK (bound IN ('exact', 'upper_bound')),
    provider_key    TEXT    NOT NULL,
    replay_until    INTEGER,
    can_read_back   INTEGER NOT NULL CHECK (can_read_back IN (0, 1)),
    target          TEXT    NOT NULL,
    request_digest  BLOB    NOT NULL CHECK (length(request_digest) = 32),
    retry_of        TEXT    REFERENCES effect (invocation),
    retried_by      TEXT    REFERENCES effect (invocation),
    compensates     TEXT    REFERENCES effect (id),
    drill           TEXT,
    created_at      INTEGER NOT NULL,
    -- Where it stands, and what is true only then.
    stage           TEXT    NOT NULL,
    approval        TEXT,
    expires_at      INTEGER,
    claimed_at      INTEGER,
    run             INTEGER REFERENCES run (key),
    unknown_since   INTEGER,
    next_look_at    INTEGER,
    looks           INTEGER NOT NULL DEFAULT 0 CHECK (looks >= 0),
    result          TEXT,
    verification    TEXT,
    settled_at      INTEGER,
    rejection       TEXT,
    rejection_code  TEXT,
    rejected_at     INTEGER,
    pruned_at       INTEGER,
    CHECK ((dimension IS NULL) = (unit IS NULL) AND (dimension IS NULL) = (bound IS NULL)),
    CHECK (dimension IS NOT NULL OR amount IS NULL),
    CHECK (retry_of IS NOT invocation AND retried_by IS NOT invocation AND compensates IS NOT id),
    CHECK (pruned_at IS NULL OR stage IN ('settled', 'rejected')),
    CHECK ((stage = 'dispatching') = (run IS NOT NULL)),
    CHECK (next_look_at IS NULL OR stage = 'reconciling'),
    CHECK ((stage = 'settled') = (result IS NOT NULL)
           AND (result IS NULL) = (verification IS NULL) AND (result IS NULL) = (settled_at IS NULL)),
    CHECK ((stage = 'rejected') = (rejection IS NOT NULL)
           AND (rejection IS NULL) = (rejected_at IS NULL)
           AND (rejection_code IS NOT NULL) = (rejection IS 'refused')),
    CHECK (CASE rejection WHEN 'refused' THEN 1 WHEN 'denied' THEN 1 WHEN 'expired' THEN 1 ELSE rejection IS NULL END),
    CHECK (CASE result
        WHEN 'confirmed'    THEN verification = 'provider'
        WHEN 'acknowledged' THEN verification IN ('unverified', 'manual')
        WHEN 'failed'       THEN verification = 'provider' OR verification IN ('unverified', 'manual')
        ELSE result IS NULL END),
    CHECK (CASE stage
        WHEN 'awaiting_approval' THEN approval IS NOT NULL AND expires_at IS NOT NULL AND claimed_at IS NULL
                                      AND unknown_since IS NULL
        WHEN 'ready'             THEN approval IS NOT NULL AND expires_at IS NULL AND claimed_at IS NULL
                                      AND unknown_since IS NULL
        WHEN 'dispatching'       THEN expires_at IS NULL AND claimed_at IS NOT NULL AND unknown_since IS NULL
        WHEN 'reconciling'       THEN expires_at IS NULL AND claimed_at IS NOT NULL AND unknown_since IS NOT NULL
        WHEN 'settled'           THEN expires_at IS NULL AND claimed_at IS NOT NULL
        WHEN 'rejected'          THEN expires_at IS NULL AND claimed_at IS NULL AND unknown_since IS NULL
        ELSE 0 END)
) STRICT;

-- A caller's key names one request of an action for life.
CREATE UNIQUE INDEX effect_caller_key ON effect (caller, action, caller_key) WHERE caller_key IS NOT NULL;
CREATE INDEX effect_declared_key ON effect (action, declared_key) WHERE declared_key IS NOT NULL;
CREATE INDEX effect_fingerprint ON effect (fingerprint);
CREATE UNIQUE INDEX effect_retry_of ON effect (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX effect_retried_by ON effect (retried_by) WHERE retried_by IS NOT NULL;
CREATE INDEX effect_compensates ON effect (compensates) WHERE compensates IS NOT NULL;
-- What is open is little, whatever has been settled: these stay small.
CREATE INDEX effect_open ON effect (fingerprint) WHERE stage NOT IN ('settled', 'rejected');
CREATE INDEX effect_subject ON effect (action, subject)
    WHERE subject IS NOT NULL AND stage NOT IN ('settled', 'rejected');
CREATE INDEX effect_due ON effect (next_look_at) WHERE stage = 'reconciling' AND next_look_at IS NOT NULL;
CREATE INDEX effect_waiting ON effect (expires_at) WHERE stage = 'awaiting_approval';
CREATE INDEX effect_ready ON effect (created_at) WHERE stage = 'ready';

CREATE TRIGGER effect_begins BEFORE INSERT ON effect
WHEN NEW.stage NOT IN ('awaiting_approval', 'dispatching')
BEGIN SELECT RAISE(ABORT, 'an effect begins as awaiting_approval or dispatching'); END;

CREATE TRIGGER effect_moves BEFORE UPDATE ON effect
WHEN NEW.stage IS NOT OLD.stage AND NOT CASE OLD.stage
    WHEN 'awaiting_approval' THEN NEW.stage IN ('ready', 'rejected')
    WHEN 'ready'             THEN NEW.stage IN ('dispatching', 'rejected')
    WHEN 'dispatching'       THEN NEW.stage IN ('reconciling', 'settled')
    WHEN 'reconciling'       THEN NEW.stage = 'settled'
    ELSE 0 END
BEGIN SELECT RAISE(ABORT, 'a stage never goes backwards'); END;

-- The end is the end; only what was acknowledged may still be seen at the provider.
CREATE TRIGGER effect_ended BEFORE UPDATE ON effect
WHEN OLD.stage IN ('settled', 'rejected')
    AND (NEW.result IS NOT OLD.result OR NEW.verification IS NOT OLD.verification
         OR NEW.settled_at IS NOT OLD.settled_at OR NEW.rejection IS NOT OLD.rejection
         OR NEW.rejection_code IS NOT OLD.rejection_code OR NEW.rejected_at IS NOT OLD.rejected_at)
    AND NOT (OLD.result IS 'acknowledged' AND OLD.verification IS 'unverified' AND NEW.result IS 'confirmed'
             AND NEW.verification IS 'provider' AND NEW.settled_at IS OLD.settled_at)
BEGIN SELECT RAISE(ABORT, 'a settled effect does not change'); END;

CREATE TRIGGER effect_identity BEFORE UPDATE ON effect
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.invocation IS NOT OLD.invocation
    OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action OR NEW.fingerprint IS NOT OLD.fingerprint
    OR NEW.caller_key IS NOT OLD.caller_key OR NEW.declared_key IS NOT OLD.declared_key
    OR NEW.provider_key IS NOT OLD.provider_key OR NEW.request_digest IS NOT OLD.request_digest
    OR NEW.amount IS NOT OLD.amount OR NEW.created_at IS NOT OLD.created_at OR NEW.retry_of IS NOT OLD.retry_of
    OR (OLD.retried_by IS NOT NULL AND NEW.retried_by IS NOT OLD.retried_by)
    OR (OLD.claimed_at IS NOT NULL AND NEW.claimed_at IS NOT OLD.claimed_at)
    OR (OLD.pruned_at IS NOT NULL AND NEW.pruned_at IS NOT OLD.pruned_at)
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;

CREATE TRIGGER effect_stays BEFORE DELETE ON effect WHEN OLD.pruned_at IS NULL
BEGIN SELECT RAISE(ABORT, 'only a pruned effect may be removed'); END;

-- The prepared request and what a look needs; gone once the effect is settled.
CREATE TABLE request (
    effect   INTEGER PRIMARY KEY REFERENCES effect (key),
    method   TEXT NOT NULL,
    url      TEXT NOT NULL,
    headers  TEXT NOT NULL,
    memory   TEXT NOT NULL,
    body     BLOB NOT NULL
) STRICT;

-- What a repeat is answered with.
CREATE TABLE response (
    effect   INTEGER PRIMARY KEY REFERENCES effect (key),
    at       INTEGER NOT NULL,
    source   TEXT    NOT NULL CHECK (source = 'dispatch' OR source IN ('replay', 'read_back')),
    status   INTEGER NOT NULL CHECK (status BETWEEN 100 AND 999),
    reason   TEXT,
    headers  TEXT    NOT NULL,
    body     BLOB    NOT NULL
) STRICT;
CREATE INDEX response_age ON response (at);

CREATE TABLE dependency (
    effect     INTEGER NOT NULL REFERENCES effect (key),
    on_effect  INTEGER NOT NULL REFERENCES effect (key),
    outcome    TEXT    NOT NULL,
    PRIMARY KEY (effect, on_effect)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_on ON dependency (on_effect);

-- One contact with the provider.
CREATE TABLE attempt (
    key         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL UNIQUE CHECK (id GLOB 'att_*'),
    effect      INTEGER NOT NULL REFERENCES effect (key),
    kind        TEXT    NOT NULL CHECK (kind = 'dispatch' OR kind IN ('replay', 'reconcile')),
    author      TEXT,
    run         INTEGER NOT NULL REFERENCES run (key),
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    verdict     TEXT CHECK (verdict = 'succeeded' OR verdict IN ('failed', 'unknown')),
    seen        TEXT CHECK (CASE seen WHEN 'answered' THEN 1 WHEN 'lost' THEN 1 WHEN 'not_sent' THEN 1
                                WHEN 'matched' THEN 1 WHEN 'provider_failed' THEN 1 WHEN 'no_match' THEN 1
                                WHEN 'unreadable' THEN 1 ELSE seen IS NULL END),
    step        TEXT,
    cause       TEXT,
    status      INTEGER,
    digest      BLOB,
    CHECK ((ended_at IS NULL) = (seen IS NULL)),
    CHECK (seen IS NOT NULL OR (verdict IS NULL AND step IS NULL AND cause IS NULL AND status IS NULL AND digest IS NULL)),
    CHECK ((kind = 'reconcile') = (verdict IS NULL) OR ended_at IS NULL)
) STRICT;
CREATE INDEX attempt_effect ON attempt (effect);
CREATE INDEX attempt_open ON attempt (run) WHERE ended_at IS NULL;
-- Sent at most once.
CREATE UNIQUE INDEX attempt_one_dispatch ON attempt (effect) WHERE kind = 'dispatch';
CREATE UNIQUE INDEX attempt_one_open_replay ON attempt (effect) WHERE kind = 'replay' AND ended_at IS NULL;

CREATE TRIGGER attempt_begins BEFORE INSERT ON attempt
WHEN NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.effect AND CASE NEW.kind
    WHEN 'dispatch' THEN stage = 'dispatching'
    WHEN 'replay'   THEN stage = 'reconciling'
    ELSE stage IN ('dispatching', 'reconciling', 'settled') END)
BEGIN SELECT RAISE(ABORT, 'no attempt in this stage'); END;

CREATE TRIGGER attempt_ends_once BEFORE UPDATE ON attempt
WHEN OLD.ended_at IS NOT NULL OR NEW.ended_at IS NULL OR NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id
    OR NEW.effect IS NOT OLD.effect OR NEW.kind IS NOT OLD.kind OR NEW.author IS NOT OLD.author
    OR NEW.run IS NOT OLD.run OR NEW.started_at IS NOT OLD.started_at
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;

CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;

-- Counters stand beside the limit, so that an admission never adds up what was settled.
CREATE TABLE impact_limit (
    key               INTEGER PRIMARY KEY,
    id                TEXT    NOT NULL UNIQUE CHECK (id GLOB 'lim_*'),
    name              TEXT    NOT NULL,
    dimension         TEXT    NOT NULL,
    unit              TEXT    NOT NULL,
    period            TEXT    NOT NULL CHECK (period IN ('day', 'month', 'total')),
    amount            INTEGER NOT NULL CHECK (amount >= 0),
    action            TEXT,
    resource_prefix   TEXT,
    reserved          INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    unknown_exposure  INTEGER NOT NULL DEFAULT 0 CHECK (unknown_exposure >= 0),
    created_at        INTEGER NOT NULL,
    archived_at       INTEGER,
    CHECK (unknown_exposure <= reserved)
) STRICT;
CREATE UNIQUE INDEX impact_limit_name ON impact_limit (name) WHERE archived_at IS NULL;

CREATE TRIGGER impact_limit_stays BEFORE DELETE ON impact_limit
BEGIN SELECT RAISE(ABORT, 'a limit is archived, never removed'); END;

-- By day always, so that another period can be built from it, and by the limit's own period.
CREATE TABLE consumption (
    limit_key     INTEGER NOT NULL REFERENCES impact_limit (key),
    period        TEXT    NOT NULL CHECK (period IN ('day', 'month', 'total')),
    period_start  INTEGER NOT NULL,
    amount        INTEGER NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (limit_key, period, period_start)
) STRICT, WITHOUT ROWID;

-- Room taken on a limit: held, then consumed or released, once.
CREATE TABLE hold (
    key        INTEGER PRIMARY KEY,
    effect     INTEGER NOT NULL REFERENCES effect (key),
    limit_key  INTEGER NOT NULL REFERENCES impact_limit (key),
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    state      TEXT    NOT NULL CHECK (state = 'held' OR state IN ('consumed', 'released')),
    consumed   INTEGER CHECK (consumed >= 0),
    ended_at   INTEGER,
    UNIQUE (effect, limit_key),
    CHECK ((state = 'held') = (ended_at IS NULL) AND (state = 'held') = (consumed IS NULL)),
    CHECK (state <> 'released' OR consumed = 0)
) STRICT;

CREATE TRIGGER hold_begins BEFORE INSERT ON hold WHEN NEW.state <> 'held'
BEGIN SELECT RAISE(ABORT, 'a hold begins as held'); END;

CREATE TRIGGER hold_ends_once BEFORE UPDATE ON hold
WHEN OLD.state <> 'held' OR NEW.state = 'held' OR NEW.key IS NOT OLD.key OR NEW.effect IS NOT OLD.effect
    OR NEW.limit_key IS NOT OLD.limit_key OR NEW.amount IS NOT OLD.amount
BEGIN SELECT RAISE(ABORT, 'a hold ends once'); END;

CREATE TRIGGER hold_ends_with_its_effect BEFORE UPDATE ON hold
WHEN NOT EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage = 'settled')
BEGIN SELECT RAISE(ABORT, 'a hold ends when its effect is settled'); END;

CREATE TRIGGER hold_stays BEFORE DELETE ON hold
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'holds are not removed'); END;

CREATE TABLE approval (
    key          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE CHECK (id GLOB 'apr_*'),
    effect       INTEGER UNIQUE REFERENCES effect (key),
    caller       TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    description  TEXT,
    payload      TEXT,
    asked_at     INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    status       TEXT    NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    decided_by   TEXT,
    decided_at   INTEGER,
    note         TEXT,
    CHECK ((status = 'pending') = (decided_at IS NULL)),
    CHECK ((status IN ('approved', 'denied')) = (decided_by IS NOT NULL)),
    -- Who asks does not decide.
    CHECK (decided_by IS NOT caller)
) STRICT;
CREATE INDEX approval_pending ON approval (expires_at) WHERE status = 'pending';

CREATE TRIGGER approval_decided_once BEFORE UPDATE ON approval
WHEN OLD.status <> 'pending' OR NEW.status = 'pending' OR NEW.effect IS NOT OLD.effect OR NEW.caller IS NOT OLD.caller
BEGIN SELECT RAISE(ABORT, 'an approval is decided once'); END;

CREATE TABLE halt (
    key        INTEGER PRIMARY KEY,
    reason     TEXT    NOT NULL,
    by         TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    lifted_by  TEXT,
    lifted_at  INTEGER,
    CHECK ((lifted_by IS NULL) = (lifted_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX halt_one ON halt ((1)) WHERE lifted_at IS NULL;

-- The chain: every change, each with the hash of the one before.
CREATE TABLE event (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    effect     TEXT,
    stage      TEXT,
    author     TEXT,
    text       TEXT,
    detail     TEXT    NOT NULL CHECK (json_valid(detail)),
    prev_hash  BLOB    NOT NULL CHECK (length(prev_hash) = 32),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
CREATE INDEX event_effect ON event (effect) WHERE effect IS NOT NULL;

CREATE TRIGGER event_fixed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;
CREATE TRIGGER event_stays BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END;

-- Where the chain ends, so that a cut tail is noticed.
CREATE TABLE chain_head (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    seq   INTEGER NOT NULL,
    hash  BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;
INSERT INTO chain_head VALUES (1, 0, zeroblob(32));
CREATE TRIGGER chain_head_grows BEFORE UPDATE ON chain_head WHEN NEW.seq <= OLD.seq
BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;
CREATE TRIGGER chain_head_stays BEFORE DELETE ON chain_head
BEGIN SELECT RAISE(ABORT, 'the chain only grows'); END;

-- For people and programs at the sqlite3 shell. The columns of the first two are documented and stay.

CREATE VIEW unresolved (id, stage, action, subject, amount, unit, age_s, next_look_at, last_evidence) AS
SELECT id, stage, action, subject, amount, unit, max(0, unixepoch() - created_at / 1000),
    strftime('%Y-%m-%dT%H:%M:%SZ', next_look_at / 1000, 'unixepoch'),
    (SELECT event.text FROM event WHERE event.effect = effect.id AND event.text IS NOT NULL ORDER BY event.seq DESC LIMIT 1)
FROM effect
WHERE stage NOT IN ('settled', 'rejected');

CREATE VIEW exposure ("limit", dimension, unit, period, period_start, amount, consumed, reserved, unknown_exposure,
                      available) AS
SELECT name, dimension, unit, period, strftime('%Y-%m-%dT%H:%M:%SZ', start_s, 'unixepoch'), amount, consumed,
    reserved, unknown_exposure, amount - consumed - reserved
FROM (
    SELECT current.*, coalesce((SELECT used.amount FROM consumption AS used WHERE used.limit_key = current.key
        AND used.period = current.period AND used.period_start = current.start_s * 1000), 0) AS consumed
    FROM (
        SELECT *, CASE period
            WHEN 'day'   THEN unixepoch('now', 'start of day')
            WHEN 'month' THEN unixepoch('now', 'start of month')
            ELSE 0 END AS start_s
        FROM impact_limit WHERE archived_at IS NULL
    ) AS current
);

CREATE VIEW evidence (seq, at, effect, kind, author, text, detail) AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch'), effect, kind, author, text, detail
FROM event WHERE text IS NOT NULL;
