//! What a verb came to, against what really happened: the invariants that show in answers, and the ghost's own moves.

use oncegate_policy::refusal::Code;
use oncegate_store::admit::Admitted;
use oncegate_store::approval::Decided;
use oncegate_store::look::Found;
use oncegate_store::ready::ReadyClaim;
use oncegate_store::replay::{ReplayRefusal, Replaying};
use oncegate_store::resolve::Resolved;
use oncegate_store::view::EffectView;
use oncegate_store::{DispatchPermit, NewEffect};

use super::actors::{By, Heard, Shown, Step};
use super::checks::Violation;
use super::ghost::{DAY, Ghost, Is, Known};
use super::play::{Asked, Play, Said};

/// Takes what was said of one step into the ghost, or says what it must not have been.
pub(crate) fn hear(play: &mut Play<'_>, asked: &Asked, said: Said) -> Result<(), Violation> {
    match (said, asked.step) {
        (Said::Admitted(admitted), _) => admission(play, asked, *admitted),
        (Said::Unanswered(view, claim), _) => {
            play.holding[asked.who].claim = Some(claim);
            with(&mut play.ghost, asked, |known| {
                if known.is == Is::OnTheWire {
                    known.is = Is::Unknown;
                }
            });
            stands(&play.ghost, &view)
        }
        (Said::View(view), Step::Answer(heard)) => {
            answered(&mut play.ghost, asked, heard);
            stands(&play.ghost, &view)
        }
        (Said::View(view), Step::Replayed(heard)) => {
            replayed(&mut play.ghost, asked, heard);
            stands(&play.ghost, &view)
        }
        (Said::Found(found), Step::Look(shown, by)) => looked(&mut play.ghost, asked, shown, by, &found),
        (Said::Found(_), _) => {
            with(&mut play.ghost, asked, |known| {
                if known.is == Is::Settled("acknowledged", "unverified") {
                    known.is = Is::Settled("confirmed", "provider");
                }
            });
            Ok(())
        }
        (Said::Resolved(resolved), Step::Resolve(succeeded, by)) => {
            resolution(&mut play.ghost, asked, succeeded, by, &resolved)
        }
        (Said::Replaying(replaying), Step::Replay(by)) => replay(play, asked, by, *replaying),
        (Said::Decided(decided), step) => decision(&mut play.ghost, asked, step, &decided),
        (Said::Claimed(claimed), _) => claimed_ready(play, asked, *claimed),
        (Said::Swept(swept), Step::Sweep) => sweep(&mut play.ghost, swept),
        (Said::Swept(_), _) => {
            let lapsed = play.ghost.known.iter_mut().filter(|known| known.is == Is::Waiting);
            lapsed.filter(|known| known.waits_until <= asked.now).for_each(|known| known.is = Is::Rejected);
            Ok(())
        }
        (Said::Done, step) => {
            if let Step::Limit(cap) = step {
                play.ghost.declare(cap);
            } else {
                play.ghost.halted = step == Step::Halt;
            }
            Ok(())
        }
        (_, step) => Err(Violation::new("a verb says what it did", format!("{step:?}"))),
    }
}

fn with(ghost: &mut Ghost, asked: &Asked, change: impl FnOnce(&mut Known)) {
    if let Some(known) = asked.target.as_ref().and_then(|id| ghost.of(id)) {
        change(known);
    }
}

/// What a verb returns is where the effect really stands.
fn stands(ghost: &Ghost, view: &EffectView) -> Result<(), Violation> {
    let known = ghost.known.iter().find(|known| known.id == view.id);
    match known {
        Some(known) if known.is.stage() == view.stage.word() => Ok(()),
        Some(known) => {
            let what = format!("{} is said to be {}, and is {:?}", view.id, view.stage.word(), known.is);
            Err(Violation::new("I3/I4: an outcome has its evidence", what))
        }
        None => Err(Violation::new("I7: an effect that was shown is there", view.id.to_string())),
    }
}

fn admission(play: &mut Play<'_>, asked: &Asked, admitted: Admitted) -> Result<(), Violation> {
    let Some(new) = &asked.new else { return Ok(()) };
    let keys = keys(new);
    let body = new.asked.fingerprint.to_string();
    let same_key = |known: &&Known| known.keys.iter().any(|key| keys.contains(key));
    let under_key = play.ghost.known.iter().find(same_key);
    if let Some(known) = under_key {
        // I9: one request for a key, for ever.
        let right = match &admitted {
            Admitted::Repeat(view) => view.id == known.id && known.body == body,
            Admitted::Refused(refusal) => refusal.code == Code::KeyReuse && known.body != body,
            Admitted::Granted { .. } | Admitted::Parked(_) => false,
        };
        if !right {
            return Err(Violation::new("I9: a key names one request", format!("{admitted:?}")));
        }
    }
    match admitted {
        Admitted::Granted { permit, .. } => {
            granted(&play.ghost, new, asked)?;
            play.ghost.known.push(known(new, Is::OnTheWire, &play.ghost, asked));
            take(play, asked, permit)
        }
        Admitted::Parked(_) => {
            play.ghost.known.push(known(new, Is::Waiting, &play.ghost, asked));
            Ok(())
        }
        Admitted::Repeat(view) => {
            // From now on they name it.
            if let Some(known) = play.ghost.of(&view.id) {
                known.keys.extend(keys);
            }
            stands(&play.ghost, &view)
        }
        Admitted::Refused(refusal) => refused(&play.ghost, new, asked, refusal.code),
    }
}

/// The keys that a request carries.
fn keys(new: &NewEffect) -> Vec<String> {
    let sent = [&new.asked.caller_key, &new.asked.second_key];
    sent.into_iter().flatten().map(|key| key.text.clone()).collect()
}

/// What must be so when an admission lets a write out.
fn granted(ghost: &Ghost, new: &NewEffect, asked: &Asked) -> Result<(), Violation> {
    let subject = new.subject.as_deref().unwrap_or_default();
    let amount = new.impact.as_ref().and_then(|impact| impact.amount).unwrap_or(0);
    let fenced = |known: &&Known| known.subject == subject && (known.is.is_open() || known.is == Is::Ready);
    if let Some(open) = ghost.known.iter().find(fenced) {
        let what = format!("granted while {} is {:?}", open.id, open.is);
        return Err(Violation::new("P6: nothing runs beside what is open on its subject", what));
    }
    if ghost.halted {
        return Err(Violation::new("a halt stops writes", "granted while halted"));
    }
    if !ghost.fits(amount, asked.now) {
        let what = format!("{amount} granted beside {:?} of {:?}", ghost.reserved(), ghost.cap);
        return Err(Violation::new("I5: never more than a limit allows", what));
    }
    Ok(())
}

fn refused(ghost: &Ghost, new: &NewEffect, asked: &Asked, code: Code) -> Result<(), Violation> {
    let subject = new.subject.as_deref().unwrap_or_default();
    let amount = new.impact.as_ref().and_then(|impact| impact.amount).unwrap_or(0);
    let open = |known: &Known| known.subject == subject && (known.is.is_open() || known.is == Is::Ready);
    let right = if code == Code::UnresolvedEffect {
        ghost.known.iter().any(open)
    } else if code == Code::LimitExceeded {
        !ghost.fits(amount, asked.now)
    } else {
        // The key was judged before.
        code == Code::KeyReuse || (code == Code::Halted && ghost.halted)
    };
    if right { Ok(()) } else { Err(Violation::new("a refusal has its reason", code.word())) }
}

fn known(new: &NewEffect, is: Is, ghost: &Ghost, asked: &Asked) -> Known {
    Known {
        id: new.effect.clone(),
        keys: keys(new),
        body: new.asked.fingerprint.to_string(),
        subject: new.subject.clone().unwrap_or_default(),
        amount: new.impact.as_ref().and_then(|impact| impact.amount).unwrap_or(0),
        provider_key: new.provider_key.clone(),
        is,
        held: false,
        counted: is == Is::OnTheWire && ghost.cap.is_some(),
        sends: 0,
        replays: 0,
        written: asked.now,
        written_before: asked.now,
        waits_until: asked.now.plus(DAY / 2),
    }
}

/// A permit is in hand: its request leaves now.
fn take(play: &mut Play<'_>, asked: &Asked, permit: DispatchPermit) -> Result<(), Violation> {
    let claim = permit.spend();
    let Some(known) = play.ghost.of(claim.effect()) else {
        return Err(Violation::new("I7: an effect that was shown is there", claim.effect().to_string()));
    };
    known.sends += 1;
    known.held = true;
    if known.sends > 1 {
        let what = format!("{} was sent {} times", known.id, known.sends);
        return Err(Violation::new("I1: one dispatch", what));
    }
    // An actor that asks again while its first call is on its way leaves that to nobody.
    if let Some(earlier) = play.holding[asked.who].claim.replace(claim)
        && let Some(known) = play.ghost.of(earlier.effect())
    {
        known.held = false;
    }
    Ok(())
}

fn answered(ghost: &mut Ghost, asked: &Asked, heard: Heard) {
    let Some(id) = &asked.target else { return };
    match heard {
        Heard::Success => ghost.settle(id, "acknowledged", "unverified"),
        Heard::Refused | Heard::NotSent => ghost.settle(id, "failed", "unverified"),
        Heard::Lost => {}
    }
    with(ghost, asked, |known| {
        known.held = false;
        if known.is == Is::OnTheWire {
            known.is = Is::Unknown;
        }
    });
}

/// Only an answer says something of the first try.
fn replayed(ghost: &mut Ghost, asked: &Asked, heard: Heard) {
    let Some(id) = &asked.target else { return };
    match heard {
        Heard::Success => ghost.settle(id, "acknowledged", "unverified"),
        Heard::Refused => ghost.settle(id, "failed", "unverified"),
        // Nothing was written, so what is found later counts on the day of the write before.
        Heard::NotSent => with(ghost, asked, |known| {
            if known.is == Is::Unknown {
                known.written = known.written_before;
            }
        }),
        Heard::Lost => {}
    }
}

fn looked(ghost: &mut Ghost, asked: &Asked, shown: Shown, by: By, found: &Found) -> Result<(), Violation> {
    let mut settles = false;
    with(ghost, asked, |known| {
        let is = match (shown, by) {
            (Shown::Match, _) => Is::Settled("confirmed", "provider"),
            (Shown::Failed, By::Operator | By::Schedule) => Is::Settled("failed", "provider"),
            (Shown::Failed, By::Agent) | (Shown::Nothing, _) => return,
        };
        if known.is == Is::Unknown {
            (known.is, settles) = (is, true);
        }
    });
    match matches!(found, Found::Settled(_)) == settles {
        true => Ok(()),
        false => Err(Violation::new("I4: only a record of it settles", format!("{found:?}"))),
    }
}

fn resolution(
    ghost: &mut Ghost,
    asked: &Asked,
    succeeded: bool,
    by: By,
    resolved: &Resolved,
) -> Result<(), Violation> {
    if by == By::Agent {
        let right = matches!(resolved, Resolved::OwnEffect(_));
        return own(right, &format!("{resolved:?}"));
    }
    let mut counts = false;
    with(ghost, asked, |known| {
        if known.is == Is::Unknown {
            counts = true;
            known.is = Is::Settled(if succeeded { "acknowledged" } else { "failed" }, "manual");
        }
    });
    match matches!(resolved, Resolved::Done(_)) == counts {
        true => Ok(()),
        false => Err(Violation::new("a person settles what is unknown", format!("{resolved:?}"))),
    }
}

fn own(right: bool, what: &str) -> Result<(), Violation> {
    if right { Ok(()) } else { Err(Violation::new("I13: the key that asked decides nothing", what)) }
}

fn replay(play: &mut Play<'_>, asked: &Asked, by: By, replaying: Replaying) -> Result<(), Violation> {
    let halted = play.ghost.halted;
    match replaying {
        Replaying::Granted { permit, prepared } => {
            own(by != By::Agent, "its own replay was granted")?;
            let mut right = false;
            with(&mut play.ghost, asked, |known| {
                right = known.is == Is::Unknown
                    && !known.held
                    && !halted
                    && prepared.view.provider_key == known.provider_key;
                known.replays += 1;
                (known.written_before, known.written) = (known.written, asked.now);
            });
            play.holding[asked.who].replay = Some(permit.spend());
            match right {
                true => Ok(()),
                false => Err(Violation::new(
                    "I1: a replay is for what is unknown and not on its way, under its own key",
                    prepared.view.provider_key,
                )),
            }
        }
        Replaying::Refused(refusal, _) => own(
            by != By::Agent || refusal == ReplayRefusal::OwnEffect,
            &format!("refused for another reason: {refusal:?}"),
        ),
        Replaying::Missing => Err(Violation::new("I7: an effect that was shown is there", "replay")),
    }
}

fn decision(ghost: &mut Ghost, asked: &Asked, step: Step, decided: &Decided) -> Result<(), Violation> {
    if let Step::Approve(By::Agent) | Step::Deny(By::Agent) = step {
        return own(matches!(decided, Decided::OwnRequest(_)), &format!("{decided:?}"));
    }
    let (mut counts, yes) = (false, matches!(step, Step::Approve(_)));
    with(ghost, asked, |known| match known.is {
        Is::Waiting => {
            counts = asked.now < known.waits_until;
            known.is = if yes && counts { Is::Ready } else { Is::Rejected };
        }
        // A no counts until what was let go is claimed.
        Is::Ready if !yes => {
            counts = true;
            known.is = Is::Rejected;
        }
        Is::Ready | Is::OnTheWire | Is::Unknown | Is::Settled(..) | Is::Rejected => {}
    });
    match matches!(decided, Decided::Done(_)) == counts {
        true => Ok(()),
        false => Err(Violation::new("a question is decided once, in time", format!("{decided:?}"))),
    }
}

fn claimed_ready(play: &mut Play<'_>, asked: &Asked, claimed: ReadyClaim) -> Result<(), Violation> {
    let Some(id) = &asked.target else { return Ok(()) };
    let Some(at) = play.ghost.known.iter().find(|known| known.id == *id).cloned() else { return Ok(()) };
    let ghost = &mut play.ghost;
    let beside = |known: &Known| known.id != *id && known.subject == at.subject && known.is.is_open();
    let (fits, fenced) = (ghost.fits(at.amount, asked.now), ghost.known.iter().any(beside));
    let (halted, counted) = (ghost.halted, ghost.cap.is_some());
    let right = match &claimed {
        ReadyClaim::Granted { .. } => at.is == Is::Ready && fits && !fenced && !halted,
        ReadyClaim::Rejected(..) => at.is == Is::Ready && !halted && (fenced || !fits),
        ReadyClaim::Halted(..) => at.is == Is::Ready && halted,
        ReadyClaim::NotReady(_) => at.is != Is::Ready,
        ReadyClaim::Missing => false,
    };
    if !right {
        let what = format!("{:?} while fits: {fits}, fenced: {fenced}: {claimed:?}", at.is);
        return Err(Violation::new("what was approved passes every control again", what));
    }
    match claimed {
        ReadyClaim::Granted { permit, .. } => {
            with(ghost, asked, |known| {
                (known.is, known.written, known.counted) = (Is::OnTheWire, asked.now, counted);
            });
            take(play, asked, permit)
        }
        ReadyClaim::Rejected(..) => {
            with(ghost, asked, |known| known.is = Is::Rejected);
            Ok(())
        }
        ReadyClaim::Halted(..) | ReadyClaim::NotReady(_) | ReadyClaim::Missing => Ok(()),
    }
}

fn sweep(ghost: &mut Ghost, mut swept: Vec<oncegate_policy::id::EffectId>) -> Result<(), Violation> {
    let mut abandoned = ghost.abandoned();
    swept.sort();
    abandoned.sort();
    if swept != abandoned {
        let what = format!("{swept:?} instead of {abandoned:?}");
        return Err(Violation::new("the sweep finds what nobody holds, and nothing else", what));
    }
    for id in abandoned {
        if let Some(known) = ghost.of(&id) {
            known.is = Is::Unknown;
        }
    }
    Ok(())
}
