// Two threads that begin alike, as forks do: how far they are the same, and beside each other what each goes on with.

import { h } from './dom.js';
import { get, path, query, save } from './api.js';
import { plural, whole } from './format.js';
import { row } from './rows.js';
import { threadLink } from './sessions.js';
import { Items } from './store.js';

/** page is how many items of each thread are shown at a time. */
const page = 60;

/** compareLink is the address of this view. */
export const compareLink = (one, other) => threadLink(one.session, one.thread) + query({ with: `${other.session}/${other.thread}` });

/** open finds how far both are the same, by some dozen items of each, and gives a view, as app.js wants one. */
export async function open({ session, thread, other, navigate, signal }) {
  const [of, name = 'main'] = other.split('/');
  const sides = [new Side({ session, thread, navigate, signal }), new Side({ session: of, thread: name, navigate, signal })];
  await Promise.all(sides.map((s) => s.measure()));
  const same = await shared(sides);
  await Promise.all(sides.map((s) => s.begin(same)));
  const [a, b] = sides;
  return {
    title: `${a.name} and ${b.name}`, keys: [],
    root: h('div.compare',
      h('h1', same > 1 ? `The first ${whole(same)} items are the same` : same ? 'The first item is the same' : 'They do not begin alike'),
      same > 0 && h('p', 'Up to ', h('a', { href: threadLink(a.session, a.thread, same) }, `item ${whole(same)}`), ', that is. Behind it they go on like this:'),
      h('div.sides', sides.map((s) => s.root))),
  };
}

/** shared is the number of the last item that is the same in both. A hash stands for all that is before it, too, so that halving finds it. */
async function shared(sides) {
  let [low, high] = [0, Math.min(...sides.map((s) => s.items.count))];
  while (low < high) {
    const n = Math.ceil((low + high) / 2);
    const [a, b] = await Promise.all(sides.map((s) => s.read({ from: n, limit: 1 })));
    if (a[0]?.hash && a[0].hash === b[0]?.hash) low = n;
    else high = n - 1;
  }
  return low;
}

/** Side is one of the threads: the view of its rows. */
class Side {
  constructor({ session, thread, navigate, signal }) {
    Object.assign(this, { session, thread, navigate, signal });
    this.name = thread === 'main' ? session : `${session} / ${thread}`;
    this.base = path('sessions', session, 'threads', thread);
    this.choices = new Map();
    this.items = new Items({ session, thread, signal, changed: (ns) => this.draw(ns), failed: (err) => this.failed(err) });
    this.rows = new Map(); // n → element
  }

  async read(which) {
    const got = await get(`${this.base}/items` + query(which), { signal: this.signal });
    this.items.count = got.last;
    return got.items;
  }

  measure() {
    return this.read({ last: 1 });
  }

  begin(same) {
    this.shown = same;
    const more = this.items.count - same;
    this.list = h('div', { role: 'feed', 'aria-label': `Items of ${this.name}` });
    this.more = h('button', { type: 'button', onclick: () => this.next().catch((err) => this.failed(err)) }, 'More items');
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    this.root = h('section.aside', { 'aria-label': this.name },
      h('h2', h('a', { href: threadLink(this.session, this.thread, Math.min(same + 1, this.items.count)) }, this.name), ' ',
        h('span.count', more ? `${plural(more, 'item')} more` : 'ends there')), this.list, this.problem, this.more);
    return this.next();
  }

  async next() {
    if (this.shown < this.items.count) {
      const list = await this.read({ from: this.shown + 1, limit: page });
      this.shown = list.at(-1)?.n ?? this.items.count;
      this.items.put(list);
    }
    this.more.hidden = this.shown >= this.items.count;
  }

  draw(ns) {
    for (const n of [...ns].sort((a, b) => a - b)) {
      const old = this.rows.get(n);
      this.rows.delete(n);
      if (this.folded(n) !== undefined || !this.get(n)) {
        old?.remove();
        continue;
      }
      const fresh = row(this.get(n), this);
      this.rows.set(n, fresh);
      if (old) old.replaceWith(fresh);
      else this.list.append(fresh);
    }
  }

  failed(err) {
    if (this.signal.aborted) return;
    this.problem.hidden = false;
    this.problem.textContent = err.message;
  }

  // What a row asks of its view; what is more than reading is done in the thread.

  get count() { return this.items.count; }
  get(n) { return this.items.get(n); }
  part(n) { return this.items.part(n); }
  folded(n) { return this.items.folded(n); }
  opened(n, key, usual) { return this.choices.get(`${n} ${key}`) ?? usual; }
  running() { return null; }
  prompt() { return null; }
  fullState() {}
  full(n) { this.navigate(threadLink(this.session, this.thread, n)); }
  download(id) { save(path('artifacts', id), `${id}.bin`, `spool artifact get ${id}`, { signal: this.signal }).catch((err) => this.failed(err)); }
  permalink(rec) { return threadLink(this.session, this.thread, rec.n); }

  open(n, key, on) {
    this.choices.set(`${n} ${key}`, on);
    this.draw([n]);
    this.rows.get(n)?.querySelector('.head')?.focus({ preventScroll: true });
  }
}
