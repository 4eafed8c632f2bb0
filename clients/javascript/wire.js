import { BadRequest, errorOf, SpoolError, Unavailable } from "./errors.js";

/** Milliseconds without a byte after which an event stream is dead: a comment comes every 15 s. */
const silence = 45_000;

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/**
 * What a request sends. again: it may be sent once more though the first one may have been done.
 * @typedef {object} Sent
 * @property {Query} [query]
 * @property {BodyInit | null} [body]
 * @property {Record<string, string>} [headers]
 * @property {boolean} [again]
 * @property {AbortSignal} [signal]
 */
/**
 * An event of a stream. id says all that its reader has: a stream that begins with it as lastId goes on behind it.
 * @typedef {{name: string, id: string, data: any}} Event
 */

/** Requests to one server. */
export class Wire {
  /**
   * @param {string} url
   * @param {{token?: string, timeout: number, patience: number, signal?: AbortSignal, fetch: typeof fetch}} config
   */
  constructor(url, config) {
    if (!/^https?:\/\/./i.test(url)) throw new TypeError(`${JSON.stringify(url)} is no address: use http://HOST:PORT`);
    this.base = new URL(url).href.replace(/\/$/, "");
    this.config = config;
  }

  /**
   * One try. What the server refuses is thrown as a SpoolError.
   * @param {string} method
   * @param {string} path
   * @param {Sent} sent
   * @param {AbortSignal} [until] ends it, beside the signals of its caller
   * @returns {Promise<Response>}
   */
  async once(method, path, { query = {}, body, headers = {}, signal }, until) {
    // fetch would ask for another place, and find something there
    if (/\/\.{0,2}(\/|$)/.test(path)) throw new BadRequest(`${method} ${path}: a name in this path is empty, or . or ..`);
    const given = Object.entries(query).filter(([, v]) => v != null && v !== false).map(([k, v]) => [k, v === true ? "1" : String(v)]);
    const target = this.base + path + (given.length ? "?" + new URLSearchParams(given) : "");
    /** @type {Record<string, string>} */
    const auth = this.config.token ? { Authorization: `Bearer ${this.config.token}` } : {};
    const ends = /** @type {AbortSignal[]} */ ([signal, this.config.signal, until].filter(Boolean));
    /** @type {RequestInit & {duplex?: "half"}} */
    const request = { method, body: body ?? null, headers: { ...auth, ...headers }, signal: AbortSignal.any(ends), cache: "no-store" };
    if (body instanceof ReadableStream) request.duplex = "half";
    const response = await this.config.fetch(target, request);
    if (response.status >= 300) throw await errorOf(`${method} ${path}`, response);
    return response;
  }

  /**
   * A request and its whole answer, tried again for as long as the patience lasts.
   * @param {string} method
   * @param {string} path
   * @param {Sent} [sent]
   * @returns {Promise<{bytes: Uint8Array<ArrayBuffer>, headers: Headers}>}
   */
  async call(method, path, sent = {}) {
    const again = sent.again ?? (method === "GET" || method === "HEAD");
    const tries = new Tries(this.config.patience);
    for (;;) {
      try {
        const response = await this.once(method, path, sent, AbortSignal.timeout(this.config.timeout * 1000));
        return { bytes: new Uint8Array(await response.arrayBuffer()), headers: response.headers };
      } catch (error) {
        this.ended(sent.signal);
        if (error instanceof SpoolError) {
          const passes = error instanceof Unavailable && (again || error.status === 429 || error.status === 503);
          if (!passes || !(await tries.rest(error.retryAfter, this.signals(sent.signal)))) throw error;
        } else if (!again && !unsent(error)) {
          throw new Unavailable(`${method} ${path}: no answer came, and it may have been done`, 0, {}, { cause: error });
        } else if (!(await tries.rest(undefined, this.signals(sent.signal)))) {
          const at = `${method} ${this.base}${path}: ${told(error)}`;
          throw new Unavailable(`${at}: is Spool there? The url, or SPOOL_HTTP, names another`, 0, {}, { cause: error });
        }
      }
    }
  }

  /**
   * A call whose body and answer are JSON.
   * @param {string} method
   * @param {string} path
   * @param {Query} [query]
   * @param {unknown} [value]
   * @param {Sent} [how]
   * @returns {Promise<any>}
   */
  async json(method, path, query, value, how = {}) {
    const body = method === "POST" ? { body: JSON.stringify(value ?? {}) } : {};
    const headers = { Accept: "application/json", ...(method === "POST" ? { "Content-Type": "application/json" } : {}) };
    return JSON.parse(new TextDecoder().decode((await this.call(method, path, { query, headers, ...body, ...how })).bytes));
  }

  /** @param {AbortSignal} [signal] */
  signals(signal) {
    return /** @type {AbortSignal[]} */ ([signal, this.config.signal].filter(Boolean));
  }

  /** @param {AbortSignal} [signal] */
  ended(signal) {
    for (const s of this.signals(signal)) s.throwIfAborted();
  }
}

/**
 * Whether a request did not get to the server, for certain. Only Node tells.
 * @param {any} error
 */
const unsent = (error) => ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(error?.cause?.code);

/** @param {any} error */
const told = (error) => [error?.message, error?.cause?.message].filter(Boolean).join(": ");

/** When to try again: waits double from 50 ms to 2 s, or are what the server says, and end with the patience. */
export class Tries {
  /** @param {number} patience in seconds */
  constructor(patience) {
    this.until = performance.now() + patience * 1000;
    this.wait = 50;
  }

  /**
   * Waits, and tells whether there is time for another try.
   * @param {number | undefined} after in seconds
   * @param {AbortSignal[]} signals
   */
  async rest(after, signals) {
    const wait = Math.max((after ?? 0) * 1000, this.wait * (0.5 + Math.random() / 2));
    this.wait = Math.min(2000, 2 * this.wait);
    if (performance.now() + wait > this.until) return false;
    await pause(wait, signals);
    return true;
  }
}

/**
 * @param {number} ms
 * @param {AbortSignal[]} signals that end it, by their reason
 * @returns {Promise<void>}
 */
export async function pause(ms, signals) {
  const ends = AbortSignal.any(signals);
  ends.throwIfAborted();
  await new Promise((resolve, reject) => {
    const end = () => { clearTimeout(timer); reject(ends.reason); };
    const timer = setTimeout(() => { ends.removeEventListener("abort", end); resolve(undefined); }, ms);
    ends.addEventListener("abort", end, { once: true });
  });
}

/**
 * An event stream that goes on where it was cut, until it is closed or the server says that it ends. While the server is away it waits;
 * what the server refuses is thrown. lastId is that of the event before: keep it to go on in another process.
 * @implements {AsyncIterable<Event>}
 */
export class Stream {
  #closed = new AbortController();

  /**
   * @param {Wire} wire
   * @param {string} path
   * @param {Query} query
   * @param {{lastId?: string, signal?: AbortSignal}} [how]
   */
  constructor(wire, path, query, { lastId, signal } = {}) {
    this.wire = wire;
    this.path = path;
    this.query = query;
    /** @type {string | undefined} */
    this.lastId = lastId;
    this.signal = signal;
  }

  /** Ends it. */
  close() {
    this.#closed.abort();
  }

  /** @returns {AsyncGenerator<Event, void, void>} */
  async *[Symbol.asyncIterator]() {
    const closed = this.#closed.signal;
    let tries = new Tries(Infinity);
    while (!closed.aborted) {
      const cut = new AbortController();
      let timer = setTimeout(() => cut.abort(), silence);
      let after;
      try {
        const resumed = this.lastId ? { from: undefined, since: undefined, current: undefined } : {};
        const headers = { Accept: "text/event-stream", ...(this.lastId ? { "Last-Event-ID": this.lastId } : {}) };
        const response = await this.wire.once("GET", this.path, { query: { ...this.query, ...resumed }, headers, signal: this.signal },
          AbortSignal.any([closed, cut.signal]));
        const heard = () => { clearTimeout(timer); timer = setTimeout(() => cut.abort(), silence); };
        for await (const event of parse(lines(response, heard))) {
          tries = new Tries(Infinity);
          if (event.name === "failed") break;
          this.lastId = event.id || this.lastId;
          yield event;
          if (event.name === "reset" && ["removed", "renamed"].includes(event.data.reason)) return;
        }
      } catch (error) {
        this.wire.ended(this.signal);
        if (error instanceof SpoolError && !(error instanceof Unavailable)) throw error;
        if (error instanceof Unavailable) after = error.retryAfter;
      } finally {
        clearTimeout(timer);
        cut.abort();
      }
      if (closed.aborted) return;
      await tries.rest(after, [closed, ...this.wire.signals(this.signal)]).catch((error) => {
        if (!closed.aborted) throw error;
      });
    }
  }
}

/**
 * The lines of an answer, each with its newline; the last one has none when it was cut off.
 * @param {Response} response
 * @param {() => void} [heard] is called for all that comes
 */
export async function* lines(response, heard = () => {}) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      heard();
      const parts = (rest + value).split("\n");
      rest = /** @type {string} */ (parts.pop());
      for (const part of parts) yield part + "\n";
    }
    if (rest) yield rest;
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * The events of a stream, as the standard of server-sent events has them. One that is cut off is none.
 * @param {AsyncIterable<string>} all
 * @returns {AsyncGenerator<Event, void, void>}
 */
async function* parse(all) {
  let [name, id] = ["", ""];
  /** @type {string[]} */
  let data = [];
  for await (const raw of all) {
    if (!raw.endsWith("\n")) return;
    const line = raw.replace(/\r?\n$/, "");
    const [, field, value] = /** @type {RegExpMatchArray} */ (line.match(/^([^:]*)(?:: ?([\s\S]*))?$/));
    if (line === "") {
      if (data.length) yield { name: name || "message", id, data: JSON.parse(data.join("\n")) };
      name = "";
      data = [];
    } else if (field === "event") name = value ?? "";
    else if (field === "id") id = value ?? "";
    else if (field === "data") data.push(value ?? "");
  }
}
