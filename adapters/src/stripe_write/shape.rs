//! Which endpoint a URL is, and what is known of it.

/// Endpoints below `/v1/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// `/v1/transfers`: makes one.
    Create(Kind),
    /// `/v1/transfers/tr_1`: changes one.
    Update(Kind, String),
    /// `/v1/payment_intents/pi_1/capture`, which takes metadata as an update does.
    MarkedVerb(Kind, String),
    /// An endpoint that is not known to take metadata: Stripe refuses parameters that it does not know.
    #[default]
    Other,
}

/// A kind of object whose create and update take metadata, and which can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// `/v1/{name}`
    pub(super) name: &'static str,
    /// Parameters of the list that are members of what was asked, too.
    pub(super) filters: &'static [&'static str],
    /// Whether the list takes `created[gte]`.
    pub(super) by_time: bool,
    /// States in which it was not done, or was undone.
    pub(super) failed: &'static [&'static str],
}

/// From the reference of each kind: `/api/{kind}/create`, `/update`, `/list`, `/object`.
const KINDS: [Kind; 7] = [
    // <https://docs.stripe.com/api/payment_intents>
    Kind { name: "payment_intents", filters: &["customer"], by_time: true, failed: &["canceled"] },
    // <https://docs.stripe.com/api/charges>
    Kind { name: "charges", filters: &["customer", "transfer_group"], by_time: true, failed: &["failed"] },
    // <https://docs.stripe.com/api/transfers>
    Kind { name: "transfers", filters: &["destination", "transfer_group"], by_time: true, failed: &[] },
    // <https://docs.stripe.com/api/payouts>
    Kind { name: "payouts", filters: &["destination"], by_time: true, failed: &["failed", "canceled"] },
    // <https://docs.stripe.com/api/invoices>
    Kind { name: "invoices", filters: &["customer", "subscription"], by_time: true, failed: &[] },
    // <https://docs.stripe.com/api/customers>
    Kind { name: "customers", filters: &["email"], by_time: true, failed: &[] },
    // <https://docs.stripe.com/api/credit_notes>
    Kind { name: "credit_notes", filters: &["invoice"], by_time: false, failed: &[] },
];

impl Shape {
    /// `None` for what is below no `/v1/`.
    pub(super) fn of_url(url: &str) -> Option<Self> {
        let path = url.split_once("/v1/")?.1.split('?').next().unwrap_or_default();
        let words: Vec<&str> = path.split('/').collect();
        let kind = KINDS.iter().find(|kind| words.first() == Some(&kind.name)).copied();
        Some(match (kind, words.as_slice()) {
            (Some(kind), [_]) => Self::Create(kind),
            (Some(kind), [_, id]) => Self::Update(kind, (*id).to_owned()),
            // <https://docs.stripe.com/api/payment_intents/capture>
            (Some(kind), [_, id, "capture"]) if kind.name == "payment_intents" => {
                Self::MarkedVerb(kind, (*id).to_owned())
            }
            (Some(_) | None, _) => Self::Other,
        })
    }

    pub(super) fn takes_metadata(&self) -> bool {
        match self {
            Self::Create(_) | Self::Update(..) | Self::MarkedVerb(..) => true,
            Self::Other => false,
        }
    }
}
