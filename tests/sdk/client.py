"""What an agent runs: stripe-python as it comes. It knows a placeholder for a key, and nothing of Oncegate."""

import asyncio
import json
import os
import sys

import stripe

PLACEHOLDER = "sk_test_placeholder"


def module(params):
    stripe.api_key = PLACEHOLDER
    return stripe.Refund.create(**params)


def client(params):
    return stripe.StripeClient(PLACEHOLDER).v1.refunds.create(params=params)


def own_roots(params):
    """The library's documented setting for other roots: for those who start Python so that it takes no hook."""
    stripe.ca_bundle_path = os.environ["SSL_CERT_FILE"]
    return module(params)


def later(params):
    """The asynchronous form; it speaks through aiohttp."""
    async def run():
        return await stripe.StripeClient(PLACEHOLDER).v1.refunds.create_async(params=params)

    return asyncio.run(run())


STYLES = {"module": module, "client": client, "own-roots": own_roots, "later": later}


def main(style, payment_intent, amount):
    seen = {"environment": dict(os.environ)}
    try:
        refund = STYLES[style]({"payment_intent": payment_intent, "amount": int(amount)})
        seen["refund"] = {"type": type(refund).__name__, **refund.to_dict()}
    except stripe.StripeError as error:
        seen["error"] = {
            "class": type(error).__name__,
            "text": str(error),
            "status": error.http_status,
            # The library fills `error.code` for few statuses; this it always fills.
            "code": error.error and error.error.code,
            "headers": {name.lower(): value for name, value in (error.headers or {}).items()},
        }
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
