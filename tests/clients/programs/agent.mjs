// What an agent runs: the published Node clients as they come. They know a placeholder for a key, and nothing of
// Oncegate. Called with a client and the name to use for it; prints what the client saw, as JSON. With one more word it
// makes a single write.
//
// Each client makes one write (`make`), the same write in a size or place that a person has to approve (`makeLarge`),
// and a write that nobody declared (`makeOther`). They give the id of what was made, or throw what the client throws.

import { readFileSync } from 'node:fs';

const PLACEHOLDER = 'placeholder-of-the-agent';
const DESK = 'https://desk.test/v1/';
const JSON_HEADERS = { Authorization: `Bearer ${PLACEHOLDER}`, 'Content-Type': 'application/json' };

/** For clients that throw nothing, or show something elsewhere than in the message: where they show what. */
class Refused extends Error {
  constructor(kind, texts) {
    super(kind);
    Object.assign(this, { kind, texts });
  }
}

async function stripe() {
  const { default: Stripe } = await import('stripe');
  const client = new Stripe(PLACEHOLDER);
  const refund = async (name, amount) => {
    const payment = `pi_${name.replaceAll('-', '')}`;
    return (await client.refunds.create({ payment_intent: payment, amount, metadata: { case: name } })).id;
  };
  return {
    make: (name) => refund(name, 12000),
    makeLarge: (name) => refund(name, 95000),
    makeOther: async (name) => (await client.payouts.create({ amount: 500, currency: 'usd', description: name })).id,
  };
}

async function resend() {
  const { Resend } = await import('resend');
  const client = new Resend(PLACEHOLDER);
  const said = ({ data, error }) => {
    if (error) throw new Refused(error.name, { 'error.message': error.message });
    return data.id;
  };
  const mail = async (name, ...others) =>
    said(await client.emails.send({
      from: 'desk@example.com',
      to: [`${name}@example.com`, ...others],
      subject: name,
      text: 'Hello',
    }));
  return {
    make: (name) => mail(name),
    makeLarge: (name) => mail(name, 'everybody@example.com'),
    makeOther: async (name) => said(await client.domains.create({ name: `${name}.example.com` })),
  };
}

async function octokit(from) {
  const { Octokit } = await import(from);
  const { rest } = new Octokit({ auth: PLACEHOLDER });
  const place = { owner: 'acme', repo: 'notes' };
  const content = Buffer.from('text').toString('base64');
  const file = async (name, branch) => {
    const made = await rest.repos.createOrUpdateFileContents({
      ...place, branch, content, path: `${name}.txt`, message: 'write it down',
    });
    return made.data.commit.sha;
  };
  return {
    make: (name) => file(name, 'main'),
    makeLarge: (name) => file(name, 'release'),
    makeOther: async (name) => (await rest.issues.create({ ...place, title: name })).data.number,
  };
}

async function openai() {
  const { default: OpenAI } = await import('openai');
  const client = new OpenAI({ apiKey: PLACEHOLDER });
  const tuning = async (name, model) => (await client.fineTuning.jobs.create({ model, training_file: name })).id;
  return {
    make: (name) => tuning(name, 'gpt-4.1-mini'),
    makeLarge: (name) => tuning(name, 'gpt-4.1'),
    makeOther: async (name) => (await client.models.delete(name)).id,
  };
}

async function anthropic() {
  const { default: Anthropic } = await import('@anthropic-ai/sdk');
  const client = new Anthropic({ apiKey: PLACEHOLDER });
  const params = { model: 'claude', max_tokens: 8, messages: [{ role: 'user', content: 'Hello' }] };
  const batch = async (...names) =>
    (await client.messages.batches.create({ requests: names.map((name) => ({ custom_id: name, params })) })).id;
  return {
    make: (name) => batch(name),
    makeLarge: (name) => batch(name, `${name}-more`),
    makeOther: async (name) => (await client.messages.batches.cancel(name)).id,
  };
}

/** HTTP clients: `send(method, url, document)` gives the answer's document, or throws. */
const plain = (send) => ({
  make: async (name) => (await send('POST', `${DESK}tickets`, { reference: name })).id,
  makeLarge: async (name) => (await send('POST', `${DESK}releases`, { reference: name })).id,
  makeOther: async (name) => (await send('DELETE', `${DESK}tickets/${name}`, { reference: name })).id,
});

async function builtInFetch() {
  return plain(async (method, url, document) => {
    const response = await fetch(url, { method, headers: JSON_HEADERS, body: JSON.stringify(document) });
    if (response.ok) return response.json();
    const texts = { 'response.statusText': response.statusText, 'await response.text()': await response.text() };
    throw new Refused(`status ${response.status}`, texts);
  });
}

async function axios() {
  const { default: client } = await import('axios');
  return plain(async (method, url, data) => {
    try {
      return (await client({ method, url, data, headers: JSON_HEADERS })).data;
    } catch (error) {
      throw new Refused(error.constructor.name, {
        'error.message': error.message,
        'error.response.statusText': error.response?.statusText,
        'error.response.data': JSON.stringify(error.response?.data),
      });
    }
  });
}

const CLIENTS = {
  stripe: { package: 'stripe', start: stripe },
  resend: { package: 'resend', start: resend },
  octokit: { package: 'octokit', start: () => octokit('octokit') },
  '@octokit/rest': { package: '@octokit/rest', start: () => octokit('@octokit/rest') },
  openai: { package: 'openai', start: openai },
  anthropic: { package: '@anthropic-ai/sdk', start: anthropic },
  fetch: { package: null, start: builtInFetch },
  axios: { package: 'axios', start: axios },
};

async function saw(act, name) {
  try {
    return { answer: await act(name), kind: null, texts: {} };
  } catch (error) {
    const { kind, texts } = error instanceof Refused
      ? error
      : { kind: error.constructor.name, texts: { 'error.message': error.message } };
    return { answer: null, kind, texts };
  }
}

function version(name) {
  const manifest = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return name === null ? null : JSON.parse(readFileSync(manifest)).version;
}

const all = async (client, name) => ({
  success: await saw(client.make, `${name}-success`),
  'success again': await saw(client.make, `${name}-success`),
  lost: await saw(client.make, `${name}-lost`),
  'lost again': await saw(client.make, `${name}-lost`),
  denied: await saw(client.makeOther, `${name}-denied`),
  pending: await saw(client.makeLarge, `${name}-pending`),
});

const [, , which, name, only] = process.argv;
const client = await CLIENTS[which].start();
const done = only ? { [only]: await saw(client.make, `${name}-${only}`) } : await all(client, name);
process.stdout.write(JSON.stringify({ version: version(CLIENTS[which].package), saw: done }));
