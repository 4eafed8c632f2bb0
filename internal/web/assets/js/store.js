// The items of a thread, by number, as far as they were read; and which of them belong together.

import { get, path, query } from './api.js';

/** page is how many items are asked for at a time. */
const page = 64;

/** room is how much of items is kept, in characters of their texts; what is farthest from the view goes first. */
const room = 48 << 20;

/** texts are the parts of an item that can be long. */
function weight(rec) {
  const { content, metadata } = rec.item;
  const input = metadata?.tool?.input;
  return 200 + (content?.[0]?.text?.length ?? 0) + (metadata?.text?.length ?? 0) + (metadata?.tool?.output?.length ?? 0) +
    (typeof input === 'string' ? input.length : input ? JSON.stringify(input).length : 0);
}

/** typeOf is metadata.type; a person's post has none. */
export const typeOf = (rec) => rec.item.metadata?.type ?? 'user';

/** textOf is the text of an item for people. */
export const textOf = (rec) => (rec.item.content ?? []).filter((p) => p?.type === 'text').map((p) => String(p.text ?? '')).join('\n');

/**
 * Items of one thread. changed(ns) is told which rows look different from now on, failed(err, from) what could not be read.
 * A result belongs to its call, and a resolution to its prompt: folded(n) tells of which row it is a part.
 */
export class Items {
  constructor({ session, thread, signal, changed, failed }) {
    Object.assign(this, { session, thread, signal, changed, failed });
    this.count = 0;
    this.records = new Map();
    this.pages = new Map(); // number of a page → weight of what is there, or a promise
    this.weight = 0;
    this.openers = new Map(); // "call id" or "prompt id" → numbers of the items that open it
    this.closers = new Map(); // the same → numbers of those that close it
    this.partOf = new Map(); // number of a closer → of its opener
    this.parts = new Map(); // number of an opener → of its closer
    this.near = 1;
  }

  get base() {
    return path('sessions', this.session, 'threads', this.thread, 'items');
  }

  get(n) {
    return this.records.get(n);
  }

  /** part is the item that closes the one at n: its result, its resolution. */
  part(n) {
    const at = this.parts.get(n);
    if (at === undefined) return undefined;
    const rec = this.records.get(at);
    if (!rec) this.load(this.pageOf(at));
    return rec;
  }

  folded(n) {
    return this.partOf.get(n);
  }

  /** complete tells whether everything from n to the end is there. */
  complete(n) {
    for (let k = this.pageOf(n); k <= this.pageOf(this.count); k++) if (typeof this.pages.get(k) !== 'number') return false;
    return true;
  }

  pageOf(n) {
    return Math.floor((n - 1) / page);
  }

  /** need reads the items from … to, and one page more: the results of their last calls. */
  need(from, to) {
    this.near = (from + to) / 2;
    const last = Math.min(this.pageOf(to) + 1, this.pageOf(this.count));
    for (let k = this.pageOf(Math.max(1, from)); k <= last; k++) this.load(k);
  }

  /** load reads a page unless it is there, or under way. */
  load(k) {
    if (!this.pages.has(k)) this.pages.set(k, this.read(k));
    return this.pages.get(k);
  }

  async read(k) {
    const first = k * page + 1;
    const last = Math.min(first + page - 1, this.count);
    try {
      for (let from = first; from <= last;) {
        const got = await get(this.base + query({ from, limit: last - from + 1 }), { signal: this.signal });
        const list = got.items.filter((rec) => rec.n >= from && rec.n <= last);
        if (!list.length) break;
        this.put(list);
        from = list.at(-1).n + 1;
      }
      this.settle(k);
    } catch (err) {
      this.pages.delete(k);
      if (!this.signal.aborted) this.failed(err, first);
    }
  }

  /** settle notes that a page is there, and makes room. */
  settle(k) {
    let sum = 0;
    for (let n = k * page + 1; n <= (k + 1) * page; n++) if (this.records.has(n)) sum += weight(this.records.get(n));
    const before = this.pages.get(k);
    this.weight += sum - (typeof before === 'number' ? before : 0);
    this.pages.set(k, sum);
    while (this.weight > room) {
      const far = (p) => Math.abs(p * page + page / 2 - this.near);
      const settled = [...this.pages].filter(([p, w]) => typeof w === 'number' && p !== k && far(p) > 2 * page);
      if (!settled.length) return;
      const [p, w] = settled.reduce((a, b) => (far(a[0]) > far(b[0]) ? a : b));
      for (let n = p * page + 1; n <= (p + 1) * page; n++) this.records.delete(n);
      this.pages.delete(p);
      this.weight -= w;
    }
  }

  /** put takes items as the API gives them. */
  put(list) {
    const changed = new Set();
    for (const rec of list) {
      if (this.records.get(rec.n)?.whole) continue;
      this.records.set(rec.n, rec);
      changed.add(rec.n);
      for (const n of this.fold(rec)) changed.add(n);
    }
    this.changed(changed);
  }

  /** grow takes the items that came live; those that are there already are passed over. */
  grow(list) {
    const fresh = list.filter((rec) => rec.n > this.count);
    if (!fresh.length) return 0;
    const gap = fresh[0].n > this.count + 1;
    const before = this.pageOf(this.count);
    const whole = this.count === 0 || typeof this.pages.get(before) === 'number';
    this.count = fresh.at(-1).n;
    if (gap || !whole) this.pages.delete(before); // read anew when it is looked at
    this.put(fresh);
    if (!gap && whole) for (let k = this.pageOf(fresh[0].n); k <= this.pageOf(this.count); k++) this.settle(k);
    return fresh.length;
  }

  /** replace puts an item as it was before a cut into the place of the one that was cut. */
  replace(n, item) {
    const rec = this.records.get(n);
    if (!rec) return;
    Object.assign(rec, { item, whole: true });
    this.changed(new Set([n, this.partOf.get(n) ?? n]));
  }

  /** fold finds what an item belongs to, and gives the rows that this changes. */
  fold(rec) {
    const { type, tool, prompt } = rec.item.metadata ?? {};
    const opens = type === 'tool_call' || type === 'pending_prompt';
    const closes = type === 'tool_result' || type === 'pending_prompt_resolved';
    const id = type?.startsWith('tool') ? tool?.invocation_id && `call ${tool.invocation_id}` : prompt?.id && `prompt ${prompt.id}`;
    if (!id || !(opens || closes)) return [];
    const side = opens ? this.openers : this.closers;
    const numbers = side.get(id) ?? [];
    if (!numbers.includes(rec.n)) side.set(id, [...numbers, rec.n].sort((a, b) => a - b));
    return this.match(id);
  }

  /** match pairs each opener with the first closer after it and before the next opener. */
  match(id) {
    const changed = [];
    const openers = this.openers.get(id) ?? [];
    const closers = this.closers.get(id) ?? [];
    openers.forEach((n, i) => {
      const end = openers[i + 1] ?? Infinity;
      const part = closers.find((c) => c > n && c < end);
      if (this.parts.get(n) === part) return;
      const old = this.parts.get(n);
      if (old !== undefined) this.partOf.delete(old);
      if (part !== undefined) {
        this.parts.set(n, part);
        this.partOf.set(part, n);
      }
      changed.push(n, old ?? n, part ?? n);
    });
    return changed;
  }
}
