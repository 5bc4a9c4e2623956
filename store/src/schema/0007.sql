-- Fewer pages and less work for each write, and the same rules.
--   Room on a limit is a row that does not change when its effect is settled: how it ended follows from that.
--   An invocation that is called as its effect is needs no index of its own.
--   Only what is evidence is found by its effect, and no answer by its age.
--   Two triggers fail and do not abort: they look at a row of which nothing is written yet, and for an abort SQLite copies
--   each page that the statement touches, to undo it. `UPDATE OR FAIL` and `INSERT OR FAIL` go with them.

-- What refers to the effects is counted while they are away.
PRAGMA defer_foreign_keys = ON;

DROP INDEX response_age;
DROP INDEX event_effect;
CREATE INDEX event_effect ON event (effect) WHERE effect IS NOT NULL AND text IS NOT NULL;

CREATE TABLE hold_7 AS SELECT * FROM hold;
DROP TABLE hold;

CREATE TABLE effect_7 AS SELECT * FROM effect;
DROP TABLE effect;
-- An invocation of a governed action and its effect: one row, because there is exactly one of each. What it names is looked
-- for by triggers: a reference would be one more thing for which SQLite is ready to undo each statement.
CREATE TABLE effect (
    key             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE CHECK (id GLOB 'eff_*'),
    invocation      TEXT    NOT NULL CHECK (invocation GLOB 'inv_*'),
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
    retry_of        TEXT,
    retried_by      TEXT,
    compensates     TEXT,
    drill           TEXT,
    created_at      INTEGER NOT NULL,
    -- Where it stands, and what is true only then.
    stage           TEXT    NOT NULL,
    approval        TEXT,
    expires_at      INTEGER,
    claimed_at      INTEGER,
    run             INTEGER,
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
    preview         TEXT,
    -- Which secrets stand where in what it sends: names only, as {"place": ["NAME"]}. Null for effects of before.
    credential      TEXT    CHECK (credential IS NULL OR json_valid(credential)),
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
INSERT INTO effect (key, id, invocation, caller, action, listener, fingerprint, caller_key, declared_key, subject, resource, dimension, unit,
    amount, bound, provider_key, replay_until, can_read_back, target, request_digest, retry_of, retried_by, compensates, drill,
    created_at, stage, approval, expires_at, claimed_at, run, unknown_since, next_look_at, looks, result, verification,
    settled_at, rejection, rejection_code, rejected_at, pruned_at, preview, credential)
SELECT key, id, invocation, caller, action, listener, fingerprint, caller_key, declared_key, subject, resource, dimension, unit,
    amount, bound, provider_key, replay_until, can_read_back, target, request_digest, retry_of, retried_by, compensates, drill,
    created_at, stage, approval, expires_at, claimed_at, run, unknown_since, next_look_at, looks, result, verification,
    settled_at, rejection, rejection_code, rejected_at, pruned_at, preview, credential
FROM effect_7 ORDER BY key;
DROP TABLE effect_7;

-- A caller's key names one request of an action for life.
CREATE UNIQUE INDEX effect_caller_key ON effect (caller, action, caller_key) WHERE caller_key IS NOT NULL;
CREATE INDEX effect_declared_key ON effect (action, declared_key) WHERE declared_key IS NOT NULL;
CREATE INDEX effect_fingerprint ON effect (fingerprint);
-- An invocation has its effect's id with another beginning. Those of before have one of their own.
CREATE UNIQUE INDEX effect_invocation ON effect (invocation) WHERE substr(invocation, 5) <> substr(id, 5);
CREATE UNIQUE INDEX effect_retry_of ON effect (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX effect_retried_by ON effect (retried_by) WHERE retried_by IS NOT NULL;
CREATE INDEX effect_compensates ON effect (compensates) WHERE compensates IS NOT NULL;
CREATE UNIQUE INDEX effect_preview ON effect (preview) WHERE preview IS NOT NULL;
-- What is open is little, whatever has been settled: these stay small.
CREATE INDEX effect_open ON effect (action, subject, fingerprint) WHERE stage NOT IN ('settled', 'rejected');
CREATE INDEX effect_due ON effect (next_look_at) WHERE stage = 'reconciling' AND next_look_at IS NOT NULL;
CREATE INDEX effect_waiting ON effect (expires_at) WHERE stage = 'awaiting_approval';
CREATE INDEX effect_ready ON effect (created_at) WHERE stage = 'ready';

-- An attempt's key is its effect's times 2^20 and a number: an effect's key leaves room for that.
CREATE TRIGGER effect_begins BEFORE INSERT ON effect
WHEN NEW.stage NOT IN ('awaiting_approval', 'dispatching') OR NEW.key >= 8796093022208 OR NEW.retried_by IS NOT NULL
    OR (NEW.run IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run WHERE key = NEW.run))
    OR EXISTS (SELECT 1 FROM effect WHERE invocation = NEW.invocation AND substr(invocation, 5) <> substr(id, 5))
    OR (substr(NEW.invocation, 5) <> substr(NEW.id, 5)
        AND EXISTS (SELECT 1 FROM effect WHERE id = 'eff_' || substr(NEW.invocation, 5) AND invocation = NEW.invocation))
    OR (NEW.retry_of IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM effect WHERE id = 'eff_' || substr(NEW.retry_of, 5) AND invocation = NEW.retry_of)
        AND NOT EXISTS (SELECT 1 FROM effect
            WHERE invocation = NEW.retry_of AND substr(invocation, 5) <> substr(id, 5)))
    OR (NEW.compensates IS NOT NULL AND NOT EXISTS (SELECT 1 FROM effect WHERE id = NEW.compensates))
    OR (NEW.preview IS NOT NULL AND NOT EXISTS (SELECT 1 FROM preview WHERE id = NEW.preview
        AND caller = NEW.caller AND action = NEW.action AND expires_at > NEW.created_at
        AND superseded_at IS NULL AND used_by IS NULL))
BEGIN SELECT RAISE(ABORT, 'an effect begins as awaiting_approval or dispatching, with a key below 2^43, under an invocation of its own, and what it names is there and good for it'); END;

-- The key has four names.
CREATE TRIGGER effect_identity BEFORE UPDATE OF key, rowid, _rowid_, oid, id, invocation, caller, action, fingerprint,
    caller_key, declared_key, provider_key, request_digest, amount, created_at, retry_of, retried_by, compensates,
    claimed_at, pruned_at, preview, credential
ON effect
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.invocation IS NOT OLD.invocation
    OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action OR NEW.fingerprint IS NOT OLD.fingerprint
    OR NEW.caller_key IS NOT OLD.caller_key OR NEW.declared_key IS NOT OLD.declared_key
    OR NEW.provider_key IS NOT OLD.provider_key OR NEW.request_digest IS NOT OLD.request_digest
    OR NEW.amount IS NOT OLD.amount OR NEW.created_at IS NOT OLD.created_at OR NEW.retry_of IS NOT OLD.retry_of
    OR NEW.compensates IS NOT OLD.compensates OR NEW.preview IS NOT OLD.preview
    -- What a person approved, or a replay repeats, is sent as whom it was prepared for.
    OR NEW.credential IS NOT OLD.credential
    OR (NEW.retried_by IS NOT OLD.retried_by AND (OLD.retried_by IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM effect WHERE retry_of = OLD.invocation AND invocation = NEW.retried_by)))
    OR (OLD.claimed_at IS NOT NULL AND NEW.claimed_at IS NOT OLD.claimed_at)
    OR (OLD.pruned_at IS NOT NULL AND NEW.pruned_at IS NOT OLD.pruned_at)
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;

-- A stage never goes backwards, an effect is claimed once, by one run, and goes on from there with its dispatch. The end is
-- the end; only what was acknowledged may still be seen at the provider.
CREATE TRIGGER effect_moves BEFORE UPDATE OF stage, run, result, verification, settled_at, rejection, rejection_code, rejected_at
ON effect
WHEN NOT CASE OLD.stage
    WHEN 'dispatching'       THEN NEW.stage IN ('settled', 'reconciling')
        AND EXISTS (SELECT 1 FROM attempt WHERE key = OLD.key << 20)
    WHEN 'reconciling'       THEN NEW.stage IN ('reconciling', 'settled')
    WHEN 'settled'           THEN NEW.stage = 'settled'
        AND NEW.settled_at IS OLD.settled_at
        AND ((NEW.result IS OLD.result AND NEW.verification IS OLD.verification)
             OR (OLD.result IS 'acknowledged' AND OLD.verification IS 'unverified' AND NEW.result IS 'confirmed'
                 AND NEW.verification IS 'provider'))
    WHEN 'awaiting_approval' THEN NEW.stage = 'awaiting_approval' OR NEW.stage IN ('ready', 'rejected')
    WHEN 'ready'             THEN NEW.stage IN ('ready', 'rejected')
        OR (NEW.stage = 'dispatching' AND EXISTS (SELECT 1 FROM run WHERE key = NEW.run))
    WHEN 'rejected'          THEN NEW.stage = 'rejected' AND NEW.rejection IS OLD.rejection
        AND NEW.rejection_code IS OLD.rejection_code AND NEW.rejected_at IS OLD.rejected_at
    ELSE 0 END
BEGIN SELECT RAISE(FAIL, 'a stage never goes backwards nor on without its dispatch, and the end does not change'); END;

CREATE TRIGGER effect_stays BEFORE DELETE ON effect
WHEN OLD.pruned_at IS NULL
    OR EXISTS (SELECT 1 FROM attempt WHERE key BETWEEN OLD.key << 20 AND (OLD.key << 20) + 1048575)
    OR EXISTS (SELECT 1 FROM room WHERE effect = OLD.key)
    OR EXISTS (SELECT 1 FROM effect WHERE retry_of = OLD.invocation)
    OR EXISTS (SELECT 1 FROM effect WHERE retried_by = OLD.invocation)
    OR EXISTS (SELECT 1 FROM effect WHERE compensates = OLD.id)
BEGIN SELECT RAISE(ABORT, 'only a pruned effect may be removed, after its attempts and its room, and if no other names it'); END;

DROP TRIGGER plain_begins;
CREATE TRIGGER plain_begins BEFORE INSERT ON plain_invocation
WHEN NEW.status <> 'running' OR NEW.pruned_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM effect WHERE id = 'eff_' || substr(NEW.id, 5) AND invocation = NEW.id)
    OR EXISTS (SELECT 1 FROM effect WHERE invocation = NEW.id AND substr(invocation, 5) <> substr(id, 5))
BEGIN SELECT RAISE(ABORT, 'an invocation begins as running, under an id of its own'); END;

-- Named by effects and attempts.
CREATE TRIGGER run_identity BEFORE UPDATE OF key, rowid, _rowid_, oid, id ON run
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id
BEGIN SELECT RAISE(ABORT, 'a run stays the same one'); END;
CREATE TRIGGER run_stays BEFORE DELETE ON run
BEGIN SELECT RAISE(ABORT, 'runs are not removed'); END;

-- Room taken on a limit. It is held until its effect is settled: consumed by a success and free again after a failure, but
-- for what a person has said, who resolved it, how much it was.
CREATE TABLE room (
    effect     INTEGER NOT NULL,
    limit_key  INTEGER NOT NULL,
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    -- In a person's words, once.
    actual     INTEGER CHECK (actual >= 0),
    PRIMARY KEY (effect, limit_key)
) STRICT, WITHOUT ROWID;
INSERT INTO room
SELECT hold_7.effect, limit_key, hold_7.amount,
    CASE WHEN state = 'held' THEN NULL
        WHEN verification IS NOT 'manual' AND consumed = iif(result = 'failed', 0, hold_7.amount)
            AND state = iif(result = 'failed', 'released', 'consumed') THEN NULL
        ELSE consumed END
FROM hold_7 JOIN effect ON effect.key = hold_7.effect ORDER BY hold_7.effect, limit_key;
DROP TABLE hold_7;

CREATE TRIGGER room_begins BEFORE INSERT ON room
WHEN NEW.actual IS NOT NULL OR NOT EXISTS (SELECT 1 FROM impact_limit WHERE key = NEW.limit_key)
    OR NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.effect AND stage IN ('dispatching', 'reconciling'))
BEGIN SELECT RAISE(FAIL, 'room is taken on a limit, for what is in flight or unknown'); END;

CREATE TRIGGER room_ends_once BEFORE UPDATE ON room
WHEN OLD.actual IS NOT NULL OR NEW.actual IS NULL OR NEW.effect IS NOT OLD.effect
    OR NEW.limit_key IS NOT OLD.limit_key OR NEW.amount IS NOT OLD.amount
    OR NOT EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage = 'settled' AND verification = 'manual')
BEGIN SELECT RAISE(ABORT, 'only who resolves an effect says how much it was, once'); END;

CREATE TRIGGER room_stays BEFORE DELETE ON room
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'holds are not removed'); END;

CREATE TRIGGER impact_limit_keeps_its_key BEFORE UPDATE OF key, rowid, _rowid_, oid ON impact_limit
WHEN NEW.key IS NOT OLD.key
BEGIN SELECT RAISE(ABORT, 'a limit keeps its key'); END;

-- Each hold as it stands: held, then consumed or released, with its effect.
CREATE VIEW hold (effect, limit_key, amount, state, consumed, ended_at) AS
SELECT room.effect, room.limit_key, room.amount,
    CASE WHEN effect.stage <> 'settled' THEN 'held'
        WHEN room.actual IS NULL THEN iif(effect.result = 'failed', 'released', 'consumed')
        ELSE iif(room.actual = 0, 'released', 'consumed') END,
    CASE WHEN effect.stage = 'settled'
        THEN coalesce(room.actual, iif(effect.result = 'failed', 0, room.amount)) END,
    effect.settled_at
FROM room JOIN effect ON effect.key = room.effect;
