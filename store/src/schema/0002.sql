-- Previews, and invocations of actions that are not governed.

-- What a caller was shown of a call before it is made. Good for one effect, until it expires or is refreshed.
CREATE TABLE preview (
    key             INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE CHECK (id GLOB 'prv_*'),
    caller          TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    basis           BLOB    NOT NULL CHECK (length(basis) = 32),
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    input           TEXT    NOT NULL CHECK (json_valid(input)),
    document        TEXT    NOT NULL CHECK (json_valid(document)),
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    -- Only a name: what it was refreshed from may be gone already.
    refreshed_from  TEXT,
    superseded_at   INTEGER,
    used_by         INTEGER UNIQUE REFERENCES effect (key),
    CHECK (expires_at > created_at),
    CHECK (refreshed_from IS NOT id)
) STRICT;
-- Those that nothing is bound to, to count one caller's and to remove the expired.
CREATE INDEX preview_unused ON preview (caller, expires_at) WHERE used_by IS NULL;

ALTER TABLE effect ADD COLUMN preview TEXT;
CREATE UNIQUE INDEX effect_preview ON effect (preview) WHERE preview IS NOT NULL;

CREATE TRIGGER effect_bound BEFORE INSERT ON effect
WHEN NEW.preview IS NOT NULL AND NOT EXISTS (SELECT 1 FROM preview WHERE id = NEW.preview
    AND caller = NEW.caller AND action = NEW.action AND expires_at > NEW.created_at
    AND superseded_at IS NULL AND used_by IS NULL)
BEGIN SELECT RAISE(ABORT, 'this preview is not good for this effect'); END;

CREATE TRIGGER effect_stays_bound BEFORE UPDATE OF preview ON effect WHEN NEW.preview IS NOT OLD.preview
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;

CREATE TRIGGER preview_begins BEFORE INSERT ON preview
WHEN NEW.superseded_at IS NOT NULL OR NEW.used_by IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a preview begins unused'); END;

CREATE TRIGGER preview_used_once BEFORE UPDATE OF used_by ON preview
WHEN OLD.used_by IS NOT NULL
    OR NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.used_by AND preview = OLD.id)
BEGIN SELECT RAISE(ABORT, 'a preview is used once, by the effect that is bound to it'); END;

-- What was shown does not change; it is erased with the bulk of its effect.
CREATE TRIGGER preview_fixed BEFORE UPDATE ON preview
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action
    OR NEW.basis IS NOT OLD.basis OR NEW.fingerprint IS NOT OLD.fingerprint OR NEW.created_at IS NOT OLD.created_at
    OR NEW.expires_at IS NOT OLD.expires_at OR NEW.refreshed_from IS NOT OLD.refreshed_from
    OR (OLD.superseded_at IS NOT NULL AND NEW.superseded_at IS NOT OLD.superseded_at)
    OR ((NEW.input IS NOT OLD.input OR NEW.document IS NOT OLD.document)
        AND NOT (NEW.input = 'null' AND NEW.document = 'null'
                 AND EXISTS (SELECT 1 FROM effect WHERE key = OLD.used_by AND pruned_at IS NOT NULL)))
BEGIN SELECT RAISE(ABORT, 'a preview does not change'); END;

CREATE TRIGGER preview_stays BEFORE DELETE ON preview
WHEN EXISTS (SELECT 1 FROM effect WHERE preview = OLD.id AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'a preview stays with its effect'); END;

-- An invocation of an action that is not governed: no effect, no holds, no looks; sent at most once all the same.
CREATE TABLE plain_invocation (
    key                 INTEGER PRIMARY KEY,
    id                  TEXT    NOT NULL UNIQUE CHECK (id GLOB 'inv_*'),
    caller              TEXT    NOT NULL,
    action              TEXT    NOT NULL,
    listener            TEXT    NOT NULL,
    fingerprint         BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    caller_key          TEXT,
    target              TEXT    NOT NULL,
    retry_of            TEXT    REFERENCES plain_invocation (id),
    retried_by          TEXT    REFERENCES plain_invocation (id),
    created_at          INTEGER NOT NULL,
    status              TEXT    NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'unknown')),
    run                 INTEGER REFERENCES run (key),
    ended_at            INTEGER,
    seen                TEXT CHECK (seen IN ('answered', 'lost', 'not_sent')),
    step                TEXT,
    cause               TEXT,
    seen_status         INTEGER CHECK (seen_status BETWEEN 100 AND 999),
    response_reason     TEXT,
    response_headers    TEXT,
    response_body       BLOB,
    resolved_as         TEXT,
    resolved_by         TEXT,
    resolved_at         INTEGER,
    evidence            TEXT,
    external_reference  TEXT,
    pruned_at           INTEGER,
    CHECK (retry_of IS NOT id AND retried_by IS NOT id),
    CHECK ((status = 'running') = (run IS NOT NULL)),
    CHECK ((status = 'running') = (ended_at IS NULL) AND (status = 'running') = (seen IS NULL)),
    CHECK (seen IS NOT NULL OR (step IS NULL AND cause IS NULL AND seen_status IS NULL)),
    CHECK ((response_headers IS NULL) = (response_body IS NULL)),
    CHECK (response_body IS NULL OR (seen = 'answered' AND seen_status IS NOT NULL)),
    CHECK ((resolved_as IS NULL) = (resolved_by IS NULL) AND (resolved_as IS NULL) = (resolved_at IS NULL)
           AND (resolved_as IS NULL) = (evidence IS NULL)),
    CHECK (resolved_as IS NULL OR (resolved_as = status AND status IN ('succeeded', 'failed'))),
    CHECK (external_reference IS NULL OR resolved_as IS NOT NULL),
    CHECK (pruned_at IS NULL OR status IN ('succeeded', 'failed')),
    -- Who asks does not decide.
    CHECK (resolved_by IS NOT caller)
) STRICT;
CREATE UNIQUE INDEX plain_caller_key ON plain_invocation (caller, action, caller_key) WHERE caller_key IS NOT NULL;
CREATE UNIQUE INDEX plain_retry_of ON plain_invocation (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX plain_open ON plain_invocation (run) WHERE status = 'running';
-- Answers that may be erased after their time.
CREATE INDEX plain_answer_age ON plain_invocation (ended_at)
    WHERE response_body IS NOT NULL AND status IN ('succeeded', 'failed');

CREATE TRIGGER plain_begins BEFORE INSERT ON plain_invocation
WHEN NEW.status <> 'running' OR NEW.pruned_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM effect WHERE invocation = NEW.id)
BEGIN SELECT RAISE(ABORT, 'an invocation begins as running, under an id of its own'); END;

CREATE TRIGGER plain_moves BEFORE UPDATE ON plain_invocation
WHEN (NEW.status IS NOT OLD.status AND NOT CASE OLD.status
        WHEN 'running' THEN NEW.resolved_as IS NULL
        WHEN 'unknown' THEN NEW.resolved_as IS NOT NULL AND NEW.status IN ('succeeded', 'failed')
        ELSE 0 END)
    OR (NEW.status IS OLD.status AND (NEW.resolved_as IS NOT OLD.resolved_as OR NEW.resolved_by IS NOT OLD.resolved_by
        OR NEW.resolved_at IS NOT OLD.resolved_at OR NEW.evidence IS NOT OLD.evidence
        OR NEW.external_reference IS NOT OLD.external_reference))
BEGIN SELECT RAISE(ABORT, 'an invocation ends once, and only a person settles what is unknown'); END;

CREATE TRIGGER plain_seen_once BEFORE UPDATE ON plain_invocation
WHEN OLD.seen IS NOT NULL
    AND (NEW.seen IS NOT OLD.seen OR NEW.ended_at IS NOT OLD.ended_at OR NEW.step IS NOT OLD.step
         OR NEW.cause IS NOT OLD.cause OR NEW.seen_status IS NOT OLD.seen_status
         OR ((NEW.response_reason IS NOT OLD.response_reason OR NEW.response_headers IS NOT OLD.response_headers
              OR NEW.response_body IS NOT OLD.response_body)
             AND NOT (NEW.response_reason IS NULL AND NEW.response_headers IS NULL
                      AND NEW.status IN ('succeeded', 'failed'))))
BEGIN SELECT RAISE(ABORT, 'what was seen does not change'); END;

CREATE TRIGGER plain_identity BEFORE UPDATE ON plain_invocation
WHEN NEW.key IS NOT OLD.key OR NEW.id IS NOT OLD.id OR NEW.caller IS NOT OLD.caller OR NEW.action IS NOT OLD.action
    OR NEW.listener IS NOT OLD.listener OR NEW.fingerprint IS NOT OLD.fingerprint
    OR NEW.caller_key IS NOT OLD.caller_key OR NEW.target IS NOT OLD.target OR NEW.retry_of IS NOT OLD.retry_of
    OR NEW.created_at IS NOT OLD.created_at OR (NEW.run IS NOT OLD.run AND NEW.run IS NOT NULL)
    OR (OLD.retried_by IS NOT NULL AND NEW.retried_by IS NOT OLD.retried_by)
    OR (OLD.pruned_at IS NOT NULL AND NEW.pruned_at IS NOT OLD.pruned_at)
BEGIN SELECT RAISE(ABORT, 'what an invocation is does not change'); END;

CREATE TRIGGER plain_stays BEFORE DELETE ON plain_invocation WHEN OLD.pruned_at IS NULL
BEGIN SELECT RAISE(ABORT, 'only a pruned invocation may be removed'); END;
