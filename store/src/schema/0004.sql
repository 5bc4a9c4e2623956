-- Fewer pages for each write, and the same rules: an attempt and a hold are found by keys that hold their effect's, so
-- that neither needs an index for it, and a trigger runs only where a statement names a column that it guards.

DROP INDEX effect_subject;
DROP INDEX effect_open;
-- What is open is little, whatever has been settled: this stays small. In it, everything that an open effect is looked
-- for by.
CREATE INDEX effect_open ON effect (action, subject, fingerprint) WHERE stage NOT IN ('settled', 'rejected');

DROP TRIGGER effect_begins;
DROP TRIGGER effect_bound;
CREATE TRIGGER effect_begins BEFORE INSERT ON effect
WHEN NEW.stage NOT IN ('awaiting_approval', 'dispatching')
    OR (NEW.preview IS NOT NULL AND NOT EXISTS (SELECT 1 FROM preview WHERE id = NEW.preview
        AND caller = NEW.caller AND action = NEW.action AND expires_at > NEW.created_at
        AND superseded_at IS NULL AND used_by IS NULL))
BEGIN SELECT RAISE(ABORT, 'an effect begins as awaiting_approval or dispatching, and with a preview that is good for it'); END;

-- The key has four names.
DROP TRIGGER effect_identity;
CREATE TRIGGER effect_identity BEFORE UPDATE OF key, rowid, _rowid_, oid, id, invocation, caller, action, fingerprint,
    caller_key, declared_key, provider_key, request_digest, amount, created_at, retry_of, retried_by, claimed_at, pruned_at
ON effect
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.invocation IS NOT OLD.invocation
    OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action OR NEW.fingerprint IS NOT OLD.fingerprint
    OR NEW.caller_key IS NOT OLD.caller_key OR NEW.declared_key IS NOT OLD.declared_key
    OR NEW.provider_key IS NOT OLD.provider_key OR NEW.request_digest IS NOT OLD.request_digest
    OR NEW.amount IS NOT OLD.amount OR NEW.created_at IS NOT OLD.created_at OR NEW.retry_of IS NOT OLD.retry_of
    OR (OLD.retried_by IS NOT NULL AND NEW.retried_by IS NOT OLD.retried_by)
    OR (OLD.claimed_at IS NOT NULL AND NEW.claimed_at IS NOT OLD.claimed_at)
    OR (OLD.pruned_at IS NOT NULL AND NEW.pruned_at IS NOT OLD.pruned_at)
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;

-- A stage never goes backwards. The end is the end; only what was acknowledged may still be seen at the provider.
DROP TRIGGER effect_moves;
DROP TRIGGER effect_ended;
CREATE TRIGGER effect_moves BEFORE UPDATE OF stage, result, verification, settled_at, rejection, rejection_code, rejected_at
ON effect
WHEN NOT CASE OLD.stage
    WHEN 'dispatching'       THEN NEW.stage IN ('dispatching', 'reconciling', 'settled')
    WHEN 'reconciling'       THEN NEW.stage IN ('reconciling', 'settled')
    WHEN 'settled'           THEN NEW.stage = 'settled'
        AND NEW.settled_at IS OLD.settled_at
        AND ((NEW.result IS OLD.result AND NEW.verification IS OLD.verification)
             OR (OLD.result IS 'acknowledged' AND OLD.verification IS 'unverified' AND NEW.result IS 'confirmed'
                 AND NEW.verification IS 'provider'))
    WHEN 'awaiting_approval' THEN NEW.stage IN ('awaiting_approval', 'ready', 'rejected')
    WHEN 'ready'             THEN NEW.stage IN ('ready', 'dispatching', 'rejected')
    WHEN 'rejected'          THEN NEW.stage = 'rejected' AND NEW.rejection IS OLD.rejection
        AND NEW.rejection_code IS OLD.rejection_code AND NEW.rejected_at IS OLD.rejected_at
    ELSE 0 END
BEGIN SELECT RAISE(ABORT, 'a stage never goes backwards, and the end does not change'); END;

-- One contact with the provider. What is rebuilt is copied twice: giving a table another name makes SQLite read the whole
-- schema again, and a start of a new database would wait for that.
CREATE TABLE attempt_3 AS SELECT * FROM attempt;
DROP TABLE attempt;
CREATE TABLE attempt (
    -- The effect's key times 2^20, and a number. 0 is the one dispatch: there cannot be two.
    key         INTEGER PRIMARY KEY,
    -- None where it is the effect's own with another beginning, as a dispatch has it.
    id          TEXT    CHECK (id GLOB 'att_*'),
    effect      INTEGER NOT NULL,
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
    CHECK (effect = key >> 20 AND (kind = 'dispatch') = (key & 1048575 = 0) AND (id IS NOT NULL OR kind = 'dispatch')),
    CHECK ((ended_at IS NULL) = (seen IS NULL)),
    CHECK (seen IS NOT NULL OR (verdict IS NULL AND step IS NULL AND cause IS NULL AND status IS NULL AND digest IS NULL)),
    CHECK ((kind = 'reconcile') = (verdict IS NULL) OR ended_at IS NULL)
) STRICT;
INSERT INTO attempt
SELECT (old.effect << 20) + CASE kind WHEN 'dispatch' THEN 0
        ELSE row_number() OVER (PARTITION BY old.effect, kind = 'dispatch' ORDER BY old.key) END,
    CASE WHEN kind = 'dispatch' AND substr(old.id, 5) = substr(effect.id, 5) THEN NULL ELSE old.id END,
    old.effect, kind, author, old.run, started_at, ended_at, verdict, seen, step, cause, status, digest
FROM attempt_3 AS old JOIN effect ON effect.key = old.effect
ORDER BY old.effect, old.key;
DROP TABLE attempt_3;

CREATE UNIQUE INDEX attempt_id ON attempt (id) WHERE id IS NOT NULL;
CREATE INDEX attempt_open ON attempt (run) WHERE ended_at IS NULL;
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

-- An attempt names its effect by its key and not by a reference, which would need an index.
DROP TRIGGER effect_stays;
CREATE TRIGGER effect_stays BEFORE DELETE ON effect
WHEN OLD.pruned_at IS NULL
    OR EXISTS (SELECT 1 FROM attempt WHERE key BETWEEN OLD.key << 20 AND (OLD.key << 20) + 1048575)
BEGIN SELECT RAISE(ABORT, 'only a pruned effect may be removed, after its attempts'); END;

-- Room taken on a limit: held, then consumed or released, once.
CREATE TABLE hold_3 AS SELECT * FROM hold;
DROP TABLE hold;
CREATE TABLE hold (
    effect     INTEGER NOT NULL REFERENCES effect (key),
    limit_key  INTEGER NOT NULL REFERENCES impact_limit (key),
    amount     INTEGER NOT NULL CHECK (amount >= 0),
    state      TEXT    NOT NULL CHECK (state = 'held' OR state IN ('consumed', 'released')),
    consumed   INTEGER CHECK (consumed >= 0),
    ended_at   INTEGER,
    PRIMARY KEY (effect, limit_key),
    CHECK ((state = 'held') = (ended_at IS NULL) AND (state = 'held') = (consumed IS NULL)),
    CHECK (state <> 'released' OR consumed = 0)
) STRICT, WITHOUT ROWID;
INSERT INTO hold SELECT effect, limit_key, amount, state, consumed, ended_at FROM hold_3 ORDER BY effect, limit_key;
DROP TABLE hold_3;

CREATE TRIGGER hold_begins BEFORE INSERT ON hold WHEN NEW.state <> 'held'
BEGIN SELECT RAISE(ABORT, 'a hold begins as held'); END;

CREATE TRIGGER hold_ends_once BEFORE UPDATE ON hold
WHEN OLD.state <> 'held' OR NEW.state = 'held' OR NEW.effect IS NOT OLD.effect
    OR NEW.limit_key IS NOT OLD.limit_key OR NEW.amount IS NOT OLD.amount
    OR NOT EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage = 'settled')
BEGIN SELECT RAISE(ABORT, 'a hold ends once, when its effect is settled'); END;

CREATE TRIGGER hold_stays BEFORE DELETE ON hold
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'holds are not removed'); END;
