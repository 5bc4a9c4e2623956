//! The table: what an exchange proves about a write (DESIGN section 6).

use crate::check::Check;
use crate::exchange::{Answer, Exchange};
use crate::git_report;
use crate::json;
use crate::template::Scope;

/// What a dispatch or a replay showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The provider says it is done.
    Succeeded,
    /// Nothing was applied.
    Failed,
    /// It may have been applied.
    Unknown,
}

impl Verdict {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Where an action departs from the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseRules {
    /// Statuses that the provider documents as "not applied" although the table says unknown (GitHub: 409).
    pub failed_statuses: Vec<u16>,
    /// Inside a 2xx: all must hold for success. Empty: any complete 2xx is success.
    pub succeeded_when: Vec<Check>,
    /// Inside a 2xx: all must hold for a definite failure.
    pub failed_when: Vec<Check>,
    /// Inside a 2xx that is a success but for this: what the object's own `status` is when the provider documents that it
    /// was not done.
    pub failed_states: &'static [&'static str],
}

/// The verdict on what the wire showed.
#[must_use]
pub fn verdict(exchange: &Exchange, rules: &ResponseRules) -> Verdict {
    match exchange {
        Exchange::NotSent(_) => Verdict::Failed,
        Exchange::Lost(_) => Verdict::Unknown,
        Exchange::Answered(answer) => answered(answer, rules),
    }
}

fn answered(answer: &Answer, rules: &ResponseRules) -> Verdict {
    if rules.failed_statuses.contains(&answer.status) {
        return Verdict::Failed;
    }
    match answer.status {
        200..=299 => inside_success(answer, rules),
        // These three say "perhaps": a time-out on their side, a conflict with something that may be ourselves,
        // a client (us) that closed. Two say only that the answer cannot be given as the agent asked for it (`Accept`,
        // `Range`): frameworks find that out when the write is done (decision 0020).
        408 | 409 | 499 | 406 | 416 => Verdict::Unknown,
        // 425 (RFC 8470: not processed) and 429 (RFC 6585: refused) are here.
        400..=499 => Verdict::Failed,
        _ => Verdict::Unknown,
    }
}

/// An API that speaks inside a 2xx is believed only in the words its operator declared.
fn inside_success(answer: &Answer, rules: &ResponseRules) -> Verdict {
    if rules.succeeded_when.is_empty() && rules.failed_when.is_empty() {
        // One protocol always speaks inside a 2xx, and its words are known.
        let media = answer.headers.iter().find(|(name, _)| name == "content-type");
        let media = media.and_then(|(_, value)| value.split(';').next());
        let is_git = media.is_some_and(|media| media.trim().eq_ignore_ascii_case(git_report::MEDIA));
        return match is_git {
            true => git_report::verdict(&answer.body),
            false if has_failed(&answer.body, rules.failed_states) => Verdict::Failed,
            false => Verdict::Succeeded,
        };
    }
    let nothing = serde_json::Value::Null;
    // 204 never has a body (RFC 9110 section 15.3.5): nothing in it says that it failed.
    let bodiless = answer.status == 204;
    let body = if bodiless { Ok(nothing.clone()) } else { json::of_answer(&answer.body) };
    let Ok(body) = body else { return Verdict::Unknown };
    let scope = Scope { input: &nothing, effect_id: None, effect_key: None, response: Some(&body) };
    let all_hold =
        |checks: &[Check]| !checks.is_empty() && checks.iter().all(|check| check.holds(&body, &scope));
    match (all_hold(&rules.succeeded_when), !bodiless && all_hold(&rules.failed_when)) {
        (true, false) => Verdict::Succeeded,
        (false, true) => Verdict::Failed,
        // Both, or neither: the declaration does not say which.
        (true, true) | (false, false) => Verdict::Unknown,
    }
}

fn has_failed(body: &[u8], states: &[&str]) -> bool {
    let state = |object: &serde_json::Value| Some(states.contains(&object.get("status")?.as_str()?));
    !states.is_empty() && json::of_answer(body).ok().is_some_and(|object| state(&object) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Expected;
    use crate::exchange::{Loss, NotSent, Phase};

    fn status(status: u16) -> Exchange {
        Exchange::Answered(Answer { status, reason: None, headers: vec![], body: b"{}".to_vec() })
    }

    #[test]
    fn the_table() {
        use Verdict::{Failed, Succeeded, Unknown};
        let lost = |phase| Exchange::Lost(Loss { phase, cause: "reset".into(), status: None });
        for (exchange, verdict_is) in [
            (Exchange::NotSent(NotSent::Resolve("no such name".into())), Failed),
            (Exchange::NotSent(NotSent::Connect("refused".into())), Failed),
            (Exchange::NotSent(NotSent::Tls("wrong host".into())), Failed),
            (Exchange::NotSent(NotSent::Credential("invalid_client".into())), Failed),
            (Exchange::NotSent(NotSent::HandedBack("closed".into())), Failed),
            (lost(Phase::AwaitingHead), Unknown),
            (lost(Phase::ReadingBody), Unknown),
            (lost(Phase::Interrupted), Unknown),
            (status(200), Succeeded),
            (status(201), Succeeded),
            (status(204), Succeeded),
            (status(301), Unknown),
            (status(303), Unknown),
            (status(307), Unknown),
            (status(400), Failed),
            (status(401), Failed),
            (status(402), Failed),
            (status(404), Failed),
            (status(406), Unknown),
            (status(416), Unknown),
            (status(412), Failed),
            (status(408), Unknown),
            (status(409), Unknown),
            (status(413), Failed),
            (status(422), Failed),
            (status(425), Failed),
            (status(429), Failed),
            (status(499), Unknown),
            (status(500), Unknown),
            (status(503), Unknown),
            (status(599), Unknown),
            (status(600), Unknown),
            (status(199), Unknown),
        ] {
            assert_eq!(verdict(&exchange, &ResponseRules::default()), verdict_is, "{exchange:?}");
        }
    }

    #[test]
    fn a_documented_departure_is_one_status_wide() {
        let github = ResponseRules { failed_statuses: vec![409], ..ResponseRules::default() };
        assert_eq!(verdict(&status(409), &github), Verdict::Failed);
        assert_eq!(verdict(&status(408), &github), Verdict::Unknown);
    }

    fn check(path: &str, equals: &str) -> Check {
        Check { path: path.into(), equals: Some(Expected::Literal(serde_json::json!(equals))), absent: false }
    }

    fn says(body: &str) -> Exchange {
        let headers = vec![("content-type".into(), "application/json".into())];
        Exchange::Answered(Answer { status: 200, reason: None, headers, body: body.into() })
    }

    #[test]
    fn an_api_that_speaks_inside_a_2xx_is_believed_in_its_declared_words_only() {
        use Verdict::{Failed, Succeeded, Unknown};
        let both = ResponseRules {
            failed_states: &[],
            failed_statuses: vec![],
            succeeded_when: vec![check("ok", "true"), check("state", "done")],
            failed_when: vec![check("ok", "false"), check("state", "void")],
        };
        let only_success = ResponseRules { failed_when: vec![], ..both.clone() };
        let only_failure = ResponseRules { succeeded_when: vec![], ..both.clone() };
        for (body, by_both, by_success, by_failure) in [
            (r#"{"ok":true,"state":"done"}"#, Succeeded, Succeeded, Unknown),
            (r#"{"ok":false,"state":"void"}"#, Failed, Unknown, Failed),
            // One of two is not all of them.
            (r#"{"ok":true,"state":"void"}"#, Unknown, Unknown, Unknown),
            (r#"{"ok":true}"#, Unknown, Unknown, Unknown),
            ("{}", Unknown, Unknown, Unknown),
            ("", Unknown, Unknown, Unknown),
            (r#"{"ok":true,"state":"done""#, Unknown, Unknown, Unknown),
            (r#"{"ok":true,"state":"done","ok":true}"#, Unknown, Unknown, Unknown),
        ] {
            let said = says(body);
            assert_eq!(verdict(&said, &both), by_both, "{body}");
            assert_eq!(verdict(&said, &only_success), by_success, "{body}");
            assert_eq!(verdict(&said, &only_failure), by_failure, "{body}");
        }
        // Without a body nothing is said: that is a success only where one is whatever does not say that it failed.
        let not_void = Check { absent: true, ..check("state", "void") };
        let unless = |check| ResponseRules { succeeded_when: vec![check], ..only_success.clone() };
        assert_eq!(verdict(&status(204), &unless(not_void.clone())), Succeeded);
        assert_eq!(verdict(&status(204), &unless(check("ok", "true"))), Unknown);
        assert_eq!(verdict(&status(204), &only_failure), Unknown);
        let no_mark = Check { path: "id".into(), equals: None, absent: true };
        let failed_without = ResponseRules { failed_when: vec![no_mark], ..only_failure.clone() };
        assert_eq!(verdict(&status(204), &failed_without), Unknown, "what is not said is no failure");
        assert_eq!(
            verdict(&says(""), &unless(not_void)),
            Unknown,
            "a body that is missing is another matter"
        );
        // Declared twice, so that both hold: neither is believed.
        let torn = ResponseRules { failed_when: both.succeeded_when.clone(), ..both.clone() };
        assert_eq!(verdict(&says(r#"{"ok":true,"state":"done"}"#), &torn), Unknown);
        // They are asked inside a 2xx only.
        assert_eq!(verdict(&status(500), &only_success), Unknown);
        assert_eq!(verdict(&status(400), &only_success), Failed);
    }

    #[test]
    fn an_object_in_a_failed_state_was_not_done() {
        let rules = ResponseRules { failed_states: &["failed"], ..ResponseRules::default() };
        for (body, verdict_is) in [
            (r#"{"id":"re_1","status":"failed"}"#, Verdict::Failed),
            (r#"{"id":"re_1","status":"pending"}"#, Verdict::Succeeded),
            (r#"{"id":"re_1","charge":{"status":"failed"}}"#, Verdict::Succeeded),
            (r#"{"status":["failed"]}"#, Verdict::Succeeded),
            ("", Verdict::Succeeded),
        ] {
            assert_eq!(verdict(&says(body), &rules), verdict_is, "{body}");
        }
        assert_eq!(verdict(&says(r#"{"status":"failed"}"#), &ResponseRules::default()), Verdict::Succeeded);
    }

    #[test]
    fn the_report_of_a_push_is_read_by_its_media_type_unless_rules_are_declared() {
        let refused: &[u8] = b"000eunpack ok\n0013ng refs/heads/a0000";
        let pushed = |header: &str, media: &str| {
            let headers = vec![("date".into(), "x".into()), (header.to_owned(), media.to_owned())];
            Exchange::Answered(Answer { status: 200, reason: None, headers, body: refused.to_vec() })
        };
        let plain = ResponseRules::default();
        let git = "Application/X-Git-Receive-Pack-Result";
        assert_eq!(verdict(&pushed("content-type", git), &plain), Verdict::Failed);
        assert_eq!(
            verdict(&pushed("content-type", &format!("{git} ; charset=utf-8")), &plain),
            Verdict::Failed
        );
        assert_eq!(verdict(&pushed("content-type", "text/plain"), &plain), Verdict::Succeeded);
        assert_eq!(verdict(&pushed("x-other", git), &plain), Verdict::Succeeded);
        let declared = ResponseRules { succeeded_when: vec![check("ok", "true")], ..plain };
        assert_eq!(verdict(&pushed("content-type", git), &declared), Verdict::Unknown);
    }

    #[test]
    fn a_verdict_has_the_word_of_the_outcome_that_it_proves() {
        let words = [Verdict::Succeeded, Verdict::Failed, Verdict::Unknown].map(Verdict::word);
        assert_eq!(words, ["succeeded", "failed", "unknown"]);
    }
}
