//! What an agent writes, where the harness's own agent is too well-behaved.

use base64::{Engine, engine::general_purpose::STANDARD};
use oncegate_tests::conf::key_of;

/// A caller's proxy credentials.
pub(crate) fn proxy_authorization(caller: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{caller}:{}", key_of(caller))))
}
