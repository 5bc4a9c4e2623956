"""A refund whose answer is lost, from the definition to the retry on purpose. See refund.md.

    oncegate serve &
    pip install anlyon
    ONCEGATE_URL=http://127.0.0.1:8081 ONCEGATE_KEY=ogk_... ONCEGATE_AGENT_KEY=ogk_... STRIPE_SECRET_KEY=sk_test_... \
        python docs/guides/refund.py

It refunds in Stripe's test mode: set PAYMENT_INTENT to a payment of at least $6.00 there. Nothing in it waits for luck:
a drill throws the first answer away.
"""

import os

import anlyon

url = os.environ["ONCEGATE_URL"]
operator = anlyon.Client(os.environ["ONCEGATE_KEY"], base_url=url)
agent = anlyon.Client(os.environ["ONCEGATE_AGENT_KEY"], base_url=url)
payment = os.environ.get("PAYMENT_INTENT", "pi_3Pabc")


def held():
    [limit] = [limit for limit in operator.impact_limits.list().data if limit["name"] == "guide-refunds"]
    return {name: limit[name] for name in ("consumed", "reserved", "unknownExposure", "available")}


# 1. Define
operator.secrets.put(
    "GUIDE_STRIPE_KEY",
    value=os.environ["STRIPE_SECRET_KEY"],
    allowed_hosts=["api.stripe.com"],
    allowed_placements=["header"],
)
test_mode = {"account": "acct_guide", "mode": "test", "currency": "usd"}
stripe = {"type": "stripe.refund", "credentialSecret": "GUIDE_STRIPE_KEY"}
drilled = {**stripe, "config": {**test_mode, "faultDrill": "drop_response_after_send"}}
operator.actions.create(name="guide-refund", description="Refund a payment", adapter=drilled)
operator.impact_limits.create(
    name="guide-refunds", dimension="money", currency="usd", period="day", amount=50_000, action_name="guide-refund"
)
print("1. defined: guide-refund, at most $500.00 a day; every answer is thrown away")

# 2. Lose the answer
refund = {"payment_intent": payment, "amount": 120}
lost = agent.actions.invoke("guide-refund", refund, idempotency_key="refund:ord_42").data
assert lost["status"] == "unknown" and held()["unknownExposure"] == 120
print(f"2. {lost['status']}: {lost['error']}")
print(f"   held: {held()}")

# 3. Ask again, as a model does
again = agent.actions.invoke("guide-refund", refund).data
assert again["effectId"] == lost["effectId"]
print(f"3. the same refund under another key: {again['status']}, still {again['effectId']}, nothing is sent")
try:
    agent.actions.invoke("guide-refund", {**refund, "amount": 125})
    raise SystemExit("a varied retry was let through")
except anlyon.AnlyonError as error:
    assert error.code == "unresolved_effect"
    print(f"   another amount: {error.code}")

# 4. Look now
found = agent.actions.reconcile_effect(lost["effectId"]).data
assert (found["outcome"], found["grade"]) == ("succeeded", "confirmed")
print(f"4. Stripe was asked: {found['outcome']}, grade {found['grade']}")
print(f"   held: {held()}")

# 5. Ask under the first key
settled = agent.actions.invoke("guide-refund", refund, idempotency_key="refund:ord_42").data
assert settled["status"] == "succeeded"
print(f"5. the first key: {settled['status']}, from the record")

# 6. Replay
second = agent.actions.invoke("guide-refund", {**refund, "amount": 130}, idempotency_key="refund:ord_43").data
try:
    agent.actions.replay_effect(second["effectId"])
    raise SystemExit("the key that asked was let decide")
except anlyon.AnlyonError as error:
    print(f"6. the agent may not replay its own refund: {error.code}")
replayed = operator.actions.replay_effect(second["effectId"]).data
assert replayed["outcome"] == "succeeded"
print(f"   the operator replays: the same bytes under the same key, {replayed['outcome']}")

# 7. Resolve
third = agent.actions.invoke("guide-refund", {**refund, "amount": 140}, idempotency_key="refund:ord_44").data
operator.actions.add_effect_note(third["effectId"], "asked the payments team")
resolved = operator.actions.resolve_effect(
    third["effectId"], outcome="succeeded", reason="the refund of $1.40 is in the dashboard"
).data
assert (resolved["outcome"], resolved["grade"], resolved["verification"]) == ("succeeded", "acknowledged", "manual")
print(f"7. resolved by a person: {resolved['outcome']}, grade {resolved['grade']}, verification {resolved['verification']}")

# 8. Retry on purpose
operator.actions.update("guide-refund", adapter={**stripe, "config": test_mode})
wrong = {"payment_intent": "pi_of_nobody", "amount": 150}
failed = agent.actions.invoke("guide-refund", wrong, idempotency_key="refund:ord_45").data
assert failed["status"] == "failed"
retried = agent.actions.invoke(
    "guide-refund", {**refund, "amount": 150}, retry_of=failed["id"], idempotency_key="refund:ord_45:2"
).data
assert retried["status"] == "succeeded"
assert agent.actions.invocation(failed["id"]).data["retriedBy"] == retried["id"]
print(f"8. without the drill: {failed['status']} with {failed['responseStatus']}, then retried: {retried['status']}")
print(f"   held: {held()}")
