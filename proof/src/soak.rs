//! Soak: the real sidecar under traffic for as long as wanted, with a fault a second and `kill -9` from time to time.
//! After each kill and at the end, its record is held against what the provider applied; and what it takes of the
//! machine must stay the same. Modules in reading order.

mod books;
mod gauge;
mod shop;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use oncegate_tests::binary::Build;
use oncegate_tests::canary;
use oncegate_tests::conf::Conf;
use tempfile::TempDir;

use crate::below::check::Checker;
use crate::below::child::{Sidecar, Start, Started};
use crate::below::journal::Kept;
use crate::below::recording;
use crate::below::rows;
use crate::below::stage::{HOST, bank_host, copy};
use crate::failure::{During, Failure};
use crate::memory;
use crate::report::Report;
use crate::rng::Rng;
use crate::soak::gauge::Sample;
use crate::soak::shop::{Fault, Shop};
use crate::soak::traffic::{Place, Traffic};

/// Minutes of the short form and of the long one.
const MINUTES: u64 = 2;
const MINUTES_LONG: u64 = 120;
/// Seconds between two kills. The short form has room for two of them, and for a life after the last.
const KILL_EVERY_S: u64 = 40;
const KILL_EVERY_LONG_S: u64 = 60;
/// Seconds in which the planted fault must show.
const PLANTED_S: u64 = 8;
/// A fault a second.
const TICK: Duration = Duration::from_secs(1);
/// Agents; each asks four times a second at most.
const AGENTS: usize = 4;
/// Violations after which it is over.
const VIOLATIONS_MAX: u64 = 10;

/// What is wanted.
pub(crate) struct Wanted {
    pub(crate) long: bool,
    pub(crate) minutes: Option<u64>,
    pub(crate) seed: u64,
}

/// How long it lasts, and how long a sidecar lives.
struct Form {
    seconds: u64,
    life_s: u64,
}

impl Form {
    fn of(wanted: &Wanted) -> Self {
        let minutes = wanted.minutes.unwrap_or(if wanted.long { MINUTES_LONG } else { MINUTES });
        let life_s = if minutes > MINUTES { KILL_EVERY_LONG_S } else { KILL_EVERY_S };
        Self { seconds: minutes.max(1).saturating_mul(60), life_s }
    }
}

/// Runs the suite.
pub(crate) fn run(wanted: &Wanted) -> Result<Report, Failure> {
    let mut report = Report::new("soak", wanted.seed);
    let warm = recording::warm()?;

    let planted = Ground::new(warm.path(), true)?;
    let soaked = planted.soak(&Form { seconds: PLANTED_S, life_s: PLANTED_S }, wanted.seed, None)?;
    // Agents notice as well; it is the comparison that has to.
    match soaked.violations.iter().find(|violation| violation.starts_with(books::DISAGREES)) {
        Some(caught) => report.say(&format!("planted, some writes are counted twice: caught: {caught}")),
        None => report.violation("planted, some writes are counted twice: not caught"),
    }

    let ground = Ground::new(warm.path(), false)?;
    let form = Form::of(wanted);
    report.say(&format!("{} s, killed every {} s", form.seconds, form.life_s));
    let soaked = ground.soak(&form, wanted.seed, Some(&mut report))?;
    report.runs += soaked.lives.len() as u64;
    report.say(&soaked.summary);
    soaked.violations.iter().for_each(|violation| report.violation(violation));
    flat(&soaked.lives, &mut report);
    if !soaked.violations.is_empty() {
        report.say(&format!("kept in {}", ground.folder.keep().display()));
    }
    Ok(report)
}

/// Memory, log and descriptors stay the same; each leak that is planted into what was measured is seen.
fn flat(lives: &[Vec<Sample>], report: &mut Report) {
    let grown = gauge::growth(lives);
    grown.iter().for_each(|growth| report.violation(growth));
    for leak in gauge::LEAKS {
        let (what, _) = leak;
        match gauge::growth(&gauge::leaking(lives, leak)).iter().find(|found| found.starts_with(what)) {
            Some(caught) => report.say(&format!("planted, a leak: caught: {caught}")),
            None => report.violation(&format!("planted, a leak of {what}: not caught")),
        }
    }
}

/// A folder for a sidecar, and a provider.
struct Ground {
    folder: TempDir,
    shop: Shop,
    checker: Checker,
}

/// What came of it.
#[derive(Default)]
struct Soaked {
    lives: Vec<Vec<Sample>>,
    violations: Vec<String>,
    summary: String,
}

impl Ground {
    fn new(warm: &Path, counts_twice: bool) -> Result<Self, Failure> {
        const STEP: &str = "set the ground";
        let folder = memory::folder()?;
        copy(warm, folder.path()).during(STEP)?;
        let shop = Shop::new(counts_twice)?;
        fs::write(folder.path().join("oncegate.toml"), configuration(&shop)).during(STEP)?;
        let checker = Checker::new(&warm.join("oncegate.db"))?;
        Ok(Self { folder, shop, checker })
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("oncegate.db")
    }

    /// All of it. `tell` hears of each life.
    fn soak(&self, form: &Form, seed: u64, mut tell: Option<&mut Report>) -> Result<Soaked, Failure> {
        let database = self.database();
        let traffic = Traffic::new(&self.shop, &database);
        let mut soaked = Soaked::default();
        let ended = std::thread::scope(|scope| {
            for number in 0..AGENTS {
                let rng = Rng::new(seed, 1 + number as u64);
                let traffic = &traffic;
                scope.spawn(move || traffic.agent(number, rng));
            }
            let operator = scope.spawn(|| traffic.operator(Rng::new(seed, 100)));
            let ended = self.lives(form, Rng::new(seed, 0), &traffic, &mut soaked, &mut tell);
            traffic.end();
            let operated = operator.join().unwrap_or_else(|_| Err(Failure::new("operate", "a panic")));
            ended.and(operated)
        });
        ended?;
        Ok(soaked)
    }

    /// One life after the other, until the time is over; the last one ends in order.
    fn lives(
        &self,
        form: &Form,
        mut rng: Rng,
        traffic: &Traffic<'_>,
        soaked: &mut Soaked,
        tell: &mut Option<&mut Report>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut faults = BTreeMap::new();
        loop {
            let life = soaked.lives.len();
            let sidecar = self.start()?;
            let place = Place { life, proxy: sidecar.proxy, control: sidecar.control };
            traffic.place(Some(place));
            let left = Duration::from_secs(form.seconds).saturating_sub(begun.elapsed());
            let is_last = left <= Duration::from_secs(form.life_s);
            let lasts = left.min(Duration::from_secs(form.life_s));
            soaked.lives.push(self.live(&sidecar, lasts, &mut rng, traffic, &mut faults)?);
            if is_last {
                self.shop.heal()?;
                traffic.rest()?;
                traffic.reconcile_all(place)?;
                sidecar.stop()?;
            } else {
                traffic.place(None);
                sidecar.kill()?;
            }
            self.shop.quiet()?;
            soaked.violations.extend(traffic.violations());
            let counted = self.compare(traffic, is_last).unwrap_or_else(|fault| {
                soaked.violations.push(fault);
                "no agreement".to_owned()
            });
            if let Some(report) = tell {
                report.say(&format!("life {life}: {counted}; {}", last(&soaked.lives)));
            }
            let (hits, _) = canary::below(self.folder.path(), &BTreeSet::new());
            let shown = hits.first().map(|(file, hit)| format!("a secret is in {}: {hit}", file.display()));
            soaked.violations.extend(shown);
            if is_last || soaked.violations.len() as u64 >= VIOLATIONS_MAX {
                break;
            }
        }
        let (asked, unanswered) = (&traffic.asked, &traffic.unanswered);
        soaked.summary = format!(
            "{} requests, {} without an answer, {} effects applied; faults: {}",
            asked.load(Ordering::Relaxed),
            unanswered.load(Ordering::Relaxed),
            self.shop.books(books::Books::count),
            faults.iter().map(|(fault, times)| format!("{fault:?} {times}")).collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }

    /// A fault and a measurement a second.
    fn live(
        &self,
        sidecar: &Sidecar,
        lasts: Duration,
        rng: &mut Rng,
        traffic: &Traffic<'_>,
        faults: &mut BTreeMap<Fault, u64>,
    ) -> Result<Vec<Sample>, Failure> {
        let (begun, database) = (Instant::now(), self.database());
        let mut samples = Vec::new();
        while begun.elapsed() < lasts {
            let fault = Fault::ALL[rng.below(Fault::ALL.len())];
            *faults.entry(fault).or_default() += 1;
            self.shop.tick(Some(fault))?;
            if traffic.pause(TICK) {
                break;
            }
            samples.push(Sample::take(sidecar.pid(), &database)?);
        }
        Ok(samples)
    }

    fn start(&self) -> Result<Sidecar, Failure> {
        let start = Start { build: Build::Plain, folder: self.folder.path(), below: None, environment: &[] };
        match start.now()? {
            Started::Serves(sidecar) => Ok(sidecar),
            Started::Ended(status) => Err(Failure::new("start the sidecar", status)),
        }
    }

    /// The record against the provider's books and against what clients were told. It is a copy that is opened: what
    /// was left is for the next start. At the end, whatever the provider lists must have been found.
    fn compare(&self, traffic: &Traffic<'_>, is_last: bool) -> Result<String, rows::Fault> {
        let place = memory::folder().map_err(|failure| failure.to_string())?;
        let to = place.path().join("oncegate.db");
        for kept in [Kept::Database, Kept::Log] {
            let from = kept.beside(&self.database());
            if from.exists() {
                fs::copy(&from, kept.beside(&to)).map_err(|error| format!("copy {from:?}: {error}"))?;
            }
        }
        let found = self.checker.examine(&to)?;
        let known = traffic.known();
        for record in [&found.before, &found.swept] {
            self.shop.books(|books| books.agree(record))?;
        }
        known.judge(&found.swept)?;
        let open = || found.swept.effects.values().filter(|row| row.stage == "reconciling");
        if let Some(row) = open().find(|row| is_last && self.shop.books(|books| books.times(&row.id)) > 0) {
            return Err(format!("the provider lists it, and it was not found: {row:?}"));
        }
        Ok(format!("{} effects, {} of them unknown", found.swept.effects.len(), open().count()))
    }
}

fn last(lives: &[Vec<Sample>]) -> String {
    let sample = lives.last().and_then(|life| life.last()).copied().unwrap_or_default();
    let Sample { memory, descriptors, log } = sample;
    format!("{memory} KiB, {descriptors} descriptors, a log of {log} bytes")
}

fn configuration(shop: &Shop) -> String {
    let way = |name: &str, more: &str| {
        format!(
            r#"
[actions.{name}]
method = "POST"
url = "http://{HOST}/v1/{name}s"
headers = {{ "X-Effect" = "{{{{effect.id}}}}" }}
operation_key = "{name}:{{{{input.order}}}}"
subject = "{{{{input.order}}}}"
impact = {{ dimension = "money", currency = "usd", amount = "input.amount" }}
verify = {{ url = "http://{HOST}/v1/{name}s?ref={{{{effect.id}}}}", match = [{{ path = "data.*.ref", equals = "{{{{effect.id}}}}" }}] }}
{more}
"#
        )
    };
    let mut conf = Conf::default()
        .timing("2s", "4s")
        .with(&bank_host(shop.at.port()))
        .with(&way("refund", ""))
        .with(&way("payout", "requires_approval = true"))
        .with("[limits.all]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"total\"\namount = 1_000_000_000\n");
    conf.first_after = "1s".to_owned();
    conf.text()
}
