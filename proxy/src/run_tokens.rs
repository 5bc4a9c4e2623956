//! Keys for one run of one command: handed out by `oncegate run`, good at the proxy only, gone with the run.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oncegate_policy::caller::CallerName;
use subtle::ConstantTimeEq;

use crate::proof::{Digest32, digest};

/// Runs at once. Each is a process beside the sidecar, so that this is more than there can sensibly be.
const RUNS_MAX: usize = 1024;

/// The tokens of the runs that live.
#[derive(Default)]
pub struct RunTokens(Mutex<Vec<(CallerName, Digest32)>>);

impl RunTokens {
    /// A new token; `None` when too many runs live, or the system gives no random numbers.
    pub fn issue(&self, caller: &CallerName) -> Option<String> {
        let mut random = [0_u8; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut random).ok()?;
        let token = format!("ogr_{}", URL_SAFE_NO_PAD.encode(random));
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= RUNS_MAX {
            return None;
        }
        tokens.push((caller.clone(), digest(&token)));
        Some(token)
    }

    /// Whose token this is. Each comparison takes the same time wherever it differs.
    pub fn caller(&self, presented: &Digest32) -> Option<CallerName> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().find(|(_, token)| bool::from(token.ct_eq(presented))).map(|(caller, _)| caller.clone())
    }

    /// Ends a token; one that is not there is ended already.
    pub fn revoke(&self, token: &str) {
        let digest = digest(token);
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|(_, known)| !bool::from(known.ct_eq(&digest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_it_is_revoked_and_their_number_is_bounded() {
        let tokens = RunTokens::default();
        let caller = CallerName::parse("agent").unwrap();
        let (first, second) = (tokens.issue(&caller).unwrap(), tokens.issue(&caller).unwrap());
        assert_eq!(tokens.caller(&digest(&first)), Some(caller.clone()));
        tokens.revoke(&first);
        assert_eq!(
            (tokens.caller(&digest(&first)), tokens.caller(&digest(&second))),
            (None, Some(caller.clone()))
        );
        while tokens.issue(&caller).is_some() {}
        tokens.revoke(&second);
        assert!(tokens.issue(&caller).is_some());
    }
}
