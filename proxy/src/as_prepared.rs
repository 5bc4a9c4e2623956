//! Whether an action still leads where an effect's request was made for. What was prepared is sent there and nowhere else,
//! and looked for there and nowhere else: another server, or a provider's other mode, knows nothing of it.

use oncegate_adapters::Adapter;
use oncegate_config::model::Action;
use oncegate_policy::authority::Authority;
use oncegate_store::view::EffectView;
use serde_json::Value;

use crate::{adapting, plan};

/// Where it leads instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// To another scheme, host or port.
    Server,
    /// To the provider's other mode, test or live.
    Mode,
}

impl Elsewhere {
    /// In words, for whoever reads evidence or a refusal.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Server => "the action is at another server now than when this was asked for",
            Self::Mode => {
                "the action is in the provider's other mode now (test or live) than when this was asked for"
            }
        }
    }
}

/// Compares the action, as it is declared now, with what the record says of an effect. `memory` is what was kept for its
/// looks.
///
/// # Errors
/// Where the action leads instead.
pub fn still_there(
    action: &Action,
    adapter: &Adapter,
    effect: &EffectView,
    memory: &Value,
) -> Result<(), Elsewhere> {
    if !is_at(action, &effect.target) {
        return Err(Elsewhere::Server);
    }
    let Some(other_mode) = adapter.in_the_other_mode() else { return Ok(()) };
    let scope: Vec<(String, String)> = serde_json::from_value(memory["headers"].clone()).unwrap_or_default();
    let said_in =
        |adapter: &Adapter| plan::words(adapter, &memory["input"], &scope).of_action(action.name.as_str());
    // An effect of before the modes were told apart is known by neither word, and is taken as it is.
    let is_other = said_in(&other_mode) == effect.fingerprint && said_in(adapter) != effect.fingerprint;
    if is_other { Err(Elsewhere::Mode) } else { Ok(()) }
}

/// Whether an effect's target, `METHOD URL`, is at the action's server.
fn is_at(action: &Action, target: &str) -> bool {
    let scheme = adapting::scheme(action);
    let url = target.split_once(' ').map_or(target, |(_, url)| url);
    let named = url.strip_prefix(scheme.as_str()).and_then(|rest| rest.strip_prefix("://"));
    let named = named.and_then(|rest| rest.split('/').next());
    let at = named.map(|named| Authority::parse(named, Some(scheme.default_port())));
    at.is_some_and(|at| at.is_ok_and(|at| at == adapting::authority(action)))
}
