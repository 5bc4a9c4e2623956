//! The telling: who said what and when, and what had to be true at that point.

use crate::control::view::{EffectJson, LimitJson};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::agent::Heard;
use super::dollars;
use super::scene::Scene;
use crate::cli::print;

/// Longest line of an answer that is shown.
const SHOWN_CHARS_MAX: usize = 100;

/// Whose line it is.
#[derive(Clone, Copy)]
pub(crate) enum Who {
    /// The client behind the proxy.
    Agent,
    /// The sidecar.
    Oncegate,
    /// The stand-in.
    Provider,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Oncegate => "oncegate",
            Self::Provider => "provider",
        }
    }
}

/// Prints the story and keeps its checks.
pub(crate) struct Teller {
    silent: bool,
    began: Instant,
    chapters: usize,
    checks: Vec<(String, bool)>,
}

impl Teller {
    /// A story that begins now.
    pub(crate) fn new(silent: bool) -> Self {
        Self { silent, began: Instant::now(), chapters: 0, checks: Vec::new() }
    }

    /// Who plays.
    pub(crate) fn opening(&self, scene: &Scene) {
        self.line("Oncegate demo: one lost answer, one refund. Nothing leaves this machine.");
        self.line("");
        self.line(&format!(
            "  agent     an ordinary HTTP client; HTTPS_PROXY=http://{}",
            scene.running.proxy_addr()
        ));
        self.line("  oncegate  the sidecar; daily refund limit $500.00");
        self.line(&format!(
            "  provider  a stand-in for api.stripe.com at {}; it ignores idempotency keys",
            scene.provider.addr()
        ));
        self.line(&format!("  files     {} (removed at the end)", scene.path().display()));
    }

    /// A new part of the story.
    pub(crate) fn chapter(&mut self, title: &str) {
        self.chapters += 1;
        self.line(&format!("\n{}. {title}", self.chapters));
    }

    /// One line of it.
    pub(crate) fn says(&self, who: Who, text: &str) {
        let seconds = self.began.elapsed().as_secs_f32();
        self.line(&format!("  {seconds:>5.2}s  {:<8}  {text}", who.name()));
    }

    /// What the agent reads.
    pub(crate) fn hears(&self, heard: &Heard) {
        let code = heard.code.as_deref().map(|code| format!(" · {code}")).unwrap_or_default();
        match (&heard.message, &heard.id) {
            (Some(message), _) => {
                self.says(Who::Agent, &format!("reads {}{code}", heard.status));
                for line in folded(&format!("“{message}”"), SHOWN_CHARS_MAX) {
                    self.line(&format!("{:21}{line}", ""));
                }
            }
            (None, Some(id)) => {
                self.says(Who::Agent, &format!("reads {} {}  {id}", heard.status, heard.reason));
            }
            (None, None) => self.says(Who::Agent, &format!("reads {} {}", heard.status, heard.reason)),
        }
    }

    /// Something that has to be true here.
    pub(crate) fn check(&mut self, what: &str, good: bool) {
        self.line(&format!("{:21}{} {what}", "", if good { "✓" } else { "✗ NOT SO:" }));
        self.checks.push((what.to_owned(), good));
    }

    /// The record at the end.
    pub(crate) fn receipt(&self, effect: Option<&EffectJson>, limit: &LimitJson) {
        if let Some(effect) = effect {
            let attempts = effect.attempts.as_deref().unwrap_or_default();
            let kinds: Vec<_> = attempts.iter().map(|attempt| attempt.kind.as_str()).collect();
            self.line(&format!("  effect    {}", effect.id));
            self.line(&format!(
                "            {} · {} · by {}",
                effect.outcome, effect.grade, effect.verification
            ));
            self.line(&format!("            attempts: {}", kinds.join(", ")));
        }
        self.line(&format!(
            "  limit     {}: ${} a day, ${} consumed, ${} held, ${} left",
            limit.name,
            dollars(limit.amount),
            dollars(limit.consumed),
            dollars(limit.reserved),
            dollars(limit.available)
        ));
    }

    /// The last word.
    pub(crate) fn closing(&self) {
        self.line("");
        if self.all_good() {
            self.line("The provider counted 1 write. The customer was refunded once.");
            self.line("Next: `oncegate init`, then `oncegate run --as agent -- your-agent`.");
        } else {
            let bad = self.checks.iter().filter(|(_, good)| !good).count();
            self.line(&format!("{bad} of {} checks did not hold. Please report this.", self.checks.len()));
        }
    }

    /// Whether everything was as it has to be.
    pub(crate) fn all_good(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(|(_, good)| *good)
    }

    /// Every check, for programs.
    pub(crate) fn checks(&self) -> Vec<Value> {
        self.checks.iter().map(|(what, good)| json!({ "check": what, "ok": good })).collect()
    }

    fn line(&self, text: &str) {
        if !self.silent {
            print::line(text);
        }
    }
}

/// The text in lines of at most `width` characters, cut between words.
fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = lines
            .last()
            .is_some_and(|line| line.is_empty() || line.chars().count() + word.chars().count() < width);
        if !fits {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_are_folded_between_words() {
        assert_eq!(folded("a bb ccc", 5), ["a bb", "ccc"]);
        assert_eq!(folded("longer-than-it", 3), ["longer-than-it"]);
    }

    #[test]
    fn nothing_checked_is_not_good() {
        let mut teller = Teller::new(true);
        assert!(!teller.all_good());
        teller.check("a", true);
        assert!(teller.all_good());
        teller.check("b", false);
        assert!(!teller.all_good());
    }
}
