//! What is said of one client.

use serde_json::{Value, json};

use super::clients::Client;
use crate::probe::Stage;

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this code; `None` when a signal ended it.
    By(Option<i32>),
    /// It was ended, because it took too long.
    Late,
    /// It could not be started.
    Never(String),
}

/// A client that was found, and how far it came.
pub(super) struct Verdict {
    pub(super) client: &'static Client,
    /// Where it was found.
    pub(super) program: String,
    /// What it says of itself.
    pub(super) version: Option<String>,
    pub(super) seen: Option<Stage>,
    pub(super) ended: Ended,
    /// Its last word on standard error.
    pub(super) said: String,
}

impl Verdict {
    /// Whether its requests come through, and it trusts what it meets there.
    pub(super) fn governed(&self) -> bool {
        self.seen == Some(Stage::Asked)
    }

    fn why(&self) -> String {
        match (self.seen, &self.ended) {
            (Some(Stage::Asked), _) => "uses the proxy and trusts its certificate".to_owned(),
            (Some(Stage::Connected), _) => "uses the proxy, but does not trust its certificate".to_owned(),
            (Some(Stage::Challenged), _) => "reaches the proxy, but does not say who it is".to_owned(),
            (None, Ended::By(Some(0))) => {
                "does not use the proxy, and believes that all went well".to_owned()
            }
            (None, Ended::By(_)) => "does not use the proxy".to_owned(),
            (None, Ended::Late) => "did not come to the proxy in time".to_owned(),
            (None, Ended::Never(why)) => format!("could not be tried: {why}"),
        }
    }

    fn remedy(&self) -> &'static str {
        match self.seen {
            Some(Stage::Asked) => "",
            Some(Stage::Connected) => self.client.to_trust,
            Some(Stage::Challenged) => {
                "give the caller a port of its own (listen = …), where no key is needed"
            }
            None => self.client.to_use,
        }
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "client": self.client.name,
            "version": self.version,
            "program": self.program,
            "governed": self.governed(),
            "seen": self.seen.map(Stage::word),
            "why": self.why(),
            "remedy": self.remedy(),
            "said": if self.governed() { "" } else { &self.said },
        })
    }

    pub(super) fn text(&self) -> String {
        let word = if self.governed() { "ok" } else { "failed" };
        let version = self.version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default();
        let mut text = format!("{word:<9} {}{version}: {}\n", self.client.name, self.why());
        if !self.governed() {
            if !self.said.is_empty() {
                text.push_str(&format!("          it said: {}\n", self.said));
            }
            text.push_str(&format!("          -> {}\n", self.remedy()));
        }
        text
    }
}
