//! What the outside world knows at a moment of a recording: bytes that the bank may have, and answers that were shown.

use std::collections::{HashMap, HashSet};

use oncegate_tests::answer::Answer;
use serde_json::Value;

use crate::below::journal::{Call, Journal};
use crate::below::rows::{Fault, Summary};

/// What was shown of an effect, in the order in which it can become more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    /// Its name.
    #[default]
    Named,
    Unknown,
    Failed,
    Acknowledged,
    Confirmed,
    Denied,
}

/// All that is known.
#[derive(Clone, Default)]
pub(crate) struct Known {
    /// By the bank's key: how many sends began, and the bytes of the first.
    sent: HashMap<String, (i64, Vec<u8>)>,
    /// Sends without a key, by method and URL.
    sent_plain: HashSet<String>,
    /// Paths of writes whose head did not arrive whole.
    cut: HashSet<String>,
    shown: HashMap<String, Shown>,
    decided: HashMap<String, String>,
    halts: i64,
}

impl Known {
    /// Takes what one call tells the world.
    pub(crate) fn learn(&mut self, call: &Call, journal: &Journal) {
        match call {
            Call::Send(data) => self.handed(journal.data(data)),
            Call::Answer(data) => self.answered(journal.data(data)),
            Call::Start
            | Call::Open { .. }
            | Call::Write { .. }
            | Call::Truncate { .. }
            | Call::Sync
            | Call::Rename { .. }
            | Call::Unlink(_)
            | Call::Close
            | Call::Connect
            | Call::Fault => {}
        }
    }

    /// Takes what the bank read on one connection: requests one after the other, the last of them perhaps cut off.
    pub(crate) fn read_at_the_bank(&mut self, stream: &[u8]) {
        let text = String::from_utf8_lossy(stream);
        let mut rest = text.as_ref();
        while !rest.is_empty() {
            let Some((head, body)) = rest.split_once("\r\n\r\n") else {
                self.cut.extend(
                    rest.strip_prefix("POST ")
                        .and_then(|path| path.split_once(' '))
                        .map(|(path, _)| path.to_owned()),
                );
                return;
            };
            let length = field(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            let length = body.len().min(length);
            let (body, after) = body.split_at_checked(length).unwrap_or((body, ""));
            self.sent(head, body);
            rest = after;
        }
    }

    /// Takes one write towards the bank.
    fn handed(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            self.sent(head, body);
        }
    }

    fn sent(&mut self, head: &str, body: &str) {
        let mut words = head.split(' ');
        let (Some("POST"), Some(path)) = (words.next(), words.next()) else { return };
        // A key that the effect did not make is the agent's own, passed on with what is not governed.
        match field(head, "idempotency-key").filter(|key| key.contains("eff_")) {
            Some(key) => {
                let first = self.sent.entry(key.to_owned()).or_insert((0, body.as_bytes().to_vec()));
                first.0 += 1;
            }
            None => {
                let host = field(head, "host").unwrap_or_default();
                self.sent_plain.insert(format!("POST http://{host}{path}"));
            }
        }
    }

    /// Takes one write towards a client.
    fn answered(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            self.shown(&|name| field(head, name), body);
        }
    }

    /// Takes an answer as a client read it.
    pub(crate) fn told(&mut self, answer: &Answer) {
        self.shown(&|name| answer.header(name), &answer.text());
    }

    fn shown<'a>(&mut self, field: &dyn Fn(&str) -> Option<&'a str>, body: &str) {
        if let Some(id) = field("oncegate-effect") {
            let shown = match (field("oncegate-outcome"), field("oncegate-code")) {
                (Some("succeeded"), _) => Shown::Acknowledged,
                (Some("failed"), _) => Shown::Failed,
                (Some("denied"), _) => Shown::Denied,
                (Some("unknown"), Some("oncegate_outcome_unknown")) => Shown::Unknown,
                _ => Shown::Named,
            };
            self.show(id, shown);
        }
        let Ok(document) = serde_json::from_str::<Value>(body) else { return };
        let data = &document["data"];
        match (data["id"].as_str(), data["grade"].as_str(), data["status"].as_str()) {
            (Some(id), Some(grade), _) if id.starts_with("eff_") => self.show(
                id,
                match grade {
                    "confirmed" => Shown::Confirmed,
                    "acknowledged" => Shown::Acknowledged,
                    "failed" => Shown::Failed,
                    "unknown" => Shown::Unknown,
                    "denied" => Shown::Denied,
                    _ => Shown::Named,
                },
            ),
            (Some(id), _, Some(status)) if id.starts_with("apr_") => {
                self.decided.insert(id.to_owned(), status.to_owned());
            }
            _ => {}
        }
        if data["halted"] == true {
            self.halts += 1;
        }
    }

    fn show(&mut self, id: &str, shown: Shown) {
        let known = self.shown.entry(id.to_owned()).or_default();
        *known = (*known).max(shown);
    }

    /// Whether a database can be what was left: I1, I2, I3, I6 and I7.
    pub(crate) fn judge(&self, found: &Summary) -> Result<(), Fault> {
        for (key, (times, body)) in &self.sent {
            let Some(row) = found.effects.get(key) else {
                return Err(format!("I2: the bank was sent {key}, and there is no such effect"));
            };
            if row.dispatches != 1 || row.holds.is_empty() {
                return Err(format!("I2: the bank was sent {key}, and it is not claimed and held: {row:?}"));
            }
            if *times > row.dispatches + row.replays {
                return Err(format!("I1: the bank was sent {key} {times} times: {row:?}"));
            }
            // The bytes are erased when it is settled.
            if row.stage != "settled" && row.body.as_ref() != Some(body) {
                return Err(format!("I2: the bank was sent other bytes than are kept: {row:?}"));
            }
            let settled = row.seen > 0 || row.verification == "manual";
            if row.result == "failed" && !settled {
                return Err(format!(
                    "I3: the bank was sent {key}, and it is failed without its word: {row:?}"
                ));
            }
        }
        for target in &self.sent_plain {
            if !found.plain.contains_key(target) {
                return Err(format!("I2: the bank was sent {target}, and there is no such invocation"));
            }
        }
        for path in &self.cut {
            let account = path.rsplit('/').next().unwrap_or_default();
            let mut rows = found.effects.values().filter(|row| row.subject == account);
            let plain = found.plain.keys().any(|target| target.ends_with(path));
            if !plain
                && !rows.any(|row| {
                    row.dispatches == 1 && (row.result != "failed" || row.verification == "manual")
                })
            {
                return Err(format!("I2: the bank was sent a part of {path}, and that is not recorded"));
            }
        }
        let by_id: HashMap<&str, _> = found.effects.values().map(|row| (row.id.as_str(), row)).collect();
        for (id, shown) in &self.shown {
            let Some(row) = by_id.get(id.as_str()) else {
                return Err(format!("I7: {id} was shown, and there is no such effect"));
            };
            if !shown.still(&row.stage, &row.result) {
                return Err(format!("I6: {id} was shown as {shown:?}, and is now {row:?}"));
            }
        }
        for (id, status) in &self.decided {
            if status != "pending" && found.approvals.get(id) != Some(status) {
                return Err(format!("I6: approval {id} was {status}, and is {:?}", found.approvals.get(id)));
            }
        }
        if found.halts < self.halts {
            return Err(format!("I6: a halt was shown and is not there: {} of {}", found.halts, self.halts));
        }
        Ok(())
    }
}

impl Shown {
    /// Whether an effect can be here after this was shown.
    fn still(self, stage: &str, result: &str) -> bool {
        match self {
            Self::Named => true,
            Self::Unknown => stage == "reconciling" || stage == "settled",
            Self::Failed => result == "failed",
            Self::Acknowledged => result == "acknowledged" || result == "confirmed",
            Self::Confirmed => result == "confirmed",
            Self::Denied => stage == "rejected",
        }
    }
}

/// The first value of a field in a head.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(field, value)| field.trim().eq_ignore_ascii_case(name).then(|| value.trim()))
}
