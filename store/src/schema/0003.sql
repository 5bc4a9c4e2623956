-- Which secrets stand where in what an effect sends: names only, as {"place": ["NAME"]}. Null for effects of before.
ALTER TABLE effect ADD COLUMN credential TEXT CHECK (credential IS NULL OR json_valid(credential));

-- What a person approved, or a replay repeats, is sent as whom it was prepared for.
CREATE TRIGGER effect_keeps_its_credential BEFORE UPDATE OF credential ON effect
WHEN NEW.credential IS NOT OLD.credential
BEGIN SELECT RAISE(ABORT, 'what an effect is does not change'); END;
