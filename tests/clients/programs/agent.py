"""What an agent runs: the published Python clients as they come. They know a placeholder for a key, and nothing of
Oncegate. Called with a client's name; prints what the client saw, as JSON. With one more word it makes a single write.

Each client makes one write (`make`), the same write in a size or place that a person has to approve (`make_large`), and
a write that nobody declared (`make_other`). They give the id of what was made, or raise what the client raises.
"""

import asyncio
import importlib.metadata
import json
import sys

PLACEHOLDER = "placeholder-of-the-agent"
DESK = "https://desk.test/v1/"
HEADERS = {"Authorization": f"Bearer {PLACEHOLDER}"}


class Refused(Exception):
    """For clients that raise nothing: where they show what."""

    def __init__(self, kind, texts):
        super().__init__(kind)
        self.kind = kind
        self.texts = texts


class Stripe:
    package = "stripe"

    def __init__(self):
        import stripe
        stripe.api_key = PLACEHOLDER
        self.stripe = stripe

    def make(self, name, amount=12_000):
        payment = f"pi_{name.replace('-', '')}"
        return self.stripe.Refund.create(payment_intent=payment, amount=amount, metadata={"case": name}).id

    def make_large(self, name):
        return self.make(name, amount=95_000)

    def make_other(self, name):
        return self.stripe.Payout.create(amount=500, currency="usd", description=name).id


class Resend:
    package = "resend"

    def __init__(self):
        import resend
        resend.api_key = PLACEHOLDER
        self.resend = resend

    def make(self, name, *others):
        mail = {"from": "desk@example.com", "to": [f"{name}@example.com", *others], "subject": name, "text": "Hello"}
        return self.resend.Emails.send(mail)["id"]

    def make_large(self, name):
        return self.make(name, "everybody@example.com")

    def make_other(self, name):
        return self.resend.Domains.create({"name": f"{name}.example.com"})["id"]


class PyGithub:
    package = "PyGithub"

    def __init__(self):
        import github
        self.repository = github.Github(auth=github.Auth.Token(PLACEHOLDER), timeout=60).get_repo("acme/notes", lazy=True)

    def make(self, name, branch="main"):
        return self.repository.create_file(f"{name}.txt", "write it down", "text", branch=branch)["commit"].sha

    def make_large(self, name):
        return self.make(name, branch="release")

    def make_other(self, name):
        return self.repository.create_issue(title=name).number


class OpenAi:
    package = "openai"

    def __init__(self):
        import openai
        self.client = openai.OpenAI(api_key=PLACEHOLDER)

    def make(self, name, model="gpt-4.1-mini"):
        return self.client.fine_tuning.jobs.create(model=model, training_file=name).id

    def make_large(self, name):
        return self.make(name, model="gpt-4.1")

    def make_other(self, name):
        return self.client.models.delete(name).id


class Anthropic:
    package = "anthropic"

    def __init__(self):
        import anthropic
        self.client = anthropic.Anthropic(api_key=PLACEHOLDER)

    def make(self, *names):
        message = {"model": "claude", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}
        requests = [{"custom_id": name, "params": message} for name in names]
        return self.client.messages.batches.create(requests=requests).id

    def make_large(self, name):
        return self.make(name, f"{name}-more")

    def make_other(self, name):
        return self.client.messages.batches.cancel(name).id


class Plain:
    """HTTP clients: `send(method, url, document)` gives the answer's document, or raises."""

    def make(self, name):
        return self.send("POST", f"{DESK}tickets", {"reference": name})["id"]

    def make_large(self, name):
        return self.send("POST", f"{DESK}releases", {"reference": name})["id"]

    def make_other(self, name):
        return self.send("DELETE", f"{DESK}tickets/{name}", {"reference": name})["id"]


class Requests(Plain):
    package = "requests"

    def send(self, method, url, document):
        import requests
        answer = requests.request(method, url, json=document, headers=HEADERS, timeout=30)
        answer.raise_for_status()
        return answer.json()


class Httpx(Plain):
    package = "httpx"

    def send(self, method, url, document):
        import httpx
        answer = httpx.request(method, url, json=document, headers=HEADERS, timeout=30)
        answer.raise_for_status()
        return answer.json()


class Aiohttp(Plain):
    package = "aiohttp"

    def send(self, method, url, document):
        import aiohttp

        async def ask():
            async with aiohttp.ClientSession() as session:
                async with session.request(method, url, json=document, headers=HEADERS) as answer:
                    answer.raise_for_status()
                    return await answer.json()

        return asyncio.run(ask())


class Urllib3(Plain):
    package = "urllib3"

    def __init__(self):
        import urllib3
        self.pool = urllib3.PoolManager()

    def send(self, method, url, document):
        answer = self.pool.request(method, url, json=document, headers=HEADERS)
        if answer.status >= 400:
            texts = {"response.reason": answer.reason, "response.data": answer.data.decode()}
            raise Refused(f"status {answer.status}", texts)
        return answer.json()


CLIENTS = {"stripe-python": Stripe, "resend-python": Resend, "pygithub": PyGithub, "openai-python": OpenAi,
           "anthropic-python": Anthropic, "requests": Requests, "httpx": Httpx, "aiohttp": Aiohttp, "urllib3": Urllib3}


def saw(act, name):
    try:
        return {"answer": act(name), "kind": None, "texts": {}}
    except Refused as refused:
        return {"answer": None, "kind": refused.kind, "texts": refused.texts}
    except Exception as error:
        return {"answer": None, "kind": type(error).__name__, "texts": {"str(exception)": str(error)}}


def tell(version, client, name):
    """Makes the writes, each in a name of its own, and prints what came of them."""
    done = {
        "success": saw(client.make, f"{name}-success"),
        "success again": saw(client.make, f"{name}-success"),
        "lost": saw(client.make, f"{name}-lost"),
        "lost again": saw(client.make, f"{name}-lost"),
        "denied": saw(client.make_other, f"{name}-denied"),
        "pending": saw(client.make_large, f"{name}-pending"),
    }
    json.dump({"version": version, "saw": done}, sys.stdout)


def main(name, only=None):
    client = CLIENTS[name]()
    if only:
        json.dump({"saw": {only: saw(client.make, f"{name}-{only}")}}, sys.stdout)
    else:
        tell(importlib.metadata.version(client.package), client, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
