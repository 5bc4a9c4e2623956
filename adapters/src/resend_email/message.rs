//! Whom a mail goes to, and what it is about.

use oncegate_policy::limit::ANY;
use oncegate_policy::refusal::Refusal;
use serde_json::Value;

use super::{Fence, invalid};
use crate::plan::bounded_subject;

/// `to` takes at most 50 addresses (<https://resend.com/docs/api-reference/emails/send-email>); the same bound is
/// kept for `cc` and `bcc`.
const MAX_ADDRESSES: usize = 50;

/// The parts of a mail that say which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    from: String,
    /// Bare addresses in lower case, sorted, each once.
    to: Vec<String>,
    /// The words of the subject line, in lower case; a template's id where there is no subject line.
    about: String,
    /// Everybody who gets it: `to`, `cc` and `bcc`.
    everybody: Vec<String>,
}

impl Message {
    pub(super) fn of(input: &Value) -> Result<Self, Refusal> {
        let mut to = addresses(input, "to")?;
        if to.is_empty() {
            return Err(invalid("Name the recipients in `to`"));
        }
        let copies = [addresses(input, "cc")?, addresses(input, "bcc")?];
        let everybody = to.iter().chain(copies.iter().flatten()).cloned().collect();
        to.sort_unstable();
        to.dedup();
        let from = match input.get("from") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(_)) => addresses(input, "from")?.join(","),
            Some(_) => return Err(invalid("`from` must be one address")),
        };
        let line = ["/subject", "/template/id"].iter().find_map(|at| input.pointer(at)?.as_str());
        Ok(Self { from, to, about: words(line.unwrap_or_default()), everybody })
    }

    /// How many people get it: each address of `to`, `cc` and `bcc` is a mail of its own to whoever reads it.
    pub(super) fn recipients_counted(&self) -> i64 {
        i64::try_from(self.everybody.len()).unwrap_or(i64::MAX)
    }

    /// What is acted on: `alice@example.com/your refund`.
    pub(super) fn fence(&self, fence: Fence) -> String {
        let to = self.to.join(",");
        bounded_subject(match fence {
            Fence::RecipientsAndSubject => format!("{to}/{}", self.about),
            Fence::Recipients => to,
        })
    }

    /// What limits are narrowed by, a line for each recipient: `billing@acme.example/alice@example.com`. A template can have
    /// a sender of its own, which is not known here.
    pub(super) fn resource(&self) -> String {
        let from = if self.from.is_empty() { ANY } else { &self.from };
        let mut names: Vec<_> =
            self.everybody.iter().map(|recipient| format!("{from}/{recipient}")).collect();
        names.sort_unstable();
        names.dedup();
        names.join("\n")
    }

    /// Whether an email object of Resend's may be this one.
    pub(super) fn may_be(&self, email: &Value) -> bool {
        Self::of(email).is_ok_and(|other| (&other.to, &other.about) == (&self.to, &self.about))
    }
}

/// Recipients stand in `to`, `cc` and `bcc` alone: what Resend makes of `BCC`, or of a field `Bcc` among the `headers`, is not
/// documented.
pub(super) fn plain_names(input: &Value) -> Result<(), Refusal> {
    const ENVELOPE: [&str; 4] = ["from", "to", "cc", "bcc"];
    let is_envelope = |name: &str| ENVELOPE.iter().any(|known| known.eq_ignore_ascii_case(name.trim()));
    let members = input.as_object().into_iter().flatten();
    let other =
        members.map(|(name, _)| name).find(|name| is_envelope(name) && !ENVELOPE.contains(&name.as_str()));
    let fields = input.get("headers").and_then(Value::as_object).into_iter().flatten();
    let field = fields.map(|(name, _)| name).find(|name| is_envelope(name));
    match other.or(field) {
        Some(name) => Err(invalid(format!(
            "Name the sender and the recipients in from, to, cc and bcc, not in `{name}`"
        ))),
        None => Ok(()),
    }
}

/// One address or a list of them, bare.
fn addresses(input: &Value, name: &str) -> Result<Vec<String>, Refusal> {
    let written: Vec<&str> = match input.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| invalid(format!("`{name}` must hold addresses only")))?
        }
        Some(_) => return Err(invalid(format!("`{name}` must be an address or a list of addresses"))),
    };
    if written.len() > MAX_ADDRESSES {
        return Err(invalid(format!("`{name}` has more than {MAX_ADDRESSES} addresses")));
    }
    let bare: Vec<String> = written.into_iter().map(bare).collect();
    // Two in one text would be counted as one, and quotes and comments make another spelling of the same.
    let one = |address: &String| {
        address.matches('@').count() == 1 && !address.contains([',', ';', ' ', '<', '>', '"', '(', ')'])
    };
    match bare.iter().all(one) {
        true => Ok(bare),
        false => Err(invalid(format!("`{name}` holds what is not one address"))),
    }
}

/// `Alice <Alice@Example.com>` and `alice@example.com` are one mailbox.
fn bare(written: &str) -> String {
    let inner = written.trim().strip_suffix('>').and_then(|rest| rest.rsplit_once('<'));
    inner.map_or(written, |(_, address)| address).trim().to_lowercase()
}

/// Letters and digits in lower case; whatever else stands between them is one space.
fn words(line: &str) -> String {
    let lower = line.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
