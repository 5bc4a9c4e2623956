//! `/auth/identity`: who the key is.

use axum::response::Response;
use serde_json::json;

use super::answer::one;
use super::auth::Asker;
use super::show::moment;

/// `GET /auth/identity`
pub(crate) async fn show(asker: Asker) -> Response {
    let scopes: Vec<_> = asker.scopes.iter().map(|scope| scope.word()).collect();
    one(json!({
        "credentialType": "api_key",
        // Keys have no ids of their own here: a caller is named in the configuration.
        "apiKeyId": asker.name.as_str(),
        "name": asker.name.as_str(),
        // One sidecar is one environment.
        "environmentId": "local",
        "scopes": scopes,
        "expiresAt": asker.expires.map(moment),
    }))
}
