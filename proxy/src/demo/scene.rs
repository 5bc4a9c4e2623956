//! What the story needs: a directory that goes away, a provider with a CA of its own, the sidecar, an agent.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::clock::Clock;
use crate::load;
use crate::serve::{self, Options, Running};
use oncegate_certs::{Authority, Leaves, upstream_config};
use oncegate_policy::fingerprint::digest_hex;
use tempfile::TempDir;
use ulid::Ulid;

use super::agent::Agent;
use super::provider::Provider;

/// The provider's name, for its certificate.
const HOST: &str = "api.stripe.com";
/// Who the agent is.
const CALLER: &str = "billing-agent";

/// Everything that runs.
pub(crate) struct Scene {
    /// The stand-in provider.
    pub(crate) provider: Provider,
    /// The sidecar.
    pub(crate) running: Running,
    /// The client behind it.
    pub(crate) agent: Agent,
    secret: String,
    directory: TempDir,
}

impl Scene {
    /// Sets everything up on loopback; nothing is left behind but what [`Scene::clear`] removes.
    pub(crate) async fn set() -> Result<Self, String> {
        let directory = tempfile::Builder::new()
            .prefix("oncegate-demo-")
            .tempdir()
            .map_err(|error| format!("cannot make a temporary directory: {error}"))?;
        let path = directory.path();
        let provider = provider(&path.join("provider")).await?;
        let secret = format!("sk_test_demo_{}", Ulid::new());
        let key = format!("ogk_demo_{}", Ulid::new());
        write_private(&path.join("stripe.key"), &secret)?;
        let file = path.join("oncegate.toml");
        write_private(&file, &configuration(&provider, &key))?;
        let loaded = load::load(&file).map_err(|error| error.to_string())?;
        let running =
            serve::start(loaded, Options::default()).await.map_err(|error| crate::cli::chain(&error))?;
        let agent = match agent(&running, &key) {
            Ok(agent) => agent,
            Err(error) => {
                running.stop().await;
                return Err(error);
            }
        };
        Ok(Self { provider, running, agent, secret, directory })
    }

    /// A key as client libraries make them: new for every call.
    pub(crate) fn fresh_key(&self) -> String {
        let digits = format!("{:032x}", u128::from(Ulid::new()).rotate_left(64));
        let group = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32))
    }

    /// Where everything is, for the curious.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Whether the provider's key ever reached the agent; it must have reached the provider, each time.
    pub(crate) fn agent_saw_the_secret(&self) -> bool {
        let presented = self.provider.credentials();
        let real = format!("Bearer {}", self.secret);
        presented.is_empty()
            || presented.iter().any(|one| *one != real)
            || self.agent.ever_heard(&self.secret)
    }

    /// Stops everything and removes the directory.
    pub(crate) async fn clear(self) {
        self.running.stop().await;
        // If it cannot be removed, the system's own cleaning of temporary files will.
        drop(self.directory.close());
    }
}

async fn provider(directory: &Path) -> Result<Provider, String> {
    let now = Clock::System.system();
    let authority = Authority::load_or_create(directory, now).map_err(|error| crate::cli::chain(&error))?;
    let leaves = Leaves::new(Arc::new(authority), NonZeroUsize::MIN);
    let tls = leaves.server_config(HOST, now).map_err(|error| crate::cli::chain(&error))?;
    Provider::start(tls).await
}

fn agent(running: &Running, key: &str) -> Result<Agent, String> {
    let ca = fs::read(running.ca_pem()).map_err(|error| format!("cannot read the CA: {error}"))?;
    let trust = upstream_config(Some(&ca), &[b"http/1.1"]).map_err(|error| crate::cli::chain(&error))?;
    Ok(Agent::new(running.proxy_addr(), CALLER, key, trust))
}

fn write_private(path: &Path, text: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn configuration(provider: &Provider, key: &str) -> String {
    let digest = digest_hex(key.as_bytes());
    let address = provider.addr();
    format!(
        r#"
[proxy]
listen = "127.0.0.1:0"
respond_within = "4s"
upstream_timeout = "5s"

[control]
listen = "127.0.0.1:0"

[callers.{CALLER}]
key_sha256 = "{digest}"
scopes = ["actions:invoke"]

[secrets.STRIPE_KEY]
from = {{ file = "stripe.key" }}
allowed_hosts = ["{HOST}"]

[hosts."{HOST}"]
credential = {{ header = "Authorization", value = "Bearer {{{{secret:STRIPE_KEY}}}}" }}
connect_to = "{address}"
ca_file = "provider/ca.pem"

[actions.refund]
adapter = {{ type = "stripe.refund", mode = "test", currency = "usd" }}
credential_secret = "STRIPE_KEY"

[limits.refunds-per-day]
dimension = "money"
currency = "usd"
period = "day"
amount = 50_000
"#
    )
}
