'use strict';
// Makes Node clients that ignore HTTPS_PROXY use it: everything on https.Agent (stripe-node and most others) and
// http.Agent, and the built-in fetch of a Node that has no proxy support of its own. Loaded by
// NODE_OPTIONS=--require=… from `oncegate run` and `oncegate env`; does nothing when HTTPS_PROXY is not set. Trust
// comes from NODE_EXTRA_CA_CERTS. Plain hosts go through a tunnel too.
//
// Not covered: an Agent of the npm package undici, a class that overrides createConnection, raw tls.connect.

const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const tls = require('node:tls');

const CONNECT_TIMEOUT_MS = 30000;

function proxyFromEnvironment() {
  const text = process.env.HTTPS_PROXY || process.env.https_proxy;
  if (!text) return null;
  try {
    const url = new URL(text);
    if (url.protocol !== 'http:') return null;
    const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    return {
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || 80),
      authorization: url.username ? `Basic ${Buffer.from(credentials).toString('base64')}` : null,
    };
  } catch {
    return null;
  }
}

function goesDirect(host) {
  const names = (process.env.NO_PROXY || process.env.no_proxy || '').split(/[\s,]+/).filter(Boolean);
  const wanted = host.toLowerCase();
  return names.some((name) => {
    if (name === '*') return true;
    const bare = name.toLowerCase().replace(/^\*?\./, '');
    return wanted === bare || wanted.endsWith(`.${bare}`);
  });
}

/** Asks the proxy for a tunnel to host:port; calls back with the raw socket. */
function tunnel(proxy, host, port, callback) {
  const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const headers = { host: target };
  if (proxy.authorization) headers['proxy-authorization'] = proxy.authorization;
  const request = http.request({
    host: proxy.host,
    port: proxy.port,
    method: 'CONNECT',
    path: target,
    headers,
    agent: false,
    timeout: CONNECT_TIMEOUT_MS,
  });
  let answered = false;
  const done = (error, socket) => {
    if (answered) return;
    answered = true;
    callback(error, socket);
  };
  request.once('connect', (response, socket, head) => {
    if (response.statusCode === 200) {
      socket.setTimeout(0);
      if (head.length > 0) socket.unshift(head);
      done(null, socket);
    } else {
      socket.destroy();
      done(new Error(`proxy answered CONNECT ${target} with ${response.statusCode} ${response.statusMessage}`));
    }
  });
  request.once('response', (response) => {
    response.resume();
    done(new Error(`proxy answered CONNECT ${target} with ${response.statusCode} ${response.statusMessage}`));
  });
  request.once('timeout', () => request.destroy(new Error(`no answer from the proxy for CONNECT ${target}`)));
  request.once('error', done);
  request.end();
}

/** Where an agent is to connect through the proxy; null where it connects as it would. */
function hostThrough(proxy, options, callback) {
  const host = options && typeof options === 'object' ? options.host || options.hostname : null;
  if (!host || typeof callback !== 'function' || options.socketPath || options.socket || goesDirect(host)) return null;
  // Whoever connects to the proxy itself, as the tunnel does, is there already.
  return host === proxy.host && Number(options.port) === proxy.port ? null : host;
}

function patchPlainAgent(proxy, ownSupport) {
  const direct = http.Agent.prototype.createConnection;
  http.Agent.prototype.createConnection = function createConnection(options, callback) {
    // Where Node knows the variables itself, its own agent names the whole URL to the proxy.
    const host = ownSupport && this === http.globalAgent ? null : hostThrough(proxy, options, callback);
    if (!host) return direct.apply(this, arguments);
    tunnel(proxy, host, options.port || 80, callback);
    return undefined;
  };
}

function patchAgent(proxy) {
  const direct = https.Agent.prototype.createConnection;
  https.Agent.prototype.createConnection = function createConnection(options, callback) {
    const host = hostThrough(proxy, options, callback);
    if (!host) return direct.apply(this, arguments);
    tunnel(proxy, host, options.port || 443, (error, socket) => {
      if (error) return callback(error);
      const servername = options.servername || (net.isIP(host) ? '' : host);
      let secure;
      try {
        secure = tls.connect({ ...options, path: undefined, socket, servername });
      } catch (cause) {
        socket.destroy();
        return callback(cause);
      }
      callback(null, secure);
    });
    return undefined;
  };
}

function patchFetch(proxy) {
  const symbol = Symbol.for('undici.globalDispatcher.1');
  // Touching one of its classes makes Node load its own undici, which then sets the dispatcher.
  void globalThis.Headers;
  const Agent = globalThis[symbol] && globalThis[symbol].constructor;
  if (typeof Agent !== 'function') return;
  globalThis[symbol] = new Agent({
    connect(options, callback) {
      const host = options.hostname.replace(/^\[|\]$/g, '');
      const plain = options.protocol === 'http:';
      const port = Number(options.port || (plain ? 80 : 443));
      const once = (socket, event) => {
        const failed = (error) => callback(error);
        socket.once('error', failed);
        socket.once(event, () => {
          socket.removeListener('error', failed);
          callback(null, socket);
        });
      };
      const secure = (socket) => {
        const servername = options.servername || (net.isIP(host) ? '' : host);
        // The certificate is checked against the host where no name is asked for, as of an address.
        const target = socket ? { socket, host } : { host, port };
        once(tls.connect({ ...target, servername, ALPNProtocols: ['http/1.1'] }), 'secureConnect');
      };
      if (goesDirect(host)) return plain ? once(net.connect({ host, port }), 'connect') : secure(null);
      tunnel(proxy, host, port, (error, socket) => {
        if (error) return callback(error);
        return plain ? callback(null, socket) : secure(socket);
      });
    },
  });
}

const proxy = proxyFromEnvironment();
if (proxy) {
  const [major] = process.versions.node.split('.').map(Number);
  const ownSupport = major >= 24 && process.env.NODE_USE_ENV_PROXY === '1';
  patchAgent(proxy);
  patchPlainAgent(proxy, ownSupport);
  if (!ownSupport) {
    try {
      patchFetch(proxy);
    } catch (error) {
      process.stderr.write(`oncegate: fetch does not use the proxy: ${error.message}\n`);
    }
  }
}
