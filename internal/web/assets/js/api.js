// The API on this page's own origin: JSON, and event streams read with fetch, which carries the token; EventSource cannot.

import { h } from './dom.js';
import { bytes as size } from './format.js';

const tokenKey = 'spool.token';

/** Refused is an answer that is none of success. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error || `the server answered ${status}`);
    this.status = status;
    this.body = body;
  }
}

let asking = null; // the promise of a token that is being asked for
let ask = async () => null;

/** onUnauthorized sets how a person is asked for a token: a function of the reason that gives one, or null. */
export function onUnauthorized(fn) {
  ask = fn;
}

async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(tokenKey);
    const headers = new Headers(options.headers);
    if (token) headers.set('Authorization', `Bearer ${token}`);
    const answer = await fetch(path, { ...options, headers, credentials: 'omit', redirect: 'error' });
    if (answer.status !== 401) return answer;
    const reason = token ? 'That token is not accepted.' : 'This server wants a token.';
    if (token !== sessionStorage.getItem(tokenKey)) continue; // another request was given one meanwhile
    asking ??= ask(reason).finally(() => { asking = null; });
    const given = await asking;
    if (!given) throw new Refused(401, { error: reason });
    sessionStorage.setItem(tokenKey, given);
  }
}

async function refusal(answer) {
  const text = await answer.text().catch(() => '');
  let body = null;
  try { body = JSON.parse(text); } catch { body = { error: text.slice(0, 300) }; }
  return new Refused(answer.status, body);
}

/** get reads JSON. */
export async function get(path, { signal } = {}) {
  const answer = await send(path, { signal, headers: { Accept: 'application/json' } });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** bytes reads at most so many bytes, and says whether there were more. */
export async function bytes(path, most, { signal } = {}) {
  const answer = await send(path, { signal });
  if (!answer.ok) throw await refusal(answer);
  const reader = answer.body.getReader();
  const parts = [];
  for (let n = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return { blob: new Blob(parts), more: false };
    n += value.length;
    if (n > most) {
      await reader.cancel();
      return { blob: null, more: true };
    }
    parts.push(value);
  }
}

/** largest item that is read whole, in bytes; a longer one is for a program. */
export const largest = 32 << 20;

/** save reads what is at an address, with the token that a link would not have, and gives it to the browser as a file; otherwise is the
 *  command that has what is too long for that. */
export async function save(address, name, otherwise, { signal } = {}) {
  const { blob, more } = await bytes(address, largest * 8, { signal }).catch((err) => { throw new Error(`${name} could not be read: ${err.message}`); });
  if (more) throw new Error(`${name} has more than ${size(largest * 8)}: ${otherwise}`);
  const url = URL.createObjectURL(blob); // without a type: a browser shows it nowhere
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** post sends JSON and reads JSON. */
export async function post(path, body) {
  const answer = await send(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** path joins segments, each of them escaped. */
export const path = (...segments) => '/v1/' + segments.map(encodeURIComponent).join('/');

/** query makes "?a=1&b=2" of what has a value. */
export function query(values) {
  const q = new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false));
  return q.size ? `?${q}` : '';
}

/**
 * The newest sessions that have the words q, and the state, up to a limit, from a place on. A page of them looks at some records alone:
 * where it has fewer than it may, and there is a next one, this reads on, but not for ever.
 */
export async function listed(q, limit, signal, state, next) {
  const sessions = [];
  let pages = 0;
  do {
    const got = await get('/v1/sessions' + query({ q, state, limit: limit - sessions.length, unanswered: 1, after: next }), { signal });
    sessions.push(...got.sessions);
    next = got.next;
  } while (next && sessions.length < limit && (!state || ++pages < 3));
  return { sessions, next };
}

/** Events cuts a text/event-stream into events: feed() takes text in any pieces. */
class Events {
  constructor(take) {
    this.take = take;
    this.rest = '';
    this.clear();
  }

  clear() {
    this.event = 'message';
    this.data = [];
  }

  feed(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === '') {
      if (this.data.length) this.take({ event: this.event, data: this.data.join('\n'), id: this.id });
      this.clear();
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id') this.id = value;
  }
}

const shown = () => new Promise((resolve) => {
  if (!document.hidden) resolve();
  else document.addEventListener('visibilitychange', resolve, { once: true });
});

/** patience is how long a stream may be silent, in milliseconds: the server sends a comment every 15 s. */
const patience = 40_000;

/**
 * follow reads an event stream until signal ends, and connects anew when it breaks, after the last id that it got. A hidden
 * page holds no connection: a browser has six for an origin, and tabs that nobody looks at must not take them.
 *
 * address is a function of nothing, asked at each connection; take gets {event, data, id}; state gets 'live', 'waiting' or an
 * error that trying again does not help.
 */
export async function follow(address, { take, state = () => {}, signal }) {
  let lastId = null;
  let failures = 0;
  while (!signal.aborted) {
    await shown();
    const connection = new AbortController();
    const stop = () => connection.abort();
    const hide = () => document.hidden && stop();
    signal.addEventListener('abort', stop);
    document.addEventListener('visibilitychange', hide);
    let watchdog = 0;
    const heard = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, patience);
    };
    try {
      if (signal.aborted) return;
      heard();
      const headers = { Accept: 'text/event-stream', ...(lastId !== null && { 'Last-Event-ID': lastId }) };
      const answer = await send(address(), { headers, signal: connection.signal });
      if (!answer.ok) throw await refusal(answer);
      state('live');
      const events = new Events((e) => {
        failures = 0;
        if (e.id !== undefined) lastId = e.id;
        if (e.event === 'reset') lastId = null;
        take({ ...e, data: parse(e.data) });
      });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        heard();
        events.feed(value);
      }
    } catch (err) {
      if (signal.aborted) return;
      if (err instanceof Refused && err.status < 500 && err.status !== 429) {
        state(err);
        return;
      }
    } finally {
      clearTimeout(watchdog);
      connection.abort();
      signal.removeEventListener('abort', stop);
      document.removeEventListener('visibilitychange', hide);
    }
    if (document.hidden) continue;
    state('waiting');
    await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 300 * 2 ** failures++) * (0.5 + Math.random())));
  }
}

function parse(data) {
  try { return JSON.parse(data); } catch { return data; }
}
