//! The whole story on this machine, with no account: a stand-in provider, the sidecar, and an agent that loses
//! an answer, repeats itself as a model would, and refunds its customer once.

mod agent;
mod provider;
mod scene;
mod tell;

use crate::control::{show, view};
use crate::reconciler;
use oncegate_policy::id::EffectId;
use oncegate_policy::reconcile::Looker;
use serde_json::json;

use agent::Heard;
use scene::Scene;
use tell::{Teller, Who};

/// What is refunded.
const PAYMENT: &str = "pi_demo_4417";
const ORDER: &str = "4417";
/// $120, and what a model makes of it on another day.
const AMOUNT: i64 = 12_000;
const OTHER_AMOUNT: i64 = 11_500;

/// What the demo came to.
pub(crate) struct Ending {
    /// Every step was as it has to be, and the provider counted one write.
    pub(crate) good: bool,
    /// The whole of it for programs.
    pub(crate) document: serde_json::Value,
}

/// Plays the story. Prints it as it goes, unless `silent`.
pub(crate) async fn play(silent: bool) -> Result<Ending, String> {
    let scene = Scene::set().await?;
    let mut teller = Teller::new(silent);
    teller.opening(&scene);
    let told = story(&scene, &mut teller).await;
    let ending = match told {
        Ok(effect) => ending(&scene, &mut teller, effect.as_ref()).await,
        Err(error) => Err(error),
    };
    scene.clear().await;
    ending
}

async fn story(scene: &Scene, teller: &mut Teller) -> Result<Option<EffectId>, String> {
    let effect = lost(scene, teller).await?;
    held(scene, teller).await?;
    identical(scene, teller).await?;
    varied(scene, teller).await?;
    let Some(effect) = effect else { return Ok(None) };
    looked(scene, teller, &effect).await?;
    answered(scene, teller).await?;
    Ok(Some(effect))
}

/// The refund is made, and its answer never arrives.
async fn lost(scene: &Scene, teller: &mut Teller) -> Result<Option<EffectId>, String> {
    teller.chapter("An agent refunds $120.00, and the answer is lost");
    scene.provider.lose_next_answer();
    let key = scene.fresh_key();
    teller.says(Who::Agent, &format!("POST /v1/refunds  {PAYMENT}  $120.00   Idempotency-Key: {key}"));
    let heard = scene.agent.refund(PAYMENT, ORDER, AMOUNT, &key).await?;
    teller.says(Who::Provider, "refund made, then the connection breaks: the answer never leaves");
    teller.hears(&heard);
    let effect = heard.effect.as_deref().and_then(EffectId::parse);
    teller.check(
        "the agent is told not to retry, and nothing says that it failed",
        heard.status == 422 && heard.code.as_deref() == Some("oncegate_outcome_unknown") && effect.is_some(),
    );
    teller.check("the provider counted 1 write", scene.provider.writes() == 1);
    Ok(effect)
}

/// The money stays held.
async fn held(scene: &Scene, teller: &mut Teller) -> Result<(), String> {
    let limit = scene.limit().await?;
    teller.says(
        Who::Oncegate,
        &format!(
            "daily limit: ${} held while nobody knows, ${} left",
            dollars(limit.reserved),
            dollars(limit.available)
        ),
    );
    teller.check(
        "the amount is neither spent nor free",
        (limit.consumed, limit.reserved, limit.unknown_exposure) == (0, AMOUNT, AMOUNT),
    );
    Ok(())
}

/// The model calls again, with a new key.
async fn identical(scene: &Scene, teller: &mut Teller) -> Result<(), String> {
    teller.chapter("The model tries again: the same refund under a new key");
    let key = scene.fresh_key();
    teller.says(Who::Agent, &format!("POST /v1/refunds  {PAYMENT}  $120.00   Idempotency-Key: {key}"));
    let heard = scene.agent.refund(PAYMENT, ORDER, AMOUNT, &key).await?;
    teller.hears(&heard);
    teller.check(
        "answered from the record, nothing sent",
        heard.code.as_deref() == Some("oncegate_outcome_unknown")
            && heard.replayed
            && scene.provider.writes() == 1,
    );
    Ok(())
}

/// The model changes the amount, which no idempotency key would catch.
async fn varied(scene: &Scene, teller: &mut Teller) -> Result<(), String> {
    teller.chapter("The model varies it: another amount for the same payment");
    let key = scene.fresh_key();
    teller.says(Who::Agent, &format!("POST /v1/refunds  {PAYMENT}  $115.00   Idempotency-Key: {key}"));
    let heard = scene.agent.refund(PAYMENT, ORDER, OTHER_AMOUNT, &key).await?;
    teller.hears(&heard);
    teller.check(
        "refused, naming the open effect, nothing sent",
        heard.code.as_deref() == Some("oncegate_unresolved_effect") && scene.provider.writes() == 1,
    );
    Ok(())
}

/// The sidecar asks the provider what happened; in life it does so by itself after 30 s.
async fn looked(scene: &Scene, teller: &mut Teller, effect: &EffectId) -> Result<(), String> {
    teller.chapter("Oncegate asks the provider what happened (by itself after 30 s; here at once)");
    let reads = scene.provider.reads();
    reconciler::look_now(scene.running.sidecar(), effect, Looker::Schedule)
        .await
        .map_err(|error| format!("the look failed: {error}"))?;
    teller.says(
        Who::Provider,
        &format!("{} read: the refund carries this effect's mark", scene.provider.reads() - reads),
    );
    let settled = scene.effect(effect).await?;
    teller.says(
        Who::Oncegate,
        &format!(
            "effect {} · grade {} · vouched for by the {}",
            settled.outcome, settled.grade, settled.verification
        ),
    );
    teller.check(
        "succeeded, confirmed by the provider's own record",
        (settled.outcome.as_str(), settled.grade.as_str()) == ("succeeded", "confirmed"),
    );
    let limit = scene.limit().await?;
    teller.check(
        "the held amount is consumed, once",
        (limit.consumed, limit.reserved, limit.unknown_exposure) == (AMOUNT, 0, 0),
    );
    Ok(())
}

/// The model asks once more, and gets what it wanted all along.
async fn answered(scene: &Scene, teller: &mut Teller) -> Result<(), String> {
    teller.chapter("The model tries once more");
    let key = scene.fresh_key();
    teller.says(Who::Agent, &format!("POST /v1/refunds  {PAYMENT}  $120.00   Idempotency-Key: {key}"));
    let heard = scene.agent.refund(PAYMENT, ORDER, AMOUNT, &key).await?;
    teller.hears(&heard);
    let Heard { status, ref id, replayed, .. } = heard;
    teller.check(
        "the provider's own refund object, with its real id, from the record",
        status == 200 && replayed && id.is_some() && *id == scene.provider.only_refund(),
    );
    Ok(())
}

async fn ending(scene: &Scene, teller: &mut Teller, effect: Option<&EffectId>) -> Result<Ending, String> {
    let writes = scene.provider.writes();
    teller.chapter("What is left");
    let effect = match effect {
        Some(id) => Some(scene.effect(id).await?),
        None => None,
    };
    let limit = scene.limit().await?;
    teller.receipt(effect.as_ref(), &limit);
    teller.check("3 more calls, and the provider counted 1 write", writes == 1);
    teller.check("the agent never held the provider's key", !scene.agent_saw_the_secret());
    teller.closing();
    let document = json!({
        "ok": teller.all_good(),
        "providerWrites": writes,
        "checks": teller.checks(),
        "effect": effect,
        "limit": limit,
    });
    Ok(Ending { good: teller.all_good(), document })
}

/// Minor units as a person reads them.
fn dollars(amount: i64) -> String {
    format!("{}.{:02}", amount / 100, amount.rem_euclid(100))
}

impl Scene {
    async fn limit(&self) -> Result<view::LimitJson, String> {
        let sidecar = self.running.sidecar();
        let limits = sidecar.store.exposures(sidecar.clock.now()).await.map_err(|error| error.to_string())?;
        limits.first().map(show::limit).ok_or_else(|| "the limit is gone".to_owned())
    }

    async fn effect(&self, id: &EffectId) -> Result<view::EffectJson, String> {
        let found = self.running.sidecar().store.effect(id).await.map_err(|error| error.to_string())?;
        found.as_ref().map(show::detail).ok_or_else(|| "the effect is gone".to_owned())
    }
}
