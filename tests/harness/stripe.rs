//! A small stand-in for Stripe: refunds with metadata, listed page by page. Like localstripe it ignores idempotency
//! keys, so that a second send shows as a second refund.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use crate::{
    provider::{Brain, Provider},
    record::Request,
    script::{Act, Reply, When},
};

/// What every payment was about, in cents.
pub const PAID: u64 = 50_000;

#[derive(Default)]
struct Books {
    refunds: Vec<Value>,
    to_lose: usize,
}

/// The books; share one with the provider to look into them.
#[derive(Clone, Default)]
pub struct Stripe {
    books: Arc<Mutex<Books>>,
}

impl Stripe {
    /// Serves these books as `api.stripe.com`.
    pub fn serve(&self) -> Provider {
        Provider::tls_with(&["api.stripe.com"], Arc::new(self.clone()))
    }

    /// The next `n` refunds are made, and their answers lost.
    pub fn lose(&self, n: usize) {
        self.books.lock().unwrap().to_lose = n;
    }

    /// All refunds, oldest first.
    pub fn refunds(&self) -> Vec<Value> {
        self.books.lock().unwrap().refunds.clone()
    }

    /// Changes what the provider's record says of a refund.
    pub fn set_status(&self, id: &str, status: &str) {
        let mut books = self.books.lock().unwrap();
        let refund = books.refunds.iter_mut().find(|r| r["id"] == id).expect("such a refund");
        refund["status"] = json!(status);
    }

    /// Books a refund that somebody else made.
    pub fn made_elsewhere(&self, payment: &str, amount: u64) {
        self.books.lock().unwrap().make(&json!({"payment_intent": payment, "amount": amount.to_string()}));
    }

    /// Forgets all refunds, as a provider does whose list lags behind.
    pub fn forget(&self) {
        self.books.lock().unwrap().refunds.clear();
    }
}

impl Books {
    fn make(&mut self, input: &Value) -> Value {
        let amount: u64 = match input["amount"].as_str() {
            Some(text) => text.parse().expect("an amount in digits"),
            None => PAID,
        };
        let refund = json!({
            "id": format!("re_{}", self.refunds.len() + 1),
            "object": "refund",
            "created": jiff::Timestamp::now().as_second(),
            "amount": amount,
            "currency": "usd",
            "charge": input.get("charge").cloned().unwrap_or_else(|| json!("ch_of_the_payment")),
            "payment_intent": input["payment_intent"],
            "metadata": input.get("metadata").cloned().unwrap_or_else(|| json!({})),
            "reason": input["reason"],
            "status": "succeeded",
        });
        self.refunds.push(refund.clone());
        refund
    }

    fn list(&self, query: &Value) -> Value {
        let of = |refund: &Value| {
            ["payment_intent", "charge"].iter().all(|f| query[*f].is_null() || query[*f] == refund[*f])
        };
        let mut found: Vec<Value> = self.refunds.iter().rev().filter(|r| of(r)).cloned().collect();
        if let Some(after) = query["starting_after"].as_str() {
            let at = found.iter().position(|r| r["id"] == after).expect("a known cursor");
            found.drain(..=at);
        }
        let limit: usize = query["limit"].as_str().map_or(10, |l| l.parse().expect("a limit in digits"));
        let more = found.len() > limit;
        found.truncate(limit);
        json!({"object": "list", "url": "/v1/refunds", "has_more": more, "data": found})
    }

    fn answer(&mut self, request: &Request) -> (&'static str, Value) {
        let (path, query) = request.target.split_once('?').unwrap_or((request.target.as_str(), ""));
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (request.method.as_str(), words.as_slice()) {
            ("POST", ["v1", "refunds"]) => ("200 OK", self.make(&form(&request.text()))),
            ("GET", ["v1", "refunds"]) => ("200 OK", self.list(&form(query))),
            ("GET", ["v1", "refunds", id]) => match self.refunds.iter().find(|r| r["id"] == *id) {
                Some(refund) => ("200 OK", refund.clone()),
                None => missing(),
            },
            ("GET", ["v1", "payment_intents", id]) => ("200 OK", payment(id)),
            ("GET", ["v1", "charges", id]) => ("200 OK", self.charge(id)),
            _ => missing(),
        }
    }

    fn charge(&self, id: &str) -> Value {
        let refunded: u64 =
            self.refunds.iter().filter(|r| r["charge"] == id).filter_map(|r| r["amount"].as_u64()).sum();
        json!({
            "id": id, "object": "charge", "amount": PAID, "amount_captured": PAID, "captured": true,
            "amount_refunded": refunded, "currency": "usd", "status": "succeeded",
            "payment_intent": id.strip_prefix("ch_of_").map(|rest| format!("pi_of_{rest}")),
        })
    }
}

impl Brain for Stripe {
    fn answer(&self, request: &Request) -> Reply {
        let mut books = self.books.lock().unwrap();
        let (status, body) = books.answer(request);
        if request.is_write() && books.to_lose > 0 {
            books.to_lose -= 1;
            return Reply { when: When::Whole, acts: vec![Act::Fin] };
        }
        Reply::with(status, &[("Request-Id", "req_of_the_provider")], &body.to_string())
    }
}

fn payment(id: &str) -> Value {
    json!({
        "id": id, "object": "payment_intent", "amount": PAID, "amount_received": PAID, "currency": "usd",
        "latest_charge": format!("ch_{id}"), "status": "succeeded",
    })
}

fn missing() -> (&'static str, Value) {
    let error =
        json!({"type": "invalid_request_error", "code": "resource_missing", "message": "No such thing"});
    ("404 Not Found", json!({"error": error}))
}

/// A form (or query) as JSON: `metadata[a]=b` becomes `{"metadata": {"a": "b"}}`.
pub fn form(text: &str) -> Value {
    let mut all = Map::new();
    for pair in text.split('&').filter(|p| !p.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (unescape(name), json!(unescape(value)));
        match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
            Some((outer, inner)) => {
                let nested = all.entry(outer).or_insert_with(|| json!({}));
                nested[inner] = value;
            }
            None => drop(all.insert(name, value)),
        }
    }
    Value::Object(all)
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        bytes.push(match (first, tail) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let pair = [*high, *low];
                u8::from_str_radix(std::str::from_utf8(&pair).unwrap(), 16).expect("two hex digits")
            }
            (other, _) => *other,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}
