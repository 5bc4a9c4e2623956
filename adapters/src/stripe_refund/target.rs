//! What is refunded: one payment intent or one charge.

use oncegate_policy::exchange::Answer;
use oncegate_policy::json;
use oncegate_policy::limit::ANY;
use oncegate_policy::near::NearSubject;
use oncegate_policy::refusal::Refusal;
use serde_json::Value;

use crate::stripe::{MAX_ID, invalid};

/// Goes before a charge of which it is not known which payment intent it is of.
const UNREAD: &str = "unread_charge";

/// The two things that a refund can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// `pi_…`
    PaymentIntent,
    /// `ch_…` or `py_…`
    Charge,
}

impl TargetKind {
    /// The parameter and the member of the refund object.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::PaymentIntent => "payment_intent",
            Self::Charge => "charge",
        }
    }

    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::PaymentIntent => &["pi_"],
            Self::Charge => &["ch_", "py_"],
        }
    }
}

/// Which payment intent it is of, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payment {
    /// `pi_…`
    Intent(String),
    /// A charge of none, or no charge at all.
    NoIntent,
    /// Nobody has said: it may be any.
    Unread,
}

/// What is refunded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    /// Letters, digits and underscores only: it goes into URLs.
    pub(crate) id: String,
}

impl Target {
    /// Exactly one of `payment_intent` and `charge`.
    pub(crate) fn of(input: &Value) -> Result<Self, Refusal> {
        let given = |kind: TargetKind| input.get(kind.word()).filter(|value| !value.is_null());
        let (kind, value) = match (given(TargetKind::PaymentIntent), given(TargetKind::Charge)) {
            (Some(value), None) => (TargetKind::PaymentIntent, value),
            (None, Some(value)) => (TargetKind::Charge, value),
            (Some(_), Some(_)) => {
                return Err(invalid("Name either payment_intent or charge to refund, not both"));
            }
            (None, None) => return Err(invalid("Name the payment_intent or the charge to refund")),
        };
        match value.as_str().filter(|id| is_id(id, kind.prefixes())) {
            Some(id) => Ok(Self { kind, id: id.to_owned() }),
            None => Err(invalid(format!("{} is not an id of that kind", kind.word()))),
        }
    }

    /// The payment that this takes from. A charge is most often one of a payment intent; only the charge itself says so, and it
    /// is read before. Stripe's own word that there is none is believed. A key that may not read charges, a page of a
    /// gateway, an object that is another one say nothing.
    pub(crate) fn payment(&self, read: Option<&Answer>) -> Payment {
        if self.kind == TargetKind::PaymentIntent {
            return Payment::Intent(self.id.clone());
        }
        let Some(answer) = read else { return Payment::Unread };
        match self.charge_in(answer) {
            Some(charge) => intent_of(&charge),
            None if is_missing(answer) => Payment::NoIntent,
            None => Payment::Unread,
        }
    }

    /// The fence, and what else is looked at. It is `payment_intent/pi_…`: a refund of either takes from the same payment. Where
    /// it is not known which, whatever is unknown of the other kind is in its way, since it may be the same one.
    pub(crate) fn fences(&self, payment: &Payment) -> (String, Vec<NearSubject>) {
        use NearSubject::{Beginning, Named};
        let intents = TargetKind::PaymentIntent.word();
        if self.kind == TargetKind::PaymentIntent {
            return (self.named(), vec![Beginning(format!("{UNREAD}/"))]);
        }
        let unread = format!("{UNREAD}/{}", self.id);
        match payment {
            // As it was fenced before its intent was looked for, or while it could not be read.
            Payment::Intent(intent) => {
                (format!("{intents}/{intent}"), vec![Named(self.named()), Named(unread)])
            }
            Payment::NoIntent => (self.named(), vec![Named(unread)]),
            Payment::Unread => (unread, vec![Named(self.named()), Beginning(format!("{intents}/"))]),
        }
    }

    /// What limits are compared with, one name a line: what the request names, and the payment that this takes from, each with
    /// the account before it and without, so that a limit of `pi_` is left neither by an account that the agent adds nor by
    /// naming the charge.
    pub(crate) fn resource(&self, payment: &Payment, account: Option<&str>) -> String {
        let also = match payment {
            Payment::Intent(intent) if *intent != self.id => Some(intent.clone()),
            Payment::Intent(_) | Payment::NoIntent => None,
            Payment::Unread => Some(format!("pi_{ANY}")),
        };
        let names = [Some(&self.id), also.as_ref()].into_iter().flatten();
        let lines = names.flat_map(|name| {
            let within = account.map(|account| format!("{account}/{name}"));
            within.into_iter().chain([name.clone()])
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The charge, if the answer is that one (<https://docs.stripe.com/api/charges/object>).
    fn charge_in(&self, answer: &Answer) -> Option<Value> {
        let charge = json::of_answer(&answer.body).ok().filter(|_| answer.status == 200)?;
        (charge["object"] == "charge" && charge["id"] == self.id.as_str()).then_some(charge)
    }

    /// As the request names it: `charge/ch_…`.
    pub(crate) fn named(&self) -> String {
        format!("{}/{}", self.kind.word(), self.id)
    }

    /// Where the amount that is left can be read.
    pub(crate) fn amount_path(&self) -> String {
        match self.kind {
            TargetKind::PaymentIntent => {
                format!("/v1/payment_intents/{}?expand[]=latest_charge", self.id)
            }
            TargetKind::Charge => format!("/v1/charges/{}", self.id),
        }
    }

    /// The first page of its refunds.
    pub(crate) fn list_path(&self) -> String {
        format!("/v1/refunds?{}={}&limit=100", self.kind.word(), self.id)
    }

    /// What a refund object says of its target: `Some(false)` when it names another, `None` when it does not say.
    pub(crate) fn is_of(&self, refund: &Value) -> Option<bool> {
        let named = refund.get(self.kind.word())?;
        let id = named.as_str().or_else(|| named.get("id")?.as_str())?;
        Some(id == self.id)
    }
}

/// Whether Stripe itself says that there is no such thing (<https://docs.stripe.com/error-codes#resource-missing>).
fn is_missing(answer: &Answer) -> bool {
    answer.status == 404
        && json::of_answer(&answer.body).is_ok_and(|body| body["error"]["code"] == "resource_missing")
}

/// The payment intent of a charge.
fn intent_of(charge: &Value) -> Payment {
    let named = charge.get("payment_intent").unwrap_or(&Value::Null);
    if named.is_null() {
        return Payment::NoIntent;
    }
    let id = named.as_str().or_else(|| named.get("id")?.as_str());
    match id.filter(|id| is_id(id, TargetKind::PaymentIntent.prefixes())) {
        Some(id) => Payment::Intent(id.to_owned()),
        None => Payment::Unread,
    }
}

/// One of the prefixes, then letters, digits and underscores.
pub(crate) fn is_id(text: &str, prefixes: &[&str]) -> bool {
    let tail = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or_default();
    !tail.is_empty() && text.len() <= MAX_ID && tail.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
