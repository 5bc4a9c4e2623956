//! A small stand-in for GitHub: the files of one repository and their commits. It has no idempotency keys; a blob SHA
//! that is not the file's any more is a 409, a missing one a 422.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    provider::{Brain, Provider},
    record::Request,
    script::{Act, Reply, When},
    stripe::form,
};

/// The branch that is meant when none is named.
pub const DEFAULT_BRANCH: &str = "trunk";

#[derive(Default)]
struct Books {
    /// By branch and path: the file's content in Base64.
    files: BTreeMap<(String, String), String>,
    /// Oldest first.
    commits: Vec<Value>,
    to_lose: usize,
}

/// The books; share one with the provider to look into them.
#[derive(Clone, Default)]
pub struct Github {
    books: Arc<Mutex<Books>>,
}

impl Github {
    /// Serves these books as `api.github.com`.
    pub fn serve(&self) -> Provider {
        Provider::tls_with(&["api.github.com"], Arc::new(self.clone()))
    }

    /// The next `n` writes are done, and their answers lost.
    pub fn lose(&self, n: usize) {
        self.books.lock().unwrap().to_lose = n;
    }

    /// All commits, oldest first.
    pub fn commits(&self) -> Vec<Value> {
        self.books.lock().unwrap().commits.clone()
    }

    /// A file's content, if it is there.
    pub fn file(&self, branch: &str, path: &str) -> Option<String> {
        self.books.lock().unwrap().files.get(&(branch.to_owned(), path.to_owned())).cloned()
    }
}

/// The id of something: 40 hexadecimal digits.
pub fn sha(of: &str) -> String {
    Sha256::digest(of.as_bytes()).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

fn refused(status: &'static str, message: &str) -> (&'static str, Value) {
    let body =
        json!({"message": message, "documentation_url": "https://docs.example", "status": status[..3]});
    (status, body)
}

impl Books {
    fn write(&mut self, path: &str, body: &Value, delete: bool) -> (&'static str, Value) {
        let branch = body["branch"].as_str().unwrap_or(DEFAULT_BRANCH).to_owned();
        let at = (branch.clone(), path.to_owned());
        let blob = self.files.get(&at).map(|content| sha(content));
        match (&blob, body["sha"].as_str()) {
            (None, None) if !delete => {}
            (None, _) => return refused("404 Not Found", "Not Found"),
            (Some(_), None) => return refused("422 Unprocessable Entity", "\"sha\" wasn't supplied."),
            (Some(blob), Some(sent)) if blob != sent => {
                return refused("409 Conflict", &format!("{path} does not match {sent}"));
            }
            (Some(_), Some(_)) => {}
        }
        let content = if delete {
            self.files.remove(&at);
            Value::Null
        } else {
            self.files.insert(at, body["content"].as_str().expect("a content").to_owned());
            self.shown(&branch, path).expect("it was just written")
        };
        let id = sha(&format!("{} {branch} {path}", self.commits.len()));
        let message = &body["message"];
        self.commits.push(json!({"sha": id, "branch": branch, "path": path, "commit": {"message": message}}));
        let answer = json!({"content": content, "commit": {"sha": id, "message": message}});
        (if blob.is_none() { "201 Created" } else { "200 OK" }, answer)
    }

    fn shown(&self, branch: &str, path: &str) -> Option<Value> {
        let content = self.files.get(&(branch.to_owned(), path.to_owned()))?;
        Some(json!({"name": path.rsplit('/').next(), "path": path, "sha": sha(content), "type": "file"}))
    }

    fn list(&self, query: &Value) -> Value {
        let branch = query["sha"].as_str().unwrap_or(DEFAULT_BRANCH);
        let ours = |commit: &&Value| commit["branch"] == branch && commit["path"] == query["path"];
        let number = |name: &str| query[name].as_str().map_or(1, |n| n.parse().expect("digits"));
        let (per_page, page): (usize, usize) = (number("per_page"), number("page"));
        let newest: Vec<Value> = self.commits.iter().rev().filter(ours).cloned().collect();
        newest.into_iter().skip((page - 1) * per_page).take(per_page).collect()
    }

    fn answer(&mut self, request: &Request) -> (&'static str, Value) {
        if request.head.field("user-agent").is_none() {
            return refused("403 Forbidden", "Please make sure your request has a User-Agent header");
        }
        let target = request.target.replace("%2F", "/");
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let body = || serde_json::from_slice(&request.body).expect("a body of JSON");
        let of_ref = |query: &Value| match query["ref"].as_str() {
            None => DEFAULT_BRANCH.to_owned(),
            Some(named) => {
                let commit = self.commits.iter().find(|commit| commit["sha"] == named);
                commit.map_or(named.to_owned(), |commit| commit["branch"].as_str().unwrap().to_owned())
            }
        };
        match (request.method.as_str(), words.as_slice()) {
            ("GET", ["repos", _, _]) => ("200 OK", json!({"default_branch": DEFAULT_BRANCH})),
            ("GET", ["repos", _, _, "commits"]) => ("200 OK", self.list(&form(query))),
            ("GET", ["repos", _, _, "commits", id]) => {
                match self.commits.iter().find(|commit| commit["sha"] == *id) {
                    Some(commit) => ("200 OK", commit.clone()),
                    None => refused("422 Unprocessable Entity", "No commit found"),
                }
            }
            ("GET", ["repos", _, _, "contents", path @ ..]) => {
                match self.shown(&of_ref(&form(query)), &path.join("/")) {
                    Some(file) => ("200 OK", file),
                    None => refused("404 Not Found", "Not Found"),
                }
            }
            ("PUT", ["repos", _, _, "contents", path @ ..]) => self.write(&path.join("/"), &body(), false),
            ("DELETE", ["repos", _, _, "contents", path @ ..]) => self.write(&path.join("/"), &body(), true),
            _ => refused("404 Not Found", "Not Found"),
        }
    }
}

impl Brain for Github {
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
