import { BadRequest, Conflict, NotPermitted } from "./errors.js";
import { lines } from "./wire.js";

/** A JSON object, or the text or bytes of an entry as they are.
 * @typedef {Record<string, unknown> | string | Uint8Array<ArrayBuffer>} Entry */
/** @typedef {string | Uint8Array<ArrayBuffer>} Body */
/** @typedef {{session: string, thread: string, dialect: string, body: Body}} Placed */

const mostLines = 1000, mostBytes = 4 << 20; // that go in one request of lines
const mostDoubtful = 1000; // threads of which it is known at a time what failed

/**
 * An entry of the dialect item that says a text.
 * @param {string} text
 * @param {string} [type] who speaks: "text" is the agent; without one it is its user
 * @returns {Record<string, unknown>}
 */
export function item(text, type) {
  return { content: [{ type: "text", text }], ...(type ? { metadata: { type } } : {}) };
}

/** A name that nobody else has; also where a page is no secure context. */
export const fresh = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

/**
 * @param {string} session
 * @param {string} thread
 */
export const threadPath = (session, thread) => `/v1/sessions/${encodeURIComponent(session)}/threads/${encodeURIComponent(thread)}`;

/** What a publish made durable: under which sequences of its producer. */
export class Ack {
  #wire;

  /**
   * @param {import("./wire.js").Wire} wire
   * @param {{session: string, thread: string, producer: string, epoch: number, first: number, last: number}} of
   */
  constructor(wire, of) {
    this.#wire = wire;
    this.session = of.session;
    this.thread = of.thread;
    this.producer = of.producer;
    this.epoch = of.epoch;
    this.first = of.first;
    this.last = of.last;
  }

  /**
   * Resolves when all of it is in its thread. Conflict: one of the entries was refused, and why. Needs a token that may read.
   * @param {{signal?: AbortSignal}} [how]
   * @returns {Promise<void>}
   */
  async applied(how = {}) {
    const query = { producer: this.producer, epoch: this.epoch, first: this.first, seq: this.last };
    await this.#wire.json("GET", threadPath(this.session, this.thread) + "/applied", query, undefined, how);
  }
}

/**
 * A thread, as a publisher knows it. doubt is what may be stored of the publish that failed, and under which sequence; refused: the first of
 * them was, for good.
 * @typedef {{last: Promise<unknown>, users: number, doubt: {placed: Placed, seq: number}[], refused: boolean}} Place
 */

/**
 * Publishes as one producer. To a thread one publish is under way at a time, and none waits for those to other threads.
 *
 * After an error some of the entries may be stored, or none, or all. Both ways on are safe: publish the same again, all of them or from
 * the first on, before others to that thread, and nothing is stored twice; or go on with others. After a refusal (BadRequest, Conflict,
 * NotPermitted) "the same" may leave the refused one out.
 */
export class Publisher {
  #wire;
  #user;
  /** @type {Map<string, Place>} */
  #places = new Map();

  /**
   * @param {import("./wire.js").Wire} wire
   * @param {{producer?: string, epoch?: number, seq?: number, user?: string}} [config] producer is a name that outlives the process, where
   *   seq says how many sequences an earlier one used, or epoch is one that none had
   */
  constructor(wire, { producer, epoch = 0, seq = 0, user } = {}) {
    this.producer = producer ?? "~" + fresh();
    this.epoch = epoch;
    this.seq = seq;
    this.#wire = wire;
    this.#user = user;
  }

  /**
   * Appends entries, in order, and resolves when they are durable.
   * @param {string} session
   * @param {string} thread
   * @param {Entry | Entry[]} entries
   * @param {{dialect?: string, signal?: AbortSignal}} [how]
   * @returns {Promise<Ack>}
   */
  publish(session, thread, entries, how = {}) {
    const all = Array.isArray(entries) ? entries : [entries];
    const placed = all.map((e) => ({
      session, thread, dialect: how.dialect ?? "item", body: typeof e === "string" || e instanceof Uint8Array ? e : JSON.stringify(e),
    }));
    const at = threadPath(session, thread), place = this.#places.get(at) ?? { last: Promise.resolve(), users: 0, doubt: [], refused: false };
    this.#places.delete(at);
    this.#places.set(at, place);
    place.users++;
    const stored = place.last.then(() => this.#publish(place, placed, how.signal)).finally(() => this.#forget(at, place));
    place.last = stored.catch(() => {});
    return stored;
  }

  /**
   * Forgets a thread once nothing of it is in doubt, and the oldest one where there are too many.
   * @param {string} at
   * @param {Place} place
   */
  #forget(at, place) {
    if (--place.users === 0 && !place.doubt.length) this.#places.delete(at);
    if (this.#places.size <= mostDoubtful) return;
    for (const [oldest, { users }] of this.#places) if (!users) return void this.#places.delete(oldest);
  }

  /**
   * @param {Place} place
   * @param {Placed[]} placed
   * @param {AbortSignal} [signal]
   */
  async #publish(place, placed, signal) {
    this.#wire.ended(signal);
    const [at] = placed;
    if (!at) throw new TypeError("nothing to publish");
    const all = this.#sequences(place, placed).map((seq, i) => ({ placed: /** @type {Placed} */ (placed[i]), seq }));
    let done = 0;
    try {
      while (done < all.length) done += (await this.#lines(all.slice(done), signal)) || (await this.#one(all[done], signal));
    } catch (error) {
      place.doubt = [...all.slice(done), ...place.doubt];
      place.refused = error instanceof BadRequest || error instanceof Conflict || error instanceof NotPermitted;
      throw error;
    }
    place.refused = false;
    const seqs = all.map((e) => e.seq);
    return new Ack(this.#wire, { session: at.session, thread: at.thread, producer: this.producer, epoch: this.epoch,
      first: /** @type {number} */ (seqs[0]), last: /** @type {number} */ (seqs.at(-1)) });
  }

  /**
   * Those that the entries had, where a publish of them failed, else new ones.
   * @param {Place} place
   * @param {Placed[]} placed
   * @returns {number[]}
   */
  #sequences(place, placed) {
    const { doubt } = place, begin = [0, ...(place.refused ? [1] : [])].find((begin) => {
      const had = doubt.slice(begin, begin + placed.length);
      return had.length > 0 && had.every((e, i) => same(e.placed, placed[i]));
    });
    const had = begin === undefined ? [] : doubt.slice(begin, begin + placed.length).map((e) => e.seq);
    place.doubt = begin === undefined ? [] : doubt.slice(begin + placed.length);
    while (had.length < placed.length) had.push(++this.seq);
    return had;
  }

  /**
   * @param {{placed: Placed, seq: number}} first
   * @param {string} media
   * @param {BodyInit} body
   * @param {AbortSignal} [signal]
   */
  #request({ placed, seq }, media, body, signal) {
    const headers = { "Content-Type": media, "Spool-Producer": this.producer, "Spool-Seq": String(seq), "Spool-Epoch": String(this.epoch) };
    return { path: threadPath(placed.session, placed.thread) + "/entries",
      sent: { query: { dialect: placed.dialect, user: this.#user }, headers, body, again: true, signal } };
  }

  /**
   * @param {{placed: Placed, seq: number} | undefined} entry
   * @param {AbortSignal} [signal]
   */
  async #one(entry, signal) {
    if (!entry) return 0;
    const { path, sent } = this.#request(entry, "application/json", entry.placed.body, signal);
    await this.#wire.call("POST", path, sent);
    return 1;
  }

  /**
   * Sends as many as fit as lines, once, and counts those from the first on that are durable. What stops it is told by sending the next one
   * alone.
   * @param {{placed: Placed, seq: number}[]} entries
   * @param {AbortSignal} [signal]
   */
  async #lines(entries, signal) {
    const [first] = entries, bodies = [];
    let size = 0;
    for (const { placed: { body }, seq } of entries.slice(0, mostLines)) {
      size += body.length + 1;
      const line = typeof body === "string" && body.trim() && !body.includes("\n");
      if (!first || !line || size > mostBytes || seq !== first.seq + bodies.length) break;
      bodies.push(body);
    }
    if (!first || bodies.length < 2) return 0;
    let stored = 0;
    const { path, sent } = this.#request(first, "application/x-ndjson", bodies.join("\n") + "\n", signal);
    try {
      for await (const line of lines(await this.#wire.once("POST", path, sent, AbortSignal.timeout(60_000)))) {
        if (stored === bodies.length || !JSON.parse(line).ok) break;
        stored++;
      }
    } catch {
      this.#wire.ended(signal);
    }
    return stored;
  }
}

/**
 * @param {Placed} a
 * @param {Placed | undefined} b
 */
function same(a, b) {
  if (!b || a.dialect !== b.dialect) return false;
  if (typeof a.body === "string" || typeof b.body === "string") return a.body === b.body;
  const other = b.body;
  return a.body.length === other.length && a.body.every((byte, i) => byte === other[i]);
}
