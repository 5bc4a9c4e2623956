//! Scenarios: what agents and operators ask for, one step after the other.

use std::io;
use std::net::SocketAddr;
use std::process::ExitStatus;

use oncegate_tests::answer::Answer;
use oncegate_tests::record::Request;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::below::child::{Sidecar, Start, Started, until};
use crate::below::client::{self, Asked};
use crate::below::stage::Stage;
use crate::failure::{During, Failure};

/// One step. A path such as `transfers/a` names an action and the account that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The agent asks for a write, under a key of its own, and reads the answer.
    Write(&'static str, u64),
    /// The agent asks, and the bank has it before anything else happens. The answer is not read.
    Begin(&'static str, u64),
    /// So many agents ask at once, each for an account of its own.
    Crowd(&'static str, u64),
    /// The agent asks for a search by its name, at the API: it is not governed, and recorded all the same.
    Search(&'static str),
    /// The agent reads.
    Read(&'static str),
    /// The operator has the bank asked.
    Reconcile(&'static str),
    /// The operator has it sent again under the bank's key.
    Replay(&'static str),
    /// The operator says what became of it.
    Resolve(&'static str, &'static str),
    /// The operator lets it through, or does not.
    Decide(&'static str, &'static str),
    /// The operator stops all writes, and lets them go on.
    Halt,
    Resume,
    /// Somebody at the sqlite3 shell folds the log into the database.
    Fold,
    /// The process is killed and started again.
    Kill,
    /// The process is stopped and started again.
    Stop,
    /// The process is stopped.
    End,
}

/// A scenario with a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
    /// Whether the database is there before the first step. It is made in the scenario otherwise, which takes the
    /// most moments, and the longest to do again.
    pub(crate) warm: bool,
}

/// What came of a step.
#[derive(Debug)]
pub(crate) enum Said {
    Answer(Answer),
    /// Nobody answers such a step.
    Nothing,
    /// The process was gone, or went.
    Gone(io::Error),
}

/// A sidecar on a stage, and what starts it again.
pub(crate) struct Player<'a> {
    pub(crate) stage: &'a Stage,
    start: Start<'a>,
    sidecar: Option<Sidecar>,
    /// Requests whose answer nobody reads.
    begun: Vec<Asked>,
}

impl<'a> Player<'a> {
    /// Starts a sidecar; how it ended, if it did before it served.
    pub(crate) fn new(stage: &'a Stage, start: Start<'a>) -> Result<Result<Self, ExitStatus>, Failure> {
        let mut player = Self { stage, start, sidecar: None, begun: Vec::new() };
        Ok(player.again()?.map_or(Ok(player), Err))
    }

    /// How it ended, if it does not serve.
    fn again(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.begun.clear();
        let (sidecar, ended) = match self.start.now()? {
            Started::Serves(sidecar) => (Some(sidecar), None),
            Started::Ended(status) => (None, Some(status)),
        };
        self.sidecar = sidecar;
        Ok(ended)
    }

    /// Whether there is one that has served.
    pub(crate) fn has_served(&self) -> bool {
        self.sidecar.is_some()
    }

    /// Kills the sidecar, if it is there.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.sidecar.take().map_or(Ok(()), Sidecar::kill)
    }

    /// Whether the process has ended by itself.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.sidecar.as_mut().is_none_or(Sidecar::has_ended)
    }

    /// Plays one step.
    pub(crate) fn play(&mut self, step: Step) -> Result<Said, Failure> {
        let Some(sidecar) = &self.sidecar else { return Ok(Said::Gone(io::ErrorKind::NotConnected.into())) };
        let (proxy, control) = (sidecar.proxy, sidecar.control);
        match step {
            Step::Write(path, amount) => Ok(said(write(proxy, path, amount).and_then(Asked::answer))),
            Step::Begin(path, amount) => self.begin(proxy, path, amount),
            Step::Crowd(path, count) => Ok(crowd(proxy, path, count)),
            Step::Search(account) => Ok(said(client::invoke(control, "search", account))),
            Step::Read(path) => Ok(said(
                client::through(proxy, "GET", &format!("/v1/{path}"), None, "").and_then(Asked::answer),
            )),
            Step::Reconcile(path) => self.effect(control, path, "reconcile", ""),
            Step::Replay(path) => self.effect(control, path, "replay", ""),
            Step::Resolve(path, outcome) => {
                let word = format!(r#"{{"outcome":"{outcome}","reason":"the bank was asked by telephone"}}"#);
                self.effect(control, path, "resolve", &word)
            }
            Step::Decide(path, word) => {
                let approval =
                    "SELECT a.id FROM approval a JOIN effect e ON e.key = a.effect WHERE e.subject = ?1";
                let Some(id) = self.ask(approval, path)? else { return Ok(Said::Nothing) };
                Ok(said(client::operate(control, "POST", &format!("/approvals/{id}/{word}"), "")))
            }
            Step::Halt => Ok(said(client::operate(
                control,
                "POST",
                "/environment/halt",
                r#"{"reason":"a fire drill"}"#,
            ))),
            Step::Resume => Ok(said(client::operate(control, "POST", "/environment/resume", ""))),
            Step::Fold => self.fold(),
            Step::Kill => {
                self.sidecar.take().map_or(Ok(()), Sidecar::kill)?;
                self.again().map(|_| Said::Nothing)
            }
            Step::Stop => {
                self.sidecar.take().map_or(Ok(()), Sidecar::stop)?;
                self.again().map(|_| Said::Nothing)
            }
            Step::End => {
                self.sidecar.take().map_or(Ok(()), Sidecar::stop)?;
                Ok(Said::Nothing)
            }
        }
    }

    /// Waits until the bank has the write, or there is an answer, or the process is gone.
    fn begin(&mut self, proxy: SocketAddr, path: &str, amount: u64) -> Result<Said, Failure> {
        let target = format!("/v1/{path}");
        let asked = match write(proxy, path, amount) {
            Ok(asked) => asked,
            Err(error) => return Ok(Said::Gone(error)),
        };
        let (record, sidecar) = (self.stage.bank.record(), &mut self.sidecar);
        until("see the write at the bank", || {
            let whole = |seen: &Request| seen.is_write() && seen.complete && seen.target == target;
            let gone = sidecar.as_mut().is_none_or(Sidecar::has_ended);
            (gone || asked.is_over() || record.requests().iter().any(whole)).then_some(())
        })?;
        self.begun.push(asked);
        Ok(Said::Nothing)
    }

    fn effect(&self, control: SocketAddr, path: &str, verb: &str, body: &str) -> Result<Said, Failure> {
        // What was never recorded cannot be spoken of.
        let Some(id) = self.ask("SELECT id FROM effect WHERE subject = ?1", path)? else {
            return Ok(Said::Nothing);
        };
        Ok(said(client::operate(control, "POST", &format!("/actions/effects/{id}/{verb}"), body)))
    }

    /// An id from the record, as an operator at the sqlite3 shell finds it.
    fn ask(&self, query: &str, path: &str) -> Result<Option<String>, Failure> {
        const STEP: &str = "find an effect";
        let shell = Connection::open_with_flags(self.stage.database(), OpenFlags::SQLITE_OPEN_READ_ONLY);
        let shell = shell.during(STEP)?;
        let account = path.rsplit('/').next().unwrap_or_default();
        shell.query_row(query, [account], |row| row.get(0)).optional().during(STEP)
    }

    /// In a process of its own under the same recorder: this program as the sqlite3 shell.
    fn fold(&self) -> Result<Said, Failure> {
        const STEP: &str = "fold the log";
        let mut command = std::process::Command::new(std::env::current_exe().during(STEP)?);
        command.arg("fold").arg(self.stage.database());
        if let Some(below) = self.start.below {
            below.under(&mut command);
        }
        let done = command.output().during(STEP)?;
        if done.status.success() {
            return Ok(Said::Nothing);
        }
        Err(Failure::new(STEP, String::from_utf8_lossy(&done.stderr)))
    }
}

fn said(answer: io::Result<Answer>) -> Said {
    answer.map_or_else(Said::Gone, Said::Answer)
}

fn write(proxy: SocketAddr, path: &str, amount: u64) -> io::Result<Asked> {
    let body = format!(r#"{{"amount":{amount}}}"#);
    client::through(proxy, "POST", &format!("/v1/{path}"), Some(&format!("key-of:{path}")), &body)
}

/// What nobody waits for in order is not looked at one by one.
fn crowd(proxy: SocketAddr, path: &str, count: u64) -> Said {
    std::thread::scope(|scope| {
        for number in 0..count {
            scope.spawn(move || drop(write(proxy, &format!("{path}{number}"), 100).and_then(Asked::answer)));
        }
    });
    Said::Nothing
}

/// The sqlite3 shell: folds what it can of the log into the database.
pub(crate) fn fold(database: &std::path::Path) -> Result<(), Failure> {
    const STEP: &str = "fold the log";
    let shell = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).during(STEP)?;
    shell.pragma_update(None, "synchronous", "FULL").during(STEP)?;
    shell.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).during(STEP)
}
