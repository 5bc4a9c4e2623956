-- What was prepared is sent as it was prepared, is approved before it is sent, and is fenced when it is claimed as it would be
-- if it were asked for then.

-- What subjects are compared in, whatever the actions are called. Null for effects of before, and for those without a subject.
ALTER TABLE request ADD COLUMN realm TEXT;
-- Other subjects that a parked request is fenced by when it is let go: [["named" | "beginning", SUBJECT], ...]. Null for none.
ALTER TABLE request ADD COLUMN near TEXT CHECK (near IS NULL OR json_valid(near));

-- By subject first: what is open on it may be another action's.
DROP INDEX effect_open;
CREATE INDEX effect_open ON effect (subject, action, fingerprint) WHERE stage NOT IN ('settled', 'rejected');

-- It is erased after the end, never changed.
CREATE TRIGGER request_fixed BEFORE UPDATE ON request
WHEN NEW.effect IS NOT OLD.effect OR NEW.method IS NOT OLD.method OR NEW.url IS NOT OLD.url OR NEW.memory IS NOT OLD.memory
    OR NEW.realm IS NOT OLD.realm OR NEW.near IS NOT OLD.near
    OR ((NEW.headers IS NOT OLD.headers OR NEW.body IS NOT OLD.body)
        AND NOT (NEW.headers = '[]' AND NEW.body = x''
            AND EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage = 'settled')))
BEGIN SELECT RAISE(FAIL, 'a prepared request does not change'); END;
CREATE TRIGGER request_stays BEFORE DELETE ON request
WHEN EXISTS (SELECT 1 FROM effect WHERE key = OLD.effect AND stage NOT IN ('settled', 'rejected'))
BEGIN SELECT RAISE(FAIL, 'a prepared request stays until its effect has ended'); END;

-- A stage never goes backwards, an effect is claimed once, by one run, and goes on from there with its dispatch. The end is
-- the end; only what was acknowledged may still be seen at the provider. What waits for a person goes on with a yes.
DROP TRIGGER effect_moves;
CREATE TRIGGER effect_moves BEFORE UPDATE OF stage, run, result, verification, settled_at, rejection, rejection_code, rejected_at,
    unknown_since, approval
ON effect
WHEN NEW.approval IS NOT OLD.approval OR NOT CASE OLD.stage
    WHEN 'dispatching'       THEN NEW.stage IN ('settled', 'reconciling')
        AND EXISTS (SELECT 1 FROM attempt WHERE key = OLD.key << 20)
    WHEN 'reconciling'       THEN NEW.stage IN ('reconciling', 'settled') AND NEW.unknown_since IS OLD.unknown_since
    WHEN 'settled'           THEN NEW.stage = 'settled'
        AND NEW.settled_at IS OLD.settled_at AND NEW.unknown_since IS OLD.unknown_since
        AND ((NEW.result IS OLD.result AND NEW.verification IS OLD.verification)
             OR (OLD.result IS 'acknowledged' AND OLD.verification IS 'unverified' AND NEW.result IS 'confirmed'
                 AND NEW.verification IS 'provider'))
    WHEN 'awaiting_approval' THEN NEW.stage = 'awaiting_approval' OR NEW.stage = 'rejected'
        OR (NEW.stage = 'ready' AND EXISTS (SELECT 1 FROM approval
            WHERE id = OLD.approval AND effect = OLD.key AND status = 'approved'))
    WHEN 'ready'             THEN NEW.stage IN ('ready', 'rejected')
        OR (NEW.stage = 'dispatching' AND EXISTS (SELECT 1 FROM run WHERE key = NEW.run)
            AND EXISTS (SELECT 1 FROM approval WHERE id = OLD.approval AND effect = OLD.key AND status = 'approved'))
    WHEN 'rejected'          THEN NEW.stage = 'rejected' AND NEW.rejection IS OLD.rejection
        AND NEW.rejection_code IS OLD.rejection_code AND NEW.rejected_at IS OLD.rejected_at
    ELSE 0 END
BEGIN SELECT RAISE(FAIL, 'a stage never goes backwards nor on without its approval or its dispatch, and the end does not change'); END;

CREATE TRIGGER effect_judged BEFORE UPDATE OF listener, subject, resource, dimension, unit, bound, target, drill, can_read_back
ON effect
WHEN NEW.listener IS NOT OLD.listener OR NEW.subject IS NOT OLD.subject OR NEW.resource IS NOT OLD.resource
    OR NEW.dimension IS NOT OLD.dimension OR NEW.unit IS NOT OLD.unit OR NEW.bound IS NOT OLD.bound
    OR NEW.target IS NOT OLD.target OR NEW.drill IS NOT OLD.drill OR NEW.can_read_back < OLD.can_read_back
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;
