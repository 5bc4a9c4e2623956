//! What the record would say to a request, asked without the writer and without asking for it.

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, Decision, decide};
use oncegate_policy::caller::CallerName;
use oncegate_policy::near::NearSubject;
use oncegate_policy::refusal::Refusal;
use oncegate_policy::time::Timestamp;

use crate::admit::Realm;
use crate::error::StoreError;
use crate::facts::{self, Asking, Subjects};
use crate::view::EffectView;
use crate::{Store, read, row};

/// What may have been done before: of a [`crate::admit::NewEffect`] all that identifies it.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who asks.
    pub caller: CallerName,
    /// For what.
    pub action: ActionName,
    /// Identity: keys, fingerprint, retry.
    pub asked: Asked,
    /// What is acted on.
    pub subject: Option<String>,
    /// Other subjects that are looked at too.
    pub near: Vec<NearSubject>,
    /// What it is compared in beside its own action.
    pub realm: Option<Realm>,
}

/// What the record holds of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Earlier {
    /// Nothing that is in its way.
    Nothing,
    /// It is there already.
    Repeat(Box<EffectView>),
    /// It would be refused.
    InTheWay(Refusal),
}

impl Store {
    /// Whether this is a repeat, or in the way of something, as [`Store::admit`] would find it over the same facts. Whether
    /// writes are halted is no part of it. What is found here is so; what is not may still be found by the admission.
    ///
    /// # Errors
    /// The record could not be read.
    pub async fn earlier(&self, operation: Operation, now: Timestamp) -> Result<Earlier, StoreError> {
        let look = move |connection: &rusqlite::Connection| {
            let Operation { caller, action, asked, subject, near, realm } = &operation;
            let asking = Asking {
                caller,
                asked,
                fingerprint: row::from_hex(&asked.fingerprint),
                on: Subjects {
                    action,
                    realm: realm.as_ref().map(|realm| realm.name.as_str()),
                    subject: subject.as_deref(),
                    near,
                },
            };
            // One snapshot: facts of different moments could make a repeat of what is none.
            read::snapshot(connection, |inside| {
                let mut known = facts::read(inside, &asking, None, now)?;
                if let Some(realm) = realm {
                    let names = facts::names_of_realms(inside)?;
                    let others = names.get(&realm.name).into_iter().flatten();
                    let others: Vec<_> = others
                        .filter(|name| *name != action && !realm.apart.contains(name))
                        .cloned()
                        .collect();
                    facts::read_elsewhere(inside, &mut known, realm, &others, asked.declared_key.as_deref())?;
                }
                Ok(match decide(asked, &known, now) {
                    Decision::New { .. } => Earlier::Nothing,
                    Decision::Refuse(refusal) => Earlier::InTheWay(refusal),
                    Decision::Repeat(id) => row::by_id(inside, &id)?
                        .map_or(Earlier::Nothing, |effect| Earlier::Repeat(Box::new(effect.view))),
                })
            })
        };
        self.inner.reader.read("look for what was done before", look).await
    }
}
