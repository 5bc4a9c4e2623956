-- An attempt's key is its effect's times 2^20 and a number: one that leaves no room for that is no effect's. SQLite gives
-- them out from 1 upwards, so that only another hand can ask for such a key.
DROP TRIGGER effect_begins;
CREATE TRIGGER effect_begins BEFORE INSERT ON effect
WHEN NEW.stage NOT IN ('awaiting_approval', 'dispatching') OR NEW.key >= 8796093022208
    OR (NEW.preview IS NOT NULL AND NOT EXISTS (SELECT 1 FROM preview WHERE id = NEW.preview
        AND caller = NEW.caller AND action = NEW.action AND expires_at > NEW.created_at
        AND superseded_at IS NULL AND used_by IS NULL))
BEGIN SELECT RAISE(ABORT, 'an effect begins as awaiting_approval or dispatching, with a key below 2^43, and with a preview that is good for it'); END;
