//! What is allowed and still doubtful.

use oncegate_policy::action::ActionName;
use oncegate_policy::caller::Scope;
use oncegate_policy::check::{Check, Expected};
use oncegate_policy::impact::Dimension;
use oncegate_policy::limit::Limit;
use oncegate_policy::router::{RouteRemark, Router};
use oncegate_policy::template::{Piece, Template};

use crate::facts::Facts;
use crate::fault::{Log, Place};
use crate::model::{Action, ActionKind, Config, Declared, GithubWrite, Host, Verify};
use crate::narrower;
use crate::resources::{may_begin, moves_money};
use crate::templates::has;

/// Records every doubt about a configuration that has no fault.
pub(crate) fn judge(config: &Config, facts: &Facts, log: &Log<'_>) {
    let (_, remarks) = Router::build(config.routes());
    for remark in remarks {
        let place = match &remark {
            RouteRemark::Overlap { a: action, .. }
            | RouteRemark::Shadowed { action, .. }
            | RouteRemark::NeverMatches { action } => action_place(action, facts),
        };
        log.warn(place, remark.to_string());
    }
    for action in config.actions.values() {
        action_doubts(action, action_place(action.name.as_str(), facts), log);
    }
    for (place, host) in &facts.hosts {
        host_doubts(host, *place, facts, log);
    }
    for (place, limit) in &facts.limits {
        if !config.actions.values().any(|action| may_count(limit, action)) {
            log.warn(
                *place,
                format!("no action counts against the limit `{}`: it holds nothing back", limit.name),
            );
        }
    }
    if let (Some(place), None) = (facts.kept_in_vault, &config.vault_key) {
        let message = "the vault has no key (`[vault] key`): what is put into it through the API is not encrypted, only \
                       readable by the sidecar's user alone";
        log.warn(place, message);
    }
    narrower::judge(config, facts, log);
    nobody_approves(config, facts, log);
}

fn action_place(action: &str, facts: &Facts) -> Place {
    facts.actions.get(action).copied().unwrap_or_default()
}

/// What a GraphQL document does stands in the document. `operationName` picks one of its operations, and an agent names
/// them as it likes.
fn graphql_doubts(action: &Action, place: Place, log: &Log<'_>) {
    let asks = |members: &[&str]| {
        let last = |check: &Check| check.path.rsplit('.').next().is_some_and(|last| members.contains(&last));
        action.when.iter().any(last)
    };
    if asks(&["operationName"]) && !asks(&["query", "sha256Hash"]) {
        log.warn(
            place,
            format!(
                "`when` of action `{}` asks for `operationName`, which an agent may give to any GraphQL document: ask for the \
                 document too (`input.query`, or `input.extensions.persistedQuery.sha256Hash`)",
                action.name
            ),
        );
    }
}

fn action_doubts(action: &Action, place: Place, log: &Log<'_>) {
    let name = &action.name;
    graphql_doubts(action, place, log);
    let (declared, has_key) = match &action.kind {
        ActionKind::StripeWrite(write) => (&write.route, true),
        ActionKind::Declared(declared) => (&**declared, declared.idempotency.is_some()),
        ActionKind::GithubWrite(write) => return github_doubts(name, write, place, log),
        ActionKind::StripeRefund(_) | ActionKind::ResendEmail(_) | ActionKind::GithubFile(_) => return,
    };
    if !declared.governed {
        return;
    }
    if let (ActionKind::StripeWrite(_), None) = (&action.kind, &declared.impact)
        && let Some(path) = moves_money(&declared.url)
    {
        let message = format!(
            "action `{name}` moves money (`{path}`) and has no `impact`: no limit of money counts it"
        );
        log.warn(place, message);
    }
    if action.operation_key.is_none() && action.subject.is_none() {
        log.warn(
            place,
            format!("action `{name}` has neither `operation_key` nor `subject`: a varied retry cannot be recognised"),
        );
    }
    if !has_key && declared.verify.is_none() {
        log.warn(
            place,
            format!(
                "action `{name}` has neither a provider key (`idempotency`) nor a read-back (`verify`): only a person \
                 can settle it when its answer is lost"
            ),
        );
    }
    if let Some(verify) = &declared.verify {
        verify_doubts(name, verify, place, log);
        if is_found_in_a_list(verify) && !is_constant(verify) && !is_of_one_effect(action, verify) {
            log.warn(
                place,
                format!(
                    "`verify` of action `{name}` names neither the effect nor all that makes its `operation_key`: what another \
                     effect of the same input has done is taken for this one's"
                ),
            );
        }
    }
}

/// Whether a rule searches a list, in which another effect's object may stand. One that asks for the state of an object by its
/// name is right whoever brought it about.
fn is_found_in_a_list(verify: &Verify) -> bool {
    verify.checks.iter().any(|check| check.path.split('.').any(|name| name == "*"))
}

/// Whether a rule is the same for every effect.
fn is_constant(verify: &Verify) -> bool {
    let url = Template::parse(&verify.url.to_string()).ok();
    url.iter().chain(verify.checks.iter().filter_map(expected_template)).all(Template::is_constant)
}

/// Whether a rule tells the effect from every other one: by the effect or the answer to it, or by all of the input that the
/// operation key is made of.
fn is_of_one_effect(action: &Action, verify: &Verify) -> bool {
    let url = Template::parse(&verify.url.to_string()).ok();
    let pieces: Vec<&Piece> = url
        .iter()
        .chain(verify.checks.iter().filter_map(expected_template))
        .flat_map(Template::pieces)
        .collect();
    let of_the_effect =
        |piece: &&Piece| matches!(piece, Piece::EffectId | Piece::EffectKey | Piece::Response(_));
    let key = action.operation_key.as_ref().map(Template::pieces).unwrap_or_default();
    let mut inputs = key.iter().filter(|piece| matches!(piece, Piece::Input(_))).peekable();
    let by_the_key = inputs.peek().is_some() && inputs.all(|piece| pieces.contains(&piece));
    pieces.iter().any(of_the_effect) || by_the_key
}

/// What is acted on is known, and there never is a key.
fn github_doubts(name: &ActionName, write: &GithubWrite, place: Place, log: &Log<'_>) {
    match &write.route.verify {
        Some(verify) => verify_doubts(name, verify, place, log),
        None if write.mark_body => {}
        None => log.warn(
            place,
            format!(
                "action `{name}` leaves no mark (`mark_body`) and has no read-back (`verify`): only a person can settle it \
                 when its answer is lost"
            ),
        ),
    }
}

fn verify_doubts(name: &ActionName, verify: &Verify, place: Place, log: &Log<'_>) {
    // A URL prints as the template it was read from.
    let url = Template::parse(&verify.url.to_string()).ok();
    let templates: Vec<&Template> =
        url.iter().chain(verify.checks.iter().filter_map(expected_template)).collect();
    let waits = templates.iter().any(|template| has(template, |piece| matches!(piece, Piece::Response(_))));
    if waits {
        log.warn(
            place,
            format!("`verify` of action `{name}` needs the provider's answer: when that is lost, only a person can settle it"),
        );
    }
    let absent_alone = !verify.checks.is_empty() && verify.checks.iter().all(|check| check.absent);
    if verify.checks.is_empty() || absent_alone {
        log.warn(
            place,
            format!(
                "`verify` of action `{name}` has no `match` on something that is there: a page of a gateway, or of another kind, \
                 with status {} is taken for the provider's record",
                verify.status
            ),
        );
    }
    if is_constant(verify) {
        log.warn(
            place,
            format!("`verify` of action `{name}` says the same whatever was asked: it names neither input nor effect"),
        );
    }
}

fn expected_template(check: &Check) -> Option<&Template> {
    match &check.equals {
        Some(Expected::Template(template)) => Some(template),
        Some(Expected::Literal(_)) | None => None,
    }
}

fn host_doubts(host: &Host, place: Place, facts: &Facts, log: &Log<'_>) {
    let by_get = facts.presets.iter().find(|(_, preset)| {
        preset.writes_by_get && preset.hosts.iter().any(|known| known == host.pattern.name())
    });
    if let Some((name, _)) = by_get.filter(|_| host.reads) {
        log.warn(
            place,
            format!(
                "`{name}` takes writes by GET too: with `reads = \"allow\"` every one that is no governed action's goes out, and nothing is recorded of it; set `reads = \"deny\"` and declare the reads that are needed with `governed = false`"
            ),
        );
    }
    if host.writes {
        log.warn(
            place,
            "`writes = \"allow\"`: a write that no action claims goes out, and nothing is recorded of it",
        );
    }
    if host.websockets {
        log.warn(
            place,
            "`websockets = \"allow\"`: whatever an agent writes inside goes out, and nothing is recorded of it",
        );
    }
    let Some(credential) = &host.credential else { return };
    if host.plain {
        log.warn(place, "the credential of this host is sent in plain text");
    }
    if credential.secrets().is_empty() {
        log.warn(place, "the credential of this host names no secret: it stands in the file as it is");
    }
}

/// Whether an effect of `action` can ever count against `limit`.
fn may_count(limit: &Limit, action: &Action) -> bool {
    let dimension = match &action.kind {
        ActionKind::StripeRefund(refund) => Some(Dimension::Money { currency: refund.currency.clone() }),
        ActionKind::ResendEmail(_) | ActionKind::GithubFile(_) => Some(Dimension::ResourceMutations),
        ActionKind::StripeWrite(write) => counted(&write.route),
        ActionKind::GithubWrite(write) => counted(&write.route).or(Some(Dimension::ResourceMutations)),
        ActionKind::Declared(declared) => counted(declared),
    };
    dimension.as_ref() == Some(&limit.dimension)
        && limit.action.as_ref().is_none_or(|only| *only == action.name)
        && limit.resource_prefix.as_deref().is_none_or(|prefix| may_begin(prefix, action))
}

fn counted(declared: &Declared) -> Option<Dimension> {
    declared.impact.as_ref().map(|impact| impact.dimension.clone())
}

fn nobody_approves(config: &Config, facts: &Facts, log: &Log<'_>) {
    if config.callers.values().any(|caller| caller.scopes.contains(&Scope::ApprovalsDecide)) {
        return;
    }
    let waiting = |action: &&Action| action.requires_approval || action.approval_when.is_some();
    for action in config.actions.values().filter(waiting) {
        let message =
            format!("action `{}` waits for approval, but no caller has `approvals:decide`", action.name);
        log.warn(action_place(action.name.as_str(), facts), message);
    }
}
