-- Less work for each write, and the same rules. A dispatch is a row of its own from when something was seen of it: before,
-- its effect says `dispatching`, by which run and since when.
DROP TRIGGER attempt_stays;
DELETE FROM attempt
WHERE kind = 'dispatch' AND ended_at IS NULL AND id IS NULL
    AND EXISTS (SELECT 1 FROM effect WHERE effect.key = attempt.effect AND stage = 'dispatching'
        AND effect.claimed_at = attempt.started_at AND effect.run = attempt.run);
CREATE TRIGGER attempt_stays BEFORE DELETE ON attempt
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND pruned_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'attempts are append-only'); END;

DROP TRIGGER attempt_begins;
CREATE TRIGGER attempt_begins BEFORE INSERT ON attempt
WHEN NOT EXISTS (SELECT 1 FROM effect WHERE key = NEW.effect AND CASE NEW.kind
    WHEN 'dispatch' THEN stage = 'dispatching' AND run = NEW.run AND claimed_at = NEW.started_at
    WHEN 'replay'   THEN stage = 'reconciling'
    ELSE stage = 'dispatching' OR stage IN ('reconciling', 'settled') END)
BEGIN SELECT RAISE(ABORT, 'no attempt in this stage'); END;

-- An effect is claimed once, by one run. SQLite builds a table for each list of more than two words, whenever the statement runs.
DROP TRIGGER effect_moves;
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
    WHEN 'ready'             THEN NEW.stage = 'ready' OR NEW.stage IN ('dispatching', 'rejected')
    WHEN 'rejected'          THEN NEW.stage = 'rejected' AND NEW.rejection IS OLD.rejection
        AND NEW.rejection_code IS OLD.rejection_code AND NEW.rejected_at IS OLD.rejected_at
    ELSE 0 END
BEGIN SELECT RAISE(ABORT, 'a stage never goes backwards nor on without its dispatch, and the end does not change'); END;
