-- Each key of a caller that was answered with an invocation names that invocation for life.

-- Keys beside the one that stands in the invocation's own row: the second of a request that carried two, and those of its
-- repeats, which may be another caller's. A write that is new and came with one key has no row here.
CREATE TABLE further_key (
    caller    TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    -- What it names: one of the two.
    effect    INTEGER,
    plain     INTEGER,
    -- It came with the request that made the invocation, as `operationKey`.
    original  INTEGER NOT NULL CHECK (original IN (0, 1)),
    PRIMARY KEY (caller, action, key),
    CHECK ((effect IS NULL) <> (plain IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX further_key_effect ON further_key (effect, original) WHERE effect IS NOT NULL;
CREATE INDEX further_key_plain ON further_key (plain) WHERE plain IS NOT NULL;

CREATE TRIGGER further_key_begins BEFORE INSERT ON further_key
WHEN (NEW.effect IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.effect AND action = NEW.action))
    OR (NEW.plain IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM plain_invocation WHERE key = NEW.plain AND action = NEW.action AND caller = NEW.caller))
    OR EXISTS (SELECT 1 FROM further_key WHERE caller = NEW.caller AND action = NEW.action AND key = NEW.key)
    OR EXISTS (SELECT 1 FROM effect WHERE caller = NEW.caller AND action = NEW.action AND caller_key = NEW.key)
    OR EXISTS (SELECT 1 FROM plain_invocation
        WHERE caller = NEW.caller AND action = NEW.action AND caller_key = NEW.key)
BEGIN SELECT RAISE(ABORT, 'a key names one invocation of its action, and one that is there'); END;

CREATE TRIGGER further_key_fixed BEFORE UPDATE ON further_key
BEGIN SELECT RAISE(ABORT, 'a key names its invocation for life'); END;
CREATE TRIGGER further_key_stays BEFORE DELETE ON further_key
BEGIN SELECT RAISE(ABORT, 'a key names its invocation for life'); END;

CREATE TRIGGER effect_key_is_free BEFORE INSERT ON effect
WHEN NEW.caller_key IS NOT NULL AND EXISTS (SELECT 1 FROM further_key
    WHERE caller = NEW.caller AND action = NEW.action AND key = NEW.caller_key)
BEGIN SELECT RAISE(ABORT, 'this key names another invocation'); END;
CREATE TRIGGER plain_key_is_free BEFORE INSERT ON plain_invocation
WHEN NEW.caller_key IS NOT NULL AND EXISTS (SELECT 1 FROM further_key
    WHERE caller = NEW.caller AND action = NEW.action AND key = NEW.caller_key)
BEGIN SELECT RAISE(ABORT, 'this key names another invocation'); END;

CREATE TRIGGER effect_stays_under_its_keys BEFORE DELETE ON effect
WHEN EXISTS (SELECT 1 FROM further_key WHERE effect = OLD.key)
BEGIN SELECT RAISE(ABORT, 'what a key names stays'); END;
CREATE TRIGGER plain_stays_under_its_keys BEFORE DELETE ON plain_invocation
WHEN EXISTS (SELECT 1 FROM further_key WHERE plain = OLD.key)
BEGIN SELECT RAISE(ABORT, 'what a key names stays'); END;
