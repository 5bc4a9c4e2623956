//! What must be true of the database after each step.

use rusqlite::Connection;

use super::History;
use super::reference::Is;

impl History {
    pub(super) fn check(&mut self, shell: &Connection) {
        let number = |what: &str| -> i64 {
            shell.prepare_cached(what).unwrap().query_row([], |row| row.get(0)).unwrap()
        };
        // At most one dispatch each, and none of what was never claimed.
        assert_eq!(
            number(
                "SELECT coalesce(max(n), 0) > 1 FROM (SELECT count(*) AS n FROM (SELECT effect FROM attempt WHERE kind = 'dispatch'
                 UNION ALL SELECT key FROM effect WHERE stage = 'dispatching') GROUP BY effect)"
            ),
            0
        );
        // The counters are the sums over the effects.
        let (reserved, unknown): (i64, i64) = shell
            .prepare_cached("SELECT reserved, unknown_exposure FROM impact_limit")
            .unwrap()
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let sum = |of: fn(Is) -> bool| {
            self.reference.known.iter().filter(|known| of(known.is)).map(|known| known.amount).sum::<i64>()
        };
        assert_eq!(reserved, sum(|is| matches!(is, Is::Dispatching | Is::Unknown)));
        assert_eq!(unknown, sum(|is| is == Is::Unknown));
        assert_eq!(
            number("SELECT coalesce(sum(amount), 0) FROM consumption"),
            sum(|is| matches!(is, Is::Succeeded(_)))
        );
        assert!(self.reference.free(self.now) >= 0);
        // Every effect stands where the reference has it, and what was settled stays as it was.
        let mut statement = shell
            .prepare_cached(
                "SELECT id, stage, coalesce(result, ''), coalesce(verification, '') FROM effect ORDER BY key",
            )
            .unwrap();
        let stands = statement
            .query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, String>(2)?,
                    row.get::<_, String>(3)?,
                ))
            })
            .unwrap();
        for (row, known) in stands.zip(&self.reference.known) {
            let (id, stage, result, verification) = row.unwrap();
            let expected = match known.is {
                Is::Waiting => "awaiting_approval",
                Is::Ready => "ready",
                Is::Dispatching => "dispatching",
                Is::Unknown => "reconciling",
                Is::Succeeded(_) | Is::Failed => "settled",
                Is::Rejected => "rejected",
            };
            assert_eq!((id.as_str(), stage.as_str()), (known.id.as_str(), expected));
            assert_eq!(result == "failed", known.is == Is::Failed);
            if stage == "settled" {
                let before = self
                    .reference
                    .settled
                    .entry(known.id.clone())
                    .or_insert((result.clone(), verification.clone()));
                assert_eq!(*before, (result, verification));
            }
        }
    }
}
