//! The libraries of Python: each asks as an agent would, with a key that is none.

use super::clients::{Client, PLAIN};

/// Prints which modules there are, with their versions, as `module version` lines.
pub(super) const LIST: &str = "\
import importlib.metadata, importlib.util, sys
for name, distribution in (pair.split('=') for pair in sys.argv[1:]):
    if importlib.util.find_spec(name) is not None:
        try:
            print(name, importlib.metadata.version(distribution))
        except importlib.metadata.PackageNotFoundError:
            print(name, '?')
";

const TO_USE: &str =
    "PYTHONPATH has to hold shims/python and be read (not with -I or -E); else name the proxy in code";
const TO_TRUST: &str =
    "SSL_CERT_FILE and REQUESTS_CA_BUNDLE have to be read (not with -I or -E); else name bundle.pem in code";

const fn library(
    name: &'static str,
    module: &'static str,
    distribution: &'static str,
    ask: &'static [&'static str],
) -> Client {
    Client {
        name,
        program: "python3",
        ask,
        module: Some((module, distribution)),
        to_use: TO_USE,
        to_trust: TO_TRUST,
        ..PLAIN
    }
}

pub(super) static LIBRARIES: [Client; 11] = [
    Client {
        name: "python3 urllib",
        program: "python3",
        ask: &["-c", "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])", "{url}"],
        to_use: TO_USE,
        to_trust: TO_TRUST,
        ..PLAIN
    },
    library(
        "requests",
        "requests",
        "requests",
        &["-c", "import sys, requests; requests.get(sys.argv[1])", "{url}"],
    ),
    library("httpx", "httpx", "httpx", &["-c", "import sys, httpx; httpx.get(sys.argv[1])", "{url}"]),
    library("aiohttp", "aiohttp", "aiohttp", &["-c", AIOHTTP, "{url}"]),
    library(
        "urllib3",
        "urllib3",
        "urllib3",
        &[
            "-c",
            "import sys, urllib3; urllib3.PoolManager(retries=False).request('GET', sys.argv[1])",
            "{url}",
        ],
    ),
    library("stripe", "stripe", "stripe", &["-c", STRIPE, "{url}"]),
    library("resend", "resend", "resend", &["-c", RESEND, "{url}"]),
    library("PyGithub", "github", "PyGithub", &["-c", GITHUB, "{url}"]),
    library("openai", "openai", "openai", &["-c", OPENAI, "{url}"]),
    library("anthropic", "anthropic", "anthropic", &["-c", ANTHROPIC, "{url}"]),
    library("boto3", "boto3", "boto3", &["-c", BOTO3, "{url}"]),
];

const AIOHTTP: &str = "\
import aiohttp, asyncio, sys
async def ask():
    async with aiohttp.ClientSession() as session:
        async with session.get(sys.argv[1]) as answer:
            await answer.read()
asyncio.run(ask())
";

const STRIPE: &str = "\
import sys, stripe
stripe.api_base, stripe.api_key, stripe.max_network_retries = sys.argv[1].rstrip('/'), 'sk_test_doctor', 0
stripe.Balance.retrieve()
";

const RESEND: &str = "\
import os, sys
os.environ['RESEND_API_URL'] = sys.argv[1].rstrip('/')
import resend
resend.api_key = 're_doctor'
resend.Domains.list()
";

const GITHUB: &str = "\
import sys, github
github.Github(base_url=sys.argv[1].rstrip('/'), retry=None).get_rate_limit()
";

const OPENAI: &str = "\
import sys, openai
openai.OpenAI(api_key='doctor', base_url=sys.argv[1], max_retries=0).models.list()
";

const ANTHROPIC: &str = "\
import sys, anthropic
anthropic.Anthropic(api_key='doctor', base_url=sys.argv[1], max_retries=0).models.list()
";

const BOTO3: &str = "\
import sys, boto3, botocore.config
boto3.client('sts', endpoint_url=sys.argv[1], region_name='us-east-1', aws_access_key_id='doctor',
             aws_secret_access_key='doctor', config=botocore.config.Config(retries={'total_max_attempts': 1}),
             ).get_caller_identity()
";
