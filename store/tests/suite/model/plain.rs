//! Invocations without an effect, and previews, in the same histories.

use oncegate_policy::id::InvocationId;
use oncegate_policy::plain::PlainStatus;
use oncegate_policy::preview::BoundPreview;
use oncegate_policy::refusal::Code;
use oncegate_store::admit::NewEffect;
use oncegate_store::claim::PlainClaim;
use oncegate_store::plain::resolve::ResolvedPlain;
use oncegate_store::plain::{Begun, NewPlain};
use oncegate_store::preview::{CreatedPreview, NewPreview};
use oncegate_store::resolve::ResolvedAs;
use serde_json::json;

use super::History;
use super::reference::Is;
use crate::plain::ping;
use crate::support::{HOUR, caller, seen};

#[derive(Default)]
pub(super) struct Plain {
    known: Vec<Known>,
    pub(super) claims: Vec<PlainClaim>,
}

struct Known {
    id: InvocationId,
    keys: Vec<String>,
    text: String,
    status: PlainStatus,
}

impl Plain {
    /// What nobody holds any more is unknown.
    pub(super) fn swept(&mut self) {
        let held: Vec<_> = self.claims.iter().map(|claim| claim.invocation().clone()).collect();
        for known in self.known.iter_mut().filter(|known| known.status == PlainStatus::Running) {
            if !held.contains(&known.id) {
                known.status = PlainStatus::Unknown;
            }
        }
    }
}

impl History {
    pub(super) async fn plain(&mut self) {
        match self.dice.roll(4) {
            0 | 1 => self.begin_plain().await,
            2 => self.end_plain().await,
            _ => self.resolve_plain().await,
        }
        for known in &self.plain.known {
            let view = self.memory().store.plain(&known.id).await.unwrap().unwrap();
            assert_eq!(view.status, known.status);
        }
    }

    async fn begin_plain(&mut self) {
        let text = format!("text-{}", self.dice.roll(3));
        let key = (self.dice.roll(2) == 0).then(|| format!("plain-{}", self.dice.roll(3)));
        let second = (self.dice.roll(3) == 0).then(|| format!("plain-{}", self.dice.roll(3)));
        let second = second.filter(|second| key.as_ref().is_some_and(|key| key != second));
        let keys: Vec<_> = [&key, &second].into_iter().flatten().cloned().collect();
        let new = NewPlain { caller_key: key, second_key: second, ..ping(self.memory(), &text) };
        let id = new.invocation.clone();
        let begun = self.memory().store.begin_plain(new, self.now).await.unwrap();
        let sent = |known: &&mut Known| known.keys.iter().any(|key| keys.contains(key));
        let mut named: Vec<_> = self.plain.known.iter_mut().filter(sent).collect();
        let varied = named.iter().any(|known| known.text != text);
        match (begun, named.as_mut_slice()) {
            (Begun::Fresh { permit, invocation }, []) => {
                assert!(!self.reference.halted);
                assert_eq!(Some(invocation), self.memory().store.plain(&id).await.unwrap());
                self.plain.known.push(Known { id, keys, text, status: PlainStatus::Running });
                self.plain.claims.push(permit.spend());
            }
            (Begun::Repeat(view), [known]) => {
                assert!(known.id == view.id && !varied);
                known.keys.extend(keys);
            }
            (Begun::Refused(no), []) => assert!(self.reference.halted && no.code == Code::Halted),
            (Begun::Refused(no), [_]) => assert!(varied && no.code == Code::KeyReuse),
            (Begun::Refused(no), _) => {
                assert_eq!(no.code, if varied { Code::KeyReuse } else { Code::Ambiguous });
            }
            (begun, named) => panic!("{begun:?} under keys of {}", named.len()),
        }
    }

    async fn end_plain(&mut self) {
        let Some(claim) = self.plain.claims.pop() else { return };
        let id = claim.invocation().clone();
        let (exchange, is) = self.exchange();
        let status = match is {
            Some(Is::Succeeded(_)) => PlainStatus::Succeeded,
            Some(_) => PlainStatus::Failed,
            None => PlainStatus::Unknown,
        };
        let ended = self.memory().store.end_plain(claim, seen(&exchange), self.now).await.unwrap();
        assert_eq!(ended.status, status);
        self.plain.known.iter_mut().find(|known| known.id == id).unwrap().status = status;
    }

    async fn resolve_plain(&mut self) {
        let sides = self.plain.known.len() as u64;
        if sides == 0 {
            return;
        }
        let place = usize::try_from(self.dice.roll(sides)).unwrap();
        let by = if self.dice.roll(3) == 0 { "agent" } else { "ops" };
        let id = self.plain.known[place].id.clone();
        let store = &self.memory().store;
        let said = store
            .resolve_plain(&id, ResolvedAs::Failed, &caller(by), "seen in the log".into(), None, self.now)
            .await
            .unwrap();
        let known = &mut self.plain.known[place];
        let counts = by == "ops" && known.status == PlainStatus::Unknown;
        assert_eq!(matches!(said, ResolvedPlain::Done(_)), counts, "{said:?}");
        if counts {
            known.status = PlainStatus::Failed;
        }
    }

    /// Now and then a call is bound to a preview of its own that is good.
    pub(super) async fn perhaps_bound(&mut self, mut new: NewEffect) -> NewEffect {
        if self.dice.roll(4) > 0 {
            return new;
        }
        let preview = NewPreview {
            caller: new.caller.clone(),
            action: new.action.clone(),
            basis: [1; 32],
            fingerprint: new.asked.fingerprint.clone(),
            input: json!({}),
            document: json!({}),
            expires_at: self.now.plus(HOUR),
            refreshed_from: None,
        };
        if let CreatedPreview::Created(made) =
            self.memory().store.create_preview(preview, self.now).await.unwrap()
        {
            new.preview = Some(BoundPreview { id: made.id, basis: [1; 32] });
        }
        new
    }
}
