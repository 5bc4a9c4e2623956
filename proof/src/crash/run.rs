//! One run: a scenario with something happening at one place of it, then a start again, and the comparison.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitStatus;

use oncegate_store::failpoint::Plant;
use oncegate_tests::binary::Build;

use crate::below::check::Checker;
use crate::below::child::{Start, Started};
use crate::below::facts::Known;
use crate::below::journal::{Call, Entry, Journal};
use crate::below::play::{Play, Player, Said, Step};
use crate::below::rows;
use crate::below::stage::Stage;
use crate::below::{Below, Fault, Library};
use crate::failure::{During, Failure};
use crate::rng::Rng;

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At a numbered call.
    Call(i64, Fault),
    /// At a named place in the program.
    Failpoint(&'static str),
}

impl fmt::Display for At {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(number, fault) => write!(to, "at call {number}: {fault}"),
            Self::Failpoint(name) => write!(to, "at {name}"),
        }
    }
}

/// Everything that a run needs.
pub(crate) struct Run<'a> {
    pub(crate) play: &'a Play,
    pub(crate) at: At,
    pub(crate) plant: Option<Plant>,
    pub(crate) build: Build,
    pub(crate) library: &'a Library,
    pub(crate) warm: &'a Path,
}

/// What came of a run.
pub(crate) struct Ran {
    /// Whether the place was reached.
    pub(crate) reached: bool,
    /// Whether the recovery was stopped as well.
    pub(crate) again: bool,
    pub(crate) fault: Option<rows::Fault>,
}

/// Calls of a start among which a recovery is stopped; a start makes about as many.
const RECOVERY_CALLS: usize = 60;
/// What a program exits with that has panicked.
const PANICKED: i32 = 101;
/// The write and the read that are asked for last: with a disk that fails from now on, the one is refused and the
/// other answered.
const LAST_WRITE: Step = Step::Write("transfers/last", 100);
const LAST_READ: Step = Step::Read("transfers/last");

impl Run<'_> {
    /// Carries it out. An error is not a violation: the rig itself did not work.
    pub(crate) fn carry_out(&self, mut rng: Rng) -> Result<Ran, Failure> {
        let stage = Stage::new(self.warm, self.play.warm)?;
        let mut known = Known::default();
        let mut ran = Ran { reached: false, again: false, fault: None };
        self.struck(&stage, &mut known, &mut ran)?;
        if ran.fault.is_none() {
            self.recover(&stage, &mut known, &mut ran, &mut rng)?;
        }
        if let (Some(fault), None) = (&ran.fault, self.plant) {
            ran.fault = Some(format!("{fault} (kept in {})", stage.keep().display()));
        }
        Ok(ran)
    }

    /// The scenario up to where it is stopped, or to its end.
    fn struck(&self, stage: &Stage, known: &mut Known, ran: &mut Ran) -> Result<(), Failure> {
        let database = stage.database();
        let log = stage.folder().join("below.log");
        let (plan, failpoint) = match self.at {
            At::Call(number, fault) => (Some((number, fault)), None),
            At::Failpoint(name) => (None, Some(name)),
        };
        let port = stage.bank.addr().port();
        let below =
            Below { library: self.library, database: &database, port, log: Some(&log), brief: true, plan };
        let mut environment: Vec<_> =
            self.plant.iter().map(|plant| ("ONCEGATE_PLANT", plant.word().to_owned())).collect();
        environment.extend(failpoint.map(|name| ("ONCEGATE_FAILPOINT", format!("{name}=abort"))));
        let start = Start {
            build: self.build,
            folder: stage.folder(),
            below: Some(&below),
            environment: &environment,
        };
        let mut player = match Player::new(stage, start)? {
            Ok(player) => player,
            Err(status) => {
                // A start that fails has sent nothing, and the next one finds what was there.
                ran.reached = true;
                ran.fault = self.ill_ended(status);
                return Ok(());
            }
        };
        let mut gone = false;
        for step in self.play.steps {
            match player.play(*step)? {
                Said::Answer(answer) => known.told(&answer),
                Said::Nothing => {}
                Said::Gone(_) => {
                    gone = true;
                    break;
                }
            }
        }
        let faulted = failing(&log)?;
        ran.reached = faulted.is_some() || gone;
        if let (At::Call(_, Fault::From(_)), true) = (self.at, player.has_served()) {
            ran.fault = last(&mut player, faulted.is_some_and(|entry| !entry.to_provider), known)?;
        }
        player.end()
    }

    /// A start under a failing call ends with a message, not with a panic.
    fn ill_ended(&self, status: ExitStatus) -> Option<rows::Fault> {
        let failing = matches!(self.at, At::Call(_, Fault::Once(_) | Fault::From(_)));
        let ill = matches!(status.code(), None | Some(PANICKED));
        (failing && ill).then(|| format!("because a call failed, its start ended with {status}"))
    }

    /// A start again, stopped once more for half of the runs; everything is asked again; then the comparison.
    fn recover(&self, stage: &Stage, known: &mut Known, ran: &mut Ran, rng: &mut Rng) -> Result<(), Failure> {
        let database = stage.database();
        if rng.coin() {
            let number = i64::try_from(rng.below(RECOVERY_CALLS)).unwrap_or(0) + 1;
            let fault = if rng.coin() { Fault::Kill } else { Fault::Short };
            let port = stage.bank.addr().port();
            let plan = Some((number, fault));
            let below =
                Below { library: self.library, database: &database, port, log: None, brief: true, plan };
            let start =
                Start { build: self.build, folder: stage.folder(), below: Some(&below), environment: &[] };
            match start.now()? {
                Started::Serves(sidecar) => sidecar.kill()?,
                Started::Ended(_) => ran.again = true,
            }
        }
        let start = Start { build: self.build, folder: stage.folder(), below: None, environment: &[] };
        let mut player = match Player::new(stage, start)? {
            Ok(player) => player,
            Err(status) => {
                ran.fault = Some(format!("it does not start again: {status}"));
                return Ok(());
            }
        };
        // Whatever was asked is asked again: nothing may reach the bank that could be there already.
        for step in self.play.steps {
            if !matches!(step, Step::Write(..) | Step::Search(..) | Step::Read(..) | Step::Reconcile(..)) {
                continue;
            }
            match player.play(*step)? {
                Said::Answer(answer) => known.told(&answer),
                Said::Nothing => {}
                Said::Gone(error) => {
                    ran.fault = Some(format!("no answer to {step:?} after the start: {error}"));
                    return Ok(());
                }
            }
        }
        player.end()?;
        settle(stage)?;
        for stream in stage.bank.record().streams() {
            known.read_at_the_bank(&stream);
        }
        let checker = Checker::new(&self.warm.join("oncegate.db"))?;
        ran.fault = checker.examine(&database).and_then(|found| known.judge(&found.swept)).err();
        ran.fault = ran.fault.take().or_else(|| stage.shows_a_secret());
        Ok(())
    }
}

/// The call that was made to fail first, in the last process that was started.
fn failing(log: &Path) -> Result<Option<Entry>, Failure> {
    let entries = Journal::read(log, true)?.entries;
    let started = entries.iter().rposition(|entry| entry.call == Call::Start).unwrap_or(0);
    Ok(entries[started..].iter().find(|entry| entry.call == Call::Fault).cloned())
}

/// With a disk that fails from now on, a governed write is refused with its code, and reads go on.
fn last(player: &mut Player<'_>, on_disk: bool, known: &mut Known) -> Result<Option<rows::Fault>, Failure> {
    if player.is_gone() {
        return Ok(Some("the process ended because a call failed".to_owned()));
    }
    match player.play(LAST_WRITE)? {
        Said::Answer(answer) if on_disk && answer.code() != "oncegate_store_unavailable" => {
            return Ok(Some(format!("a write on a failing disk was answered {answer:?}")));
        }
        Said::Answer(answer) => known.told(&answer),
        Said::Nothing => {}
        Said::Gone(error) => return Ok(Some(format!("a write on a failing disk got no answer: {error}"))),
    }
    match player.play(LAST_READ)? {
        Said::Answer(answer) if on_disk && !matches!(answer.status, 200 | 404) => {
            Ok(Some(format!("a read on a failing disk was answered {answer:?}")))
        }
        Said::Answer(_) | Said::Nothing => Ok(None),
        Said::Gone(error) => Ok(Some(format!("a read on a failing disk got no answer: {error}"))),
    }
}

/// Waits until the bank has read all that was sent to it by processes that are gone.
fn settle(stage: &Stage) -> Result<(), Failure> {
    const STEP: &str = "wait for the bank";
    // Connections are accepted in order: once this one is answered, every earlier one was accepted.
    let mut own = TcpStream::connect(stage.bank.addr()).during(STEP)?;
    own.write_all(b"GET /settled HTTP/1.1\r\nHost: bank.test\r\n\r\n").during(STEP)?;
    own.read_exact(&mut [0]).during(STEP)?;
    drop(own);
    if stage.bank.record().wait_ended() {
        Ok(())
    } else {
        Err(Failure::new(STEP, "a connection did not end"))
    }
}
