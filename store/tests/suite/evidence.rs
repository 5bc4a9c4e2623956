//! What is kept of each contact with the provider, word for word: on it rests what people decide.

use oncegate_policy::exchange::{Answer, Exchange, Loss, NotSent, Phase};
use oncegate_policy::fingerprint::digest_hex;
use oncegate_policy::reconcile::{Finding, Looker};
use oncegate_policy::refusal::{Code, Refusal};
use oncegate_store::admit::{Admitted, RefusedRequest};
use oncegate_store::look::Found;
use oncegate_store::replay::ReplayRefusal;
use oncegate_store::resolve::{PartialEffect, Resolution, Resolved, ResolvedAs};
use oncegate_store::view::EffectDetail;
use serde_json::{Value, json};

use crate::support::{
    DAY, HOUR, Memory, NOON, answered, caller, lost, matched, no_match, provider_failed, usd,
};

fn cut(status: u16) -> Exchange {
    Exchange::Lost(Loss { phase: Phase::ReadingBody, cause: "eof".into(), status: Some(status) })
}

async fn detail(memory: &Memory, effect: &oncegate_policy::id::EffectId) -> EffectDetail {
    memory.store.effect(effect).await.unwrap().unwrap()
}

/// Kind, author, text and detail of the latest fact.
async fn latest(memory: &Memory, effect: &oncegate_policy::id::EffectId) -> (String, String, String, Value) {
    let mut evidence = detail(memory, effect).await.evidence;
    let fact = evidence.pop().unwrap();
    (fact.kind, fact.author.unwrap_or_default(), fact.text, fact.detail)
}

#[tokio::test]
async fn a_dispatch_leaves_its_attempt_and_one_fact() {
    let memory = Memory::new();
    let body = digest_hex(br#"{"status":402}"#);
    let refused = Exchange::NotSent(NotSent::Tls("wrong host".into()));
    for (exchange, columns, fact, says) in [
        (
            refused,
            ("failed", "not_sent", Some("tls"), Some("wrong host"), None, None),
            ("not_sent", "dispatch", "never sent: tls: wrong host"),
            json!({ "verdict": "failed", "step": "tls" }),
        ),
        (
            lost(),
            ("unknown", "lost", Some("awaiting_head"), Some("connection reset"), None, None),
            ("lost", "dispatch", "answer lost (awaiting_head): connection reset"),
            json!({ "verdict": "unknown", "phase": "awaiting_head", "status": null }),
        ),
        (
            cut(201),
            ("unknown", "lost", Some("reading_body"), Some("eof"), Some(201), None),
            ("lost", "dispatch", "answer lost after status 201 (reading_body): eof"),
            json!({ "verdict": "unknown", "phase": "reading_body", "status": 201 }),
        ),
        (
            answered(402),
            ("failed", "answered", None, None, Some(402), Some(body.as_str())),
            ("answered", "provider", "the provider answered 402"),
            json!({ "verdict": "failed", "status": 402, "body": body }),
        ),
    ] {
        let (permit, effect) =
            memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        assert_eq!(permit.effect(), &effect.id);
        let claim = permit.spend();
        assert_eq!(claim.effect(), &effect.id);
        memory.record(claim, &exchange, NOON.plus(HOUR)).await;
        let kept = detail(&memory, &effect.id).await;
        let [attempt] = kept.attempts.as_slice() else { panic!("{:?}", kept.attempts) };
        let texts = [&attempt.verdict, &attempt.seen, &attempt.step, &attempt.cause].map(Option::as_deref);
        let (verdict, seen, step, cause, status, digest) = columns;
        assert_eq!(texts, [Some(verdict), Some(seen), step, cause]);
        assert_eq!((attempt.status, attempt.digest.as_deref()), (status, digest));
        assert_eq!((attempt.started_at, attempt.ended_at), (NOON, Some(NOON.plus(HOUR))));
        assert_eq!(attempt.author, None);
        let (kind, author, text) = fact;
        let wanted = (kind.to_owned(), author.to_owned(), text.to_owned(), says);
        assert_eq!(latest(&memory, &effect.id).await, wanted);
    }
}

/// What belongs to a connection or a moment, would make a client send again, or is ours to set.
#[tokio::test]
async fn headers_that_are_no_part_of_the_answer_are_not_kept() {
    let dropped = [
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "retry-after",
        "set-cookie",
        "set-cookie2",
        "stripe-should-retry",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-should-retry",
        "x-idempotent-replay",
        "oncegate-effect",
    ];
    let kept = ["content-type", "x-oncegate", "x-idempotent-replayed"];
    let memory = Memory::new();
    let (permit, _) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let headers = dropped.iter().chain(&kept).map(|name| ((*name).to_owned(), "x".to_owned())).collect();
    let answer = Exchange::Answered(Answer { status: 200, reason: None, headers, body: b"{}".to_vec() });
    let view = memory.record(permit.spend(), &answer, NOON).await;
    let names: Vec<_> = view.response.unwrap().headers.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, kept);
}

/// An answer after somebody else had the last word: what it says stands beside it, and whether it contradicts.
#[tokio::test]
async fn an_answer_that_comes_after_the_end_is_compared_with_it() {
    let memory = Memory::new();
    let bare = |found: Finding| match found {
        Finding::Matched { what, .. } => Finding::Matched { what, reference: None, record: None },
        other => other,
    };
    let contradiction = "; this CONTRADICTS the recorded outcome, which stays";
    for (found, outcome, late, said, remark, kept) in [
        (matched(), "succeeded", answered(402), "the provider answered 402", contradiction, None),
        (matched(), "succeeded", answered(200), "the provider answered 200", "", Some(200)),
        (matched(), "succeeded", answered(500), "the provider answered 500", "", None),
        (matched(), "succeeded", lost(), "answer lost (awaiting_head): connection reset", "", None),
        (provider_failed(), "failed", answered(200), "the provider answered 200", contradiction, None),
        (provider_failed(), "failed", answered(402), "the provider answered 402", "", Some(402)),
        (provider_failed(), "failed", answered(500), "the provider answered 500", "", None),
    ] {
        let (permit, effect) =
            memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        let claim = permit.spend();
        memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
        memory.store.apply_finding(&effect.id, bare(found), Looker::Schedule, NOON).await.unwrap();
        let view = memory.record(claim, &late, NOON.plus(HOUR)).await;
        assert_eq!(view.stage.outcome().word(), outcome);
        assert_eq!(view.response.map(|response| response.status), kept, "{late:?}");
        let (_, _, text, _) = latest(&memory, &effect.id).await;
        assert_eq!(text, format!("late, after the effect was settled as {outcome}: {said}{remark}"));
    }
}

/// The provider's own object is what repeats are given already: a late answer does not take its place.
#[tokio::test]
async fn a_late_answer_takes_no_answers_place() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let claim = permit.spend();
    memory.store.mark_unknown(&claim, "no answer", NOON).await.unwrap();
    memory.store.apply_finding(&effect.id, matched(), Looker::Schedule, NOON).await.unwrap();
    let before = memory.view(&effect.id).await.response;
    assert!(before.as_ref().is_some_and(|kept| kept.body.starts_with(b"{\"id\":\"re_1\"")));
    assert_eq!(memory.record(claim, &answered(200), NOON).await.response, before);
}

#[tokio::test]
async fn a_mark_says_why_once_and_nothing_after_the_end() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    let claim = permit.spend();
    for _ in 0..2 {
        let view = memory.store.mark_unknown(&claim, "no answer within 12 s", NOON).await.unwrap();
        assert_eq!(view, memory.view(&effect.id).await);
        assert_eq!(view.stage.word(), "reconciling");
    }
    let facts = detail(&memory, &effect.id).await.evidence;
    let marks: Vec<_> = facts.iter().filter(|fact| fact.kind == "unanswered").collect();
    assert_eq!(marks.len(), 1);
    assert_eq!(
        (marks[0].text.as_str(), marks[0].author.as_deref()),
        ("no answer within 12 s", Some("dispatch"))
    );
}

#[tokio::test]
async fn a_persons_word_is_kept_with_everything_they_said() {
    let memory = Memory::new();
    for (outcome, partial, word) in [
        (ResolvedAs::Succeeded, PartialEffect::Confirmed, ("succeeded", "confirmed")),
        (ResolvedAs::Failed, PartialEffect::Possible, ("failed", "possible")),
        (ResolvedAs::Failed, PartialEffect::None, ("failed", "none")),
    ] {
        let unknown = memory.unknown(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        let resolution = Resolution {
            outcome,
            // Ten characters are enough.
            reason: "  saw it: 1€  ".into(),
            partial_effect: Some(partial),
            actual_impact: vec![(usd(), 30)],
            external_reference: Some("re_9".into()),
        };
        let resolved = memory.store.resolve(&unknown.id, &caller("ops"), resolution, NOON).await.unwrap();
        assert!(matches!(resolved, Resolved::Done(_)), "{resolved:?}");
        assert_eq!(ResolvedAs::parse(word.0), Some(outcome));
        let says = json!({
            "outcome": word.0,
            "partial_effect": word.1,
            "actual_impact": [{ "dimension": "money", "unit": "usd", "amount": 30 }],
            "external_reference": "re_9",
        });
        let text = format!("resolved as {} by ops: saw it: 1€", word.0);
        let wanted = ("resolved".to_owned(), "ops".to_owned(), text, says);
        assert_eq!(latest(&memory, &unknown.id).await, wanted);
    }
    assert_eq!(ResolvedAs::parse("unknown"), None);
}

#[tokio::test]
async fn a_look_leaves_its_attempt_and_one_fact() {
    let memory = Memory::new();
    let record = || Some(b"{}".to_vec());
    let (reference, what) = (|| Some("re_1".into()), || "what was seen".into());
    for (finding, word, said, named) in [
        (
            Finding::Matched { what: what(), reference: reference(), record: record() },
            "matched",
            "found at the provider",
            Some("re_1"),
        ),
        (
            Finding::ProviderSaysFailed { what: what(), reference: reference(), record: record() },
            "provider_failed",
            "the provider's record says failed",
            Some("re_1"),
        ),
        (Finding::NoMatch { what: what() }, "no_match", "nothing found, which proves nothing", None),
        (Finding::Unreadable { what: what() }, "unreadable", "the look could not be completed", None),
    ] {
        let unknown = memory.unknown(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        for (looker, author) in [(Looker::Caller("ops".into()), "ops"), (Looker::Schedule, "schedule")] {
            memory.store.apply_finding(&unknown.id, finding.clone(), looker, NOON).await.unwrap();
            let looks = detail(&memory, &unknown.id).await.attempts;
            let look = looks.last().unwrap();
            let texts = [&look.author, &look.seen, &look.cause].map(Option::as_deref);
            assert_eq!(texts, [Some(author), Some(word), Some("what was seen")]);
            assert_eq!((look.kind.word(), look.ended_at), ("reconcile", Some(NOON)));
            let (kind, by, text, says) = latest(&memory, &unknown.id).await;
            assert_eq!((kind.as_str(), by.as_str()), ("looked", author));
            assert!(text.ends_with(&format!("{said}: what was seen")), "{text}");
            assert_eq!(says, json!({ "found": word, "reference": named }));
        }
        let kept = memory.view(&unknown.id).await.response.map(|response| response.body);
        assert_eq!(kept, named.map(|_| b"{}".to_vec()), "the provider's own object answers repeats");
    }
}

/// A look after the end is evidence, and says so where it contradicts.
#[tokio::test]
async fn a_look_after_the_end_is_compared_with_it() {
    let memory = Memory::new();
    for (status, finding, contradicts) in [
        (200, matched(), false),
        (200, provider_failed(), true),
        (200, no_match(), false),
        (402, matched(), true),
        (402, provider_failed(), false),
        (402, no_match(), false),
    ] {
        let (permit, effect) =
            memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        let settled = memory.record(permit.spend(), &answered(status), NOON).await;
        let found = memory.store.apply_finding(&effect.id, finding, Looker::Schedule, NOON).await.unwrap();
        assert!(matches!(&found, Found::AlreadySettled(view) if view.stage == settled.stage), "{found:?}");
        let (_, _, text, _) = latest(&memory, &effect.id).await;
        let outcome = settled.stage.outcome().word();
        assert!(text.starts_with(&format!("after the effect was settled as {outcome}: ")), "{text}");
        assert_eq!(text.contains("CONTRADICTS"), contradicts, "{text}");
        assert_eq!(detail(&memory, &effect.id).await.attempts.len(), 2);
    }
}

/// The look after a 2xx, which may confirm it: made once, and in the chain whatever it showed.
#[tokio::test]
async fn a_look_that_confirms_says_so() {
    let memory = Memory::new();
    for (finding, mark, said) in [
        (matched(), Some("settled confirmed provider"), "found at the provider: refund re_1"),
        (
            no_match(),
            None,
            "after the effect was settled as succeeded: nothing found, which proves nothing: 1 page",
        ),
    ] {
        let (permit, effect) =
            memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 100), NOON).await;
        memory.record(permit.spend(), &answered(200), NOON).await;
        memory.store.confirm(&effect.id, finding, NOON).await.unwrap();
        let (kind, author, text, _) = latest(&memory, &effect.id).await;
        assert_eq!((kind.as_str(), author.as_str(), text.as_str()), ("looked", "schedule", said));
        let stage: Option<String> = memory
            .shell()
            .query_row(
                "SELECT stage FROM event WHERE effect = ?1 ORDER BY seq DESC LIMIT 1",
                [effect.id.as_str()],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(stage.as_deref(), mark);
        assert_eq!(detail(&memory, &effect.id).await.attempts.len(), 2);
    }
}

/// While the dispatch is on its way it will say more than any look.
#[tokio::test]
async fn a_look_decides_nothing_before_the_dispatch_has_ended() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    for finding in [matched(), provider_failed(), no_match()] {
        let found = memory.store.apply_finding(&effect.id, finding, Looker::Schedule, NOON).await.unwrap();
        assert!(
            matches!(&found, Found::StillUnknown(view) if view.stage.word() == "dispatching"),
            "{found:?}"
        );
    }
    let view = memory.record(permit.spend(), &answered(402), NOON).await;
    assert_eq!(view.stage.outcome().word(), "failed");
    assert_eq!(detail(&memory, &effect.id).await.attempts.len(), 4);
}

/// The fact that ends it says what ended it, and nothing is taken for the task that is still at work.
#[tokio::test]
async fn what_nobody_finishes_says_whose_it_was() {
    let memory = Memory::new();
    let (permit, effect) = memory.granted(memory.refund("pi_1", 100), NOON).await;
    drop(permit);
    let (permit, other) = memory.granted(memory.refund("pi_2", 100), NOON).await;
    assert_eq!(memory.store.sweep(NOON).await.unwrap(), std::slice::from_ref(&effect.id));
    let (kind, author, text, _) = latest(&memory, &effect.id).await;
    assert_eq!((kind.as_str(), author.as_str()), ("interrupted", "sweep"));
    assert_eq!(text, "answer lost (interrupted): the task that sent it ended");
    drop(permit);
    let memory = memory.restarted(NOON.plus(DAY));
    assert_eq!(memory.store.sweep(NOON.plus(DAY)).await.unwrap(), std::slice::from_ref(&other.id));
    let (_, _, text, _) = latest(&memory, &other.id).await;
    assert_eq!(text, "answer lost (interrupted): the process that sent it ended");
}

#[tokio::test]
async fn no_text_of_any_length_stands_in_the_chain() {
    let memory = Memory::new();
    let long = Loss { phase: Phase::ReadingBody, cause: "Z".repeat(3_000_000), status: None };
    for exchange in [Exchange::Lost(long), Exchange::NotSent(NotSent::Tls("\u{fc}".repeat(3_000_000)))] {
        let new = memory.refund(&format!("pi_{}", memory.fresh()), 100);
        let (permit, effect) = memory.granted(new, NOON).await;
        memory.record(permit.spend(), &exchange, NOON).await;
        let kept = detail(&memory, &effect.id).await;
        let cause = kept.attempts[0].cause.as_deref().unwrap();
        let (_, _, text, _) = latest(&memory, &effect.id).await;
        assert_eq!([cause.chars().count(), text.chars().count()], [8_000; 2]);
    }
    assert_eq!(memory.store.verify_chain().await.unwrap().fault, None);
}

#[tokio::test]
async fn a_refusal_stands_in_the_chain_and_takes_no_key() {
    let memory = Memory::new();
    let effect = memory.unknown(memory.refund("pi_1", 100), NOON).await.id;
    let refusal = Refusal::naming(Code::UnresolvedEffect, effect.clone(), "Not yet.");
    let before = RefusedRequest { caller: caller("agent"), action: None, refusal };
    memory.store.audit_refusal(before, NOON).await.unwrap();
    // And one that an admission has said.
    let said = memory.store.admit(memory.refund("pi_1", 200), NOON).await.unwrap();
    let Admitted::Refused(said) = said else { panic!("{said:?}") };
    let shell = memory.shell();
    let mut events =
        shell.prepare("SELECT author, text, detail FROM event WHERE kind = 'refused' ORDER BY seq").unwrap();
    let refused: Vec<(String, String, Value)> = events
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))
        .unwrap()
        .map(|event| event.map(|(by, text, says)| (by, text, serde_json::from_str(&says).unwrap())).unwrap())
        .collect();
    let wanted = |action: Option<&str>, text: &str| {
        let says = json!({ "action": action, "code": "unresolved_effect", "in_the_way": effect.as_str() });
        ("agent".to_owned(), text.to_owned(), says)
    };
    assert_eq!(refused, [wanted(None, "Not yet."), wanted(Some("refund"), &said.sentence)]);
    assert_eq!(memory.count("effect"), 1);
}

#[test]
fn each_refused_replay_has_its_word() {
    use ReplayRefusal::{Halted, InFlight, NotUnknown, OwnEffect, Unsupported, WindowClosed};
    for (refusal, word) in [
        (Unsupported, "replay_unsupported"),
        (WindowClosed, "window_closed"),
        (NotUnknown, "not_unknown"),
        (OwnEffect, "own_effect"),
        (Halted("drill".into()), "halted"),
        (InFlight, "in_flight"),
    ] {
        assert_eq!(refusal.word(), word);
    }
}
