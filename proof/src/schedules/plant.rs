//! Faults that are planted in a database before schedules are played on it, to see that they would be found.

/// Which check of the store is undone behind its back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A key does not stay with its effect: nothing makes the claim unique.
    KeyForgotten,
    /// A hold is not counted: every request finds room.
    RoomUncounted,
    /// What becomes unknown is called failed at once.
    UnknownFreed,
    /// A key may decide about its own effects.
    OwnWord,
}

impl Plant {
    pub(crate) const ALL: [Self; 4] =
        [Self::KeyForgotten, Self::RoomUncounted, Self::UnknownFreed, Self::OwnWord];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::KeyForgotten => "a key is forgotten",
            Self::RoomUncounted => "room is not counted",
            Self::UnknownFreed => "an unknown is freed",
            Self::OwnWord => "a key resolves its own",
        }
    }

    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::KeyForgotten => {
                "DROP TRIGGER effect_identity;
                 CREATE TRIGGER planted AFTER INSERT ON effect WHEN NEW.caller_key IS NOT NULL
                 BEGIN UPDATE effect SET caller_key = NULL WHERE key = NEW.key; END;"
            }
            Self::RoomUncounted => {
                "CREATE TRIGGER planted AFTER UPDATE OF reserved ON impact_limit WHEN NEW.reserved > OLD.reserved
                 BEGIN UPDATE impact_limit SET reserved = OLD.reserved WHERE key = NEW.key; END;"
            }
            Self::UnknownFreed => {
                "CREATE TRIGGER planted AFTER UPDATE OF stage ON effect WHEN NEW.stage = 'reconciling'
                 BEGIN UPDATE effect SET stage = 'settled', result = 'failed', verification = 'unverified',
                     settled_at = NEW.unknown_since, next_look_at = NULL WHERE key = NEW.key; END;"
            }
            // The caller is taken for another one, so that the question who asked is answered wrongly.
            Self::OwnWord => {
                "DROP TRIGGER effect_identity;
                 CREATE TRIGGER planted AFTER UPDATE OF stage ON effect WHEN NEW.stage = 'reconciling' AND NEW.caller_key IS NULL
                 BEGIN UPDATE effect SET caller = 'nobody' WHERE key = NEW.key; END;"
            }
        }
    }
}
