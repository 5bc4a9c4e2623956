//! A small stand-in for Resend: mails under keys that are remembered, with logs of the calls. A key that may only send
//! cannot read.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    provider::{Brain, Provider},
    record::Request,
    script::{Act, Reply, When},
};

/// The credential that may only send.
pub const SEND_KEY: &str = "re_send_5tGb6yHn";
/// The credential that may read.
pub const READ_KEY: &str = "re_read_7uJm8iKl";

#[derive(Default)]
struct Books {
    emails: Vec<Value>,
    logs: Vec<Value>,
    keys: BTreeMap<String, (Vec<u8>, Value)>,
    to_lose: usize,
    no_logs: bool,
}

/// The books; share one with the provider to look into them.
#[derive(Clone, Default)]
pub struct Resend {
    books: Arc<Mutex<Books>>,
}

impl Resend {
    /// Serves these books as `api.resend.com`.
    pub fn serve(&self) -> Provider {
        Provider::tls_with(&["api.resend.com"], Arc::new(self.clone()))
    }

    /// The next `n` mails are sent, and their answers lost.
    pub fn lose(&self, n: usize) {
        self.books.lock().unwrap().to_lose = n;
    }

    /// From now on there is no `/logs`, and emails are shown with their tags.
    pub fn without_logs(&self) {
        self.books.lock().unwrap().no_logs = true;
    }

    /// All mails that went out, oldest first.
    pub fn emails(&self) -> Vec<Value> {
        self.books.lock().unwrap().emails.clone()
    }
}

impl Books {
    fn send(&mut self, request: &Request) -> (&'static str, Value) {
        let key = request.head.field("idempotency-key").unwrap_or_default().to_owned();
        if let Some((body, answer)) = self.keys.get(&key) {
            let conflict =
                || error(409, "invalid_idempotent_request", "The key was used with another payload");
            return if *body == request.body {
                ("200 OK", answer.clone())
            } else {
                ("409 Conflict", conflict())
            };
        }
        let mut email: Value = serde_json::from_slice(&request.body).expect("a mail as JSON");
        if email["to"].is_null() {
            return ("422 Unprocessable Entity", error(422, "missing_required_field", "Missing `to` field"));
        }
        let id = format!("49a3999c-0ce1-4ea6-ab68-{:012}", self.emails.len() + 1);
        email["id"] = json!(id);
        email["created_at"] = json!(jiff::Timestamp::now().to_string());
        email["last_event"] = json!("sent");
        self.emails.push(email);
        let answer = json!({ "id": id });
        self.keys.insert(key, (request.body.clone(), answer.clone()));
        ("200 OK", answer)
    }

    fn log(&mut self, request: &Request, status: &str, answer: &Value) {
        let status: u64 = status[..3].parse().expect("a status");
        let id = format!("37e4414c-5e25-4dbc-a071-{:012}", self.logs.len() + 1);
        self.logs.push(json!({
            "id": id, "created_at": jiff::Timestamp::now().to_string(), "endpoint": request.target,
            "method": request.method, "response_status": status,
            "user_agent": request.head.field("user-agent"), "response_body": answer,
        }));
    }

    fn answer(&mut self, request: &Request) -> (&'static str, Value) {
        let path = request.target.split('?').next().unwrap_or_default();
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let one = |all: &[Value], id: &str| match all.iter().find(|one| one["id"] == id) {
            Some(one) => ("200 OK", one.clone()),
            None => missing(),
        };
        match (request.method.as_str(), words.as_slice()) {
            ("POST", ["emails"]) => {
                let (status, answer) = self.send(request);
                self.log(request, status, &answer);
                (status, answer)
            }
            ("GET", _) if request.head.field("authorization") != Some(&format!("Bearer {READ_KEY}")) => (
                "401 Unauthorized",
                error(401, "restricted_api_key", "This API key is restricted to only send"),
            ),
            ("GET", ["logs", ..]) if self.no_logs => missing(),
            ("GET", ["logs"]) => ("200 OK", newest_first(&self.logs, "response_body")),
            ("GET", ["logs", id]) => one(&self.logs, id),
            ("GET", ["emails"]) => ("200 OK", newest_first(&self.emails, "tags")),
            ("GET", ["emails", id]) => one(&self.emails, id),
            _ => missing(),
        }
    }
}

/// A list does not show everything that the one object does.
fn newest_first(all: &[Value], hidden: &str) -> Value {
    let mut rows: Vec<Value> = all.iter().rev().cloned().collect();
    for row in &mut rows {
        row.as_object_mut().unwrap().remove(hidden);
    }
    json!({"object": "list", "has_more": false, "data": rows})
}

impl Brain for Resend {
    fn answer(&self, request: &Request) -> Reply {
        let mut books = self.books.lock().unwrap();
        let (status, body) = books.answer(request);
        if request.is_write() && books.to_lose > 0 {
            books.to_lose -= 1;
            return Reply { when: When::Whole, acts: vec![Act::Fin] };
        }
        Reply::json(status, &body.to_string())
    }
}

fn error(status: u16, name: &str, message: &str) -> Value {
    json!({"statusCode": status, "name": name, "message": message})
}

fn missing() -> (&'static str, Value) {
    ("404 Not Found", error(404, "not_found", "No such thing"))
}
