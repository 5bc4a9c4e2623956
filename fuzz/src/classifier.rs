//! What an answer proves, against the table of the design written out once more.

use std::sync::OnceLock;

use oncegate_config::model::ActionKind;
use oncegate_policy::classify::{ResponseRules, Verdict, verdict};
use oncegate_policy::exchange::{Answer, Exchange, Loss, Phase};
use oncegate_policy::json;

const SPEAKING: &str = r#"
[hosts."api.example"]
[actions.a]
method = "POST"
url = "https://api.example/x"
response = { succeeded_when = [{ path = "ok", equals = true }], failed_when = [{ path = "ok", equals = false }] }
"#;

fn speaking() -> &'static ResponseRules {
    static RULES: OnceLock<ResponseRules> = OnceLock::new();
    RULES.get_or_init(|| {
        let source = oncegate_config::Source { name: "fuzz", text: SPEAKING };
        let config = oncegate_config::parse(&[source]).expect("a configuration without faults").config;
        let kind = config.actions.into_values().next().expect("one action").kind;
        let ActionKind::Declared(declared) = kind else { panic!("{kind:?}") };
        declared.response
    })
}

/// Two bytes of status, then a body.
pub fn run(data: &[u8]) {
    let Some((status, body)) = data.split_first_chunk::<2>() else { return };
    let status = 100 + u16::from_be_bytes(*status) % 500;
    let answer = Answer { status, reason: None, headers: vec![], body: body.to_vec() };
    let plain = ResponseRules::default();
    let lost = Exchange::Lost(Loss { phase: Phase::ReadingBody, cause: String::new(), status: Some(status) });
    let whole = Exchange::Answered(answer);
    let wanted = match status {
        200..300 => Verdict::Succeeded,
        406 | 408 | 409 | 416 | 499 => Verdict::Unknown,
        400..500 => Verdict::Failed,
        _ => Verdict::Unknown,
    };
    assert_eq!(verdict(&whole, &plain), wanted, "{status}");
    let stale = ResponseRules { failed_statuses: vec![409], ..ResponseRules::default() };
    assert_eq!(verdict(&whole, &stale), if status == 409 { Verdict::Failed } else { wanted });
    for rules in [&plain, &stale, speaking()] {
        assert_eq!(verdict(&lost, rules), Verdict::Unknown, "an incomplete answer proves nothing");
    }
    let said = json::of_answer(body).ok().and_then(|body| body.get("ok")?.as_bool());
    let wanted = match (status, said) {
        (204, _) => Verdict::Unknown,
        (200..300, Some(true)) => Verdict::Succeeded,
        (200..300, Some(false)) => Verdict::Failed,
        (200..300, None) => Verdict::Unknown,
        _ => wanted,
    };
    assert_eq!(verdict(&whole, speaking()), wanted, "{status} {:?}", String::from_utf8_lossy(body));
}
