//! Asking the provider by the declared `verify` rule: one GET, one answer.

use oncegate_policy::check::{Check, Expected};
use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::reconcile::Finding;
use oncegate_policy::template::{Piece, RenderFault, Scope, Template};
use serde_json::Value;

use super::Verify;
use super::pages::may_go_on;
use crate::look::{Look, LookStep, Memory, unreadable};
use crate::read_back::ReadBack;

const NO_ANSWER: &str = "the verify rule needs the provider's answer to the write, and none came that has it";

pub(super) fn look(
    verify: &Verify,
    headers: &[(String, Template)],
    memory: &Memory<'_>,
    step: LookStep<'_>,
) -> Look {
    let scope = Scope {
        input: memory.input,
        effect_id: Some(memory.effect_id),
        effect_key: Some(memory.provider_key),
        response: memory.response,
    };
    match step {
        LookStep::First => ask(verify, headers, memory, &scope),
        LookStep::Next { request, answer, page: _ } => judge(verify, &scope, request, answer),
    }
}

/// With the headers that were in scope, and those that the action always sends: its API may ask for a version, or for a name.
fn ask(verify: &Verify, headers: &[(String, Template)], memory: &Memory<'_>, scope: &Scope<'_>) -> Look {
    if memory.response.is_none() && verify.checks.iter().any(needs_the_answer) {
        return Look::Impossible(NO_ANSWER);
    }
    let url = match verify.url.build(scope) {
        Ok(url) => url,
        Err(fault) if is_of_the_answer(&fault) => return Look::Impossible(NO_ANSWER),
        Err(_) => return Look::Impossible("the verify URL cannot be built from what was asked"),
    };
    let always = headers.iter().filter(|(name, value)| {
        value.is_constant()
            && goes_with_a_read(name)
            && memory.headers.iter().all(|(remembered, _)| remembered != name)
    });
    let always = always.map(|(name, value)| (name.clone(), value.to_string()));
    match ReadBack::get(path_and_query(&url), memory.headers.iter().cloned().chain(always).collect()) {
        Ok(read_back) => Look::Ask(read_back),
        Err(_) => Look::Impossible("the verify URL or a header of it cannot be sent"),
    }
}

/// Whether a declared header says who asks, and which answer is wanted, and nothing else: others make a write of what they
/// stand on (`X-HTTP-Method-Override`), or say when it is to be done (`If-None-Match`). A name that a read needs besides
/// stands in `scope_headers`.
fn goes_with_a_read(name: &str) -> bool {
    ["accept", "accept-language", "user-agent"].contains(&name) || name.ends_with("-version")
}

/// Only the declared status with every check is a match, and only an answer that could have been one says that there
/// is none.
fn judge(verify: &Verify, scope: &Scope<'_>, request: &ReadBack, answer: &Answer) -> Look {
    let what = format!("GET {} was answered with {}", request.path_and_query(), answer.status);
    if answer.status != verify.status {
        return match answer.status {
            200..=299 | 404 | 410 => Look::Found(Finding::NoMatch { what: what.into() }),
            _ => unreadable(what),
        };
    }
    if verify.checks.is_empty() {
        return Look::Found(Finding::Matched { what: what.into(), reference: None, record: None });
    }
    let Ok(body) = json::of_answer(&answer.body) else {
        return unreadable(format!("{what}, and its body cannot be read"));
    };
    if let Some(check) = verify.checks.iter().find(|check| !check.is_answered_by(&body)) {
        return unreadable(format!("{what}, and has no list where `{}` would be absent", check.path));
    }
    if let Some(list) =
        verify.checks.iter().filter_map(Check::absent_from).find(|list| may_go_on(answer, &body, list))
    {
        return unreadable(format!("{what}, and `{list}` may go on elsewhere"));
    }
    // What a search shows is not what the write would have answered: it is no record for a repeat.
    match verify.checks.iter().all(|check| check.holds(&body, scope)) {
        true => Look::Found(Finding::Matched {
            what: format!("{what}, and every check holds").into(),
            reference: None,
            record: None,
        }),
        false => Look::Found(Finding::NoMatch { what: format!("{what}, and not every check holds").into() }),
    }
}

/// Whether the rule can be asked of what was asked for, as far as that can be known before the answer: what cannot be asked
/// would never be found.
///
/// # Errors
/// The place that cannot be filled.
pub(super) fn can_be_asked(verify: &Verify, input: &Value) -> Result<(), RenderFault> {
    let scope = Scope { input, effect_id: Some("eff_0"), effect_key: Some("0"), response: None };
    let later = |fault: RenderFault| if is_of_the_answer(&fault) { Ok(()) } else { Err(fault) };
    verify.url.build(&scope).map(drop).or_else(later)?;
    verify.checks.iter().try_for_each(|check| match &check.equals {
        Some(Expected::Template(template)) => template.render(&scope).map(drop).or_else(later),
        Some(Expected::Literal(_)) | None => Ok(()),
    })
}

fn needs_the_answer(check: &Check) -> bool {
    match &check.equals {
        Some(Expected::Template(template)) => {
            template.pieces().iter().any(|piece| matches!(piece, Piece::Response(_)))
        }
        Some(Expected::Literal(_)) | None => false,
    }
}

fn is_of_the_answer(fault: &RenderFault) -> bool {
    match fault {
        RenderFault::Absent { path }
        | RenderFault::Null { path }
        | RenderFault::Empty { path }
        | RenderFault::NotScalar { path }
        | RenderFault::UrlSegment { path } => path.starts_with("response."),
        RenderFault::Secret { .. } => false,
    }
}

/// A verify URL is on the action's own host: the configuration sees to that.
fn path_and_query(url: &str) -> String {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    match after.find(['/', '?']) {
        Some(at) => match after.split_at(at).1 {
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        },
        None => "/".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use oncegate_policy::template::Template;
    use oncegate_policy::url_template::UrlTemplate;
    use serde_json::json;

    use super::*;

    /// What cannot be asked afterwards is not sent: it could never be found.
    #[test]
    fn a_rule_can_be_asked_of_what_was_asked_for() {
        let (by_path, by_effect) = ("t/{{input.ref}}", "t?ref={{effect.id}}");
        for (url, equals, input, asked) in [
            (by_path, "x", json!({"ref": "r"}), true),
            (by_path, "x", json!({"ref": ".."}), false),
            (by_path, "x", json!({}), false),
            (by_effect, "{{effect.key}}", json!({}), true),
            (by_effect, "{{input.ref}}", json!({"ref": 7}), true),
            (by_effect, "{{input.ref}}", json!({"ref": ["r"]}), false),
            ("t/{{response.id}}", "{{response.id}}", json!({}), true),
        ] {
            let equals = Expected::Template(Template::parse(equals).unwrap());
            let check = Check { path: "data.*.ref".into(), equals: Some(equals), absent: false };
            let url = UrlTemplate::parse(&format!("https://tickets.example/{url}")).unwrap();
            let verify = Verify { url, status: 200, checks: vec![check] };
            assert_eq!(can_be_asked(&verify, &input).is_ok(), asked, "{verify:?} {input}");
        }
    }

    /// What makes a write of a read, or says when it is to be done, stays with the write.
    #[test]
    fn a_read_carries_what_says_who_asks_and_which_answer_is_wanted() {
        let declared = [
            ("user-agent", "ops/1"),
            ("accept", "application/vnd.api+json"),
            ("notion-version", "2026-01-01"),
            ("content-type", "application/json"),
            ("x-http-method-override", "DELETE"),
            ("if-none-match", "*"),
            ("x-amz-target", "Delete"),
            ("prefer", "respond-async"),
            ("accept-language", "{{input.language}}"),
        ];
        let headers = declared.map(|(name, text)| (name.to_owned(), Template::parse(text).unwrap()));
        let url = UrlTemplate::parse("https://tickets.example/v1/t").unwrap();
        let verify = Verify { url, status: 200, checks: vec![] };
        let input = json!({"language": "de"});
        let memory = Memory {
            effect_id: "eff_1",
            provider_key: "key-1",
            input: &input,
            headers: &[],
            response: None,
            sent_at_ms: 0,
        };
        let Look::Ask(read) = look(&verify, &headers, &memory, LookStep::First) else {
            panic!("nothing is asked")
        };
        let names: Vec<_> = read.headers().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["user-agent", "accept", "notion-version"]);
    }
}
