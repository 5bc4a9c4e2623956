"""What an agent runs: stripe-python as it comes. It knows a placeholder for a key, and nothing of Oncegate."""

import json
import os
import sys

import stripe

stripe.api_key = "sk_test_placeholder"


def main(payment_intent, amount, trust):
    if trust == "by-setting":
        # The library pins its own roots; this is its documented setting for others.
        stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
    seen = {"environment": dict(os.environ)}
    try:
        refund = stripe.Refund.create(payment_intent=payment_intent, amount=int(amount))
        seen["refund"] = json.loads(str(refund))
    except stripe.StripeError as error:
        seen["error"] = {
            "class": type(error).__name__,
            "text": str(error),
            "status": error.http_status,
            "code": error.code,
            "headers": dict(error.headers or {}),
        }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
