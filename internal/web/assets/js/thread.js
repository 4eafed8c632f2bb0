// A thread: its items in a window, live, with what one needs to find one's way in it.

import { announce, copy, copyable, h, keyed } from './dom.js';
import { bytes as readBytes, follow, get, largest, path, query, save } from './api.js';
import { compareLink } from './compare.js';
import { bytes, count, plural, time, whole } from './format.js';
import { stripped } from './ansi.js';
import { drawing } from './graph.js';
import { Outline } from './outline.js';
import { marker, row, saidBy } from './rows.js';
import { facts, nameOf, resumeCommands, stateOf, threadLink } from './sessions.js';
import { Items, typeOf } from './store.js';
import { ticking } from './ticking.js';
import { WindowedList } from './window.js';

/** tail is how much of a running output is shown, in characters. */
const tail = 20_000;

const encoder = new TextEncoder();

const none = { item: {} };

/** besides is where the session has a place beside its thread, and not in front of it. */
const besides = matchMedia('(min-width: 64rem)');

/** nearby is how many items are read before a thread is shown, and how many of them before the one that it is shown at. */
const nearby = 64;
const lead = 16;

/** kinds of items that can be shown alone: title, types as the API has them, and a detail. A result is shown with its call. */
const kinds = {
  said: ['What was said', 'message,text'],
  thought: ['Thoughts', 'thinking'],
  tools: ['Tool calls', 'tool_call,tool_result'],
  failed: ['Failed calls', 'tool_result', 'error'],
};

/** isOf tells whether an item is of a kind, as the API does. */
function isOf(rec, [, types, detail]) {
  const type = typeOf(rec);
  return types.split(',').includes(type === 'user' ? 'message' : type) && (!detail || rec.item.metadata.tool?.is_error === true);
}

/** open reads the items that are seen first and gives a view, as app.js wants one; at is the item to begin at, undefined for the end.
 *  What the session and its forks say comes later: a long thread is not waited for. */
export async function open({ session, thread, at, query: words, navigate, signal }) {
  const base = path('sessions', session, 'threads', thread);
  const first = await get(`${base}/items` + query(at ? { from: Math.max(1, at - lead), limit: nearby } : { last: nearby }), { signal });
  return new ThreadView({ session, thread, base, first, at, words, navigate, signal });
}

class ThreadView {
  constructor({ session, thread, base, first, at, words, navigate, signal }) {
    Object.assign(this, { session, thread, base, at, words, navigate, signal });
    this.info = null; // what the session says, when it is read
    this.active = true; // the thread takes entries
    this.title = `${session} – ${thread}`;
    this.choices = new Map(); // "n key" → whether that part of a row is open
    this.fulls = new Map(); // n → how reading it whole goes
    this.prompts = new Map(); // id → a prompt of this thread that waits
    this.forks = new Map(); // n → forks that begin after it
    this.outputs = new Map(); // id → an open output
    this.turning = Promise.resolve();
    this.unseen = 0;
    this.current = null; // number of the item that the keys are at
    this.search = { q: '', matches: [], at: -1 };
    this.chosen = null; // { kind, rows: numbers of the items that alone are shown, found: how many, next: what was not looked at is before it }
    this.items = new Items({
      session, thread, signal,
      changed: (ns) => this.changed(ns),
      failed: (err, n) => this.failed(err, n),
    });
    this.items.count = first.last;
    this.items.put(first.items);
    this.build();
  }

  get count() {
    return this.items.count;
  }

  // The frame

  build() {
    this.heading = h('h1.unseen', this.session); // the name that is seen is in a part that a phone folds
    this.holder = h('div.list', { role: 'feed', 'aria-label': 'Items' });
    this.origin = h('div.origin');
    this.tail = h('section.tail', { 'aria-label': 'Running outputs' });
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    this.chosenLine = h('p.marker', { role: 'status', hidden: true });
    this.feed = h('div.feed', { role: 'group', 'aria-label': 'Items and running outputs', tabindex: 0 }, this.origin, this.chosenLine, this.holder, this.tail);
    this.newer = h('button.newer', { type: 'button', hidden: true, onclick: () => this.toEnd() });
    this.counter = h('span.count');
    this.place = h('span.count.place');
    this.field = h('input', { type: 'search', placeholder: 'Search this thread', 'aria-label': 'Search this thread', onkeydown: (e) => this.searchKey(e), oninput: () => this.searchSoon() });
    this.found = h('span.found', { role: 'status' });
    this.kind = h('select', { 'aria-label': 'Items that are shown', title: 'Items that are shown (v)', onchange: () => this.choose(this.kind.value) },
      h('option', { value: '' }, 'All items'), Object.entries(kinds).map(([kind, [title]]) => h('option', { value: kind }, title)));
    this.followButton = h('button.quiet', { type: 'button', 'aria-pressed': 'false', title: 'Follow (f)', onclick: () => this.toggleFollow() }, 'Follow');
    this.side = h('aside.side', { 'aria-label': 'Session' });
    this.graph = h('div.graph');
    this.outline = new Outline({
      base: this.base, signal: this.signal, link: (n) => threadLink(this.session, this.thread, n),
      go: (n) => {
        this.fold.open = besides.matches;
        this.goto(n, { focus: true });
      },
      changed: () => this.placed(),
    });
    this.drawSide();
    this.fold = h('details.fold', { open: besides.matches }, h('summary', 'Session'), this.side);
    this.root = h('div.thread',
      this.heading, this.fold,
      h('section.stream', { 'aria-labelledby': 'thread-name' },
        h('div.tools',
          h('h2.thread-name', { id: 'thread-name' }, this.thread, ' ', this.counter, ' ', this.place),
          h('div.find', { role: 'search' }, this.field, this.found,
            h('button.quiet', { type: 'button', title: 'Previous match (Shift+Enter)', 'aria-label': 'Previous match', onclick: () => this.match(-1) }, '↑'),
            h('button.quiet', { type: 'button', title: 'Next match (Enter)', 'aria-label': 'Next match', onclick: () => this.match(1) }, '↓')),
          this.kind, this.followButton),
        this.problem, this.feed, this.newer));
    this.list = new WindowedList(this.feed, this.holder, {
      estimate: 40,
      build: (i) => this.row(i + 1),
      need: (from, to) => this.need(from, to),
      moved: (atEnd) => this.moved(atEnd),
    });
    this.showCount();
  }

  drawSide() {
    if (!this.info) {
      this.side.replaceChildren(h('p.crumb', h('a', { href: '/' }, 'Fleet')), h('p.session-name', this.session), h('p.hint', 'Loading…'));
      return;
    }
    const here = this.info.thread_list.find((t) => t.thread === this.thread);
    const from = here?.fork_of;
    this.active = here?.state === 'active';
    this.origin.replaceChildren(...(from ? [marker(from.n ? `Forked from item ${whole(from.n)} of ` : 'Forked from ',
      h('a', { href: threadLink(from.session, from.thread, from.n) }, `${from.session === this.session ? '' : `${from.session}/`}${from.thread}`), ' · ',
      h('a', { href: compareLink(this, from) }, 'Compare'))] : []));
    if (here?.tool_call) this.origin.append(marker(`Works for the call ${here.tool_call}`));
    this.heading.textContent = nameOf(this.info);
    this.title = `${nameOf(this.info)} – ${this.thread}`;
    this.ontitle?.();
    const threads = [...this.info.thread_list].sort((a, b) => (b.thread === 'main') - (a.thread === 'main') || a.thread.localeCompare(b.thread));
    const scrolled = this.outline.root.isConnected ? this.outline.list.scrollTop : undefined;
    this.side.replaceChildren(
      h('p.crumb', h('a', { href: '/' }, 'Fleet')),
      h('p.session-name', nameOf(this.info)),
      h('p.state-line', h(`span.dot.${stateOf(this.info)}`), h('span', stateOf(this.info)), !Number.isNaN(time(this.info.modified)) && [h('span', '·'), ticking('ago', time(this.info.modified))]),
      h('dl.facts', facts(this.info).map(([key, value]) => [h('dt', key), h('dd', value)])),
      ...resumeCommands(this.info, this.thread).map((line) => copyable(h('pre.code', line), line, 'The command')),
      this.saving(),
      this.outline.root,
      h('h2', plural(threads.length, 'thread')),
      h('ul.threads', threads.map((t) => h('li', h('a', { href: threadLink(this.session, t.thread), 'aria-current': t.thread === this.thread ? 'page' : null },
        h('span.thread-title', t.thread), h('span.n', count(t.n ?? 0)), t.state && t.state !== 'active' && h('span.tag', t.state))))),
      this.graph);
    this.outline.scroll(scrolled);
  }

  start() {
    this.changed(new Set(this.items.records.keys()));
    if (this.at) this.goto(this.at, { focus: true, unfold: Boolean(this.words) });
    else this.list.follow(true);
    this.moved(this.list.atEnd);
    if (this.words) {
      this.field.value = this.words;
      this.searchNow(this.at);
    }
    this.readSide();
    this.loadPrompts();
    this.loadGraph();
    this.outline.more().catch(() => {}); // it can be asked for again
    follow(() => this.base + '/live' + query({ from: this.count + 1 }), {
      signal: this.signal, take: (e) => this.live(e), state: (s) => this.linked(s),
    });
  }

  close() {
    this.list.close();
    CSS.highlights?.delete('found');
  }

  // Rows

  row(n) {
    const rec = this.items.get(n);
    if (!rec) return null;
    const el = row(rec, this);
    if (n === this.current) el.classList.add('current');
    for (const fork of this.forks.get(n) ?? []) {
      el.append(marker('Fork: ', h('a', { href: threadLink(fork.session, fork.thread, n) }, `${fork.session === this.session ? '' : `${fork.session}/`}${fork.thread}`), ' · ',
        h('a', { href: compareLink(this, fork) }, 'Compare')));
    }
    const call = typeOf(rec) === 'tool_call' && rec.item.metadata.tool?.invocation_id;
    for (const t of call ? this.info?.thread_list ?? [] : []) {
      if (t.tool_call === call && t.thread !== this.thread) el.append(marker('Subagent: ', h('a', { href: threadLink(this.session, t.thread) }, t.thread)));
    }
    for (const [session, of] of call ? Object.entries(this.info?.agent_sessions ?? {}) : []) {
      if (of === call) el.append(marker('Subagent: ', h('a', { href: threadLink(session, 'main') }, session)));
    }
    if (this.search.q) requestAnimationFrame(() => this.highlight());
    return el;
  }

  changed(ns) {
    if (!this.list) return;
    const { count } = this.list;
    this.list.resize(this.count);
    if (this.chosen) for (let n = count + 1; n <= this.count; n++) if (!this.shows(n)) this.list.hide(n - 1);
    for (const n of ns) {
      const row = this.items.folded(n);
      if (row !== undefined && this.chosen?.rows.has(n)) {
        this.chosen.rows.add(row);
        this.list.show(row - 1);
      }
      if (!this.shows(n)) this.list.hide(n - 1);
      else {
        if (this.list.hidden(n - 1)) this.list.show(n - 1);
        this.list.refresh(n - 1);
      }
    }
  }

  /** shows tells whether an item has a row. */
  shows(n) {
    return this.items.folded(n) === undefined && (!this.chosen || this.chosen.rows.has(n));
  }

  need(from, to) {
    if (!this.chosen) {
      this.items.need(from + 1, Math.max(from + 1, to));
      return;
    }
    this.items.near = (from + to) / 2;
    for (let i = from; i < to; i++) if (!this.list.hidden(i)) this.items.load(this.items.pageOf(i + 1));
    if (this.chosen.next && this.list.next(from, -1) === from) this.readChosen();
  }

  // Items of one kind

  /** choose shows the items of a kind alone, from the end; '' for all of them, where one was. */
  async choose(kind) {
    const at = this.current ?? this.list.first + 1;
    this.pick(kind);
    if (!kind) await this.goto(at);
    else {
      await this.readChosen();
      if (this.kind.value === kind) this.toEnd();
    }
  }

  pick(kind) {
    this.kind.value = kind;
    this.chosen = kind ? { kind: kinds[kind], rows: new Set(), found: 0, next: this.count + 1 } : null;
    this.list.choose((i) => this.shows(i + 1));
    this.showChosen();
  }

  /** readChosen looks for older items of the kind until there are some, or none at all. */
  readChosen() {
    const { chosen } = this;
    chosen.reading ??= (async () => {
      for (let some = false; chosen.next && !some && this.chosen === chosen;) {
        const [, type, detail] = chosen.kind;
        const got = await get(`${this.base}/search` + query({ type, detail, limit: 500, before: chosen.next }), { signal: this.signal });
        chosen.next = Number(got.next ?? 0);
        chosen.found += got.matches.length;
        for (const { n } of got.matches) {
          chosen.rows.add(n);
          if (this.items.folded(n)) chosen.rows.add(this.items.folded(n));
        }
        some = got.matches.length > 0;
        if (this.chosen === chosen) this.showChosen();
      }
      if (this.chosen === chosen) this.list.choose((i) => this.shows(i + 1));
    })().catch((err) => this.signal.aborted || this.failed(err, 0)).finally(() => { chosen.reading = null; });
    return chosen.reading;
  }

  showChosen() {
    this.chosenLine.hidden = !this.chosen;
    if (!this.chosen) return;
    const { kind: [title], found, next } = this.chosen;
    this.chosenLine.replaceChildren(`${title} alone: ${plural(found, 'item')}${next > 1 ? ` from ${whole(next)} on` : ''} `,
      h('button.more', { type: 'button', onclick: () => this.choose('') }, 'Show all items'));
  }

  get(n) { return this.items.get(n); }
  part(n) { return this.items.part(n); }
  folded(n) { return this.items.folded(n); }
  prompt(id) { return this.prompts.get(id); }
  opened(n, key, usual) { return this.choices.get(`${n} ${key}`) ?? usual; }
  fullState(n) { return this.fulls.get(n); }

  open(n, key, on) {
    this.choices.set(`${n} ${key}`, on);
    this.list.following = false;
    const row = this.items.folded(n) ?? n;
    this.list.refresh(row - 1);
    this.list.rows.get(row - 1)?.querySelector('.head')?.focus({ preventScroll: true });
    this.moved(this.list.atEnd);
  }

  running(n) {
    if (!this.items.complete(n)) return null;
    return this.active && n > this.count - 200 && this.info !== null && stateOf(this.info) === 'running';
  }

  async full(n) {
    const redraw = () => this.list.refresh((this.items.folded(n) ?? n) - 1);
    this.fulls.set(n, 'loading');
    redraw();
    try {
      const { blob, more } = await readBytes(`${this.items.base}/${n}?full=1`, largest, { signal: this.signal });
      if (more) throw new Error(`it has more than ${bytes(largest)}; spool read ${this.session}/threads/${this.thread}/logs/thread.log --offset ${n} --limit 1`);
      const rec = JSON.parse(await blob.text());
      this.fulls.delete(n);
      this.items.replace(n, rec.item ?? rec);
      announce(`Item ${n} is shown in full.`);
    } catch (err) {
      this.fulls.set(n, err);
      redraw();
    }
  }

  download(id, button) {
    return this.save(path('artifacts', id), `${id}.bin`, button, `spool artifact get ${id}`);
  }

  async save(address, name, button, otherwise) {
    button.disabled = true;
    try {
      await save(address, name, otherwise, { signal: this.signal });
      announce(`${name} is saved.`);
    } catch (err) {
      if (!this.signal.aborted) this.failed(err, 0);
    }
    button.disabled = false;
  }

  /** saving has a button for each form in which the thread can be saved. */
  saving() {
    const of = `${this.session}/${this.thread}`;
    return h('p.saving', h('span.hint', 'Save as'), [
      ['JSONL', '/logs/thread.log', '.jsonl', `spool read ${of}/logs/thread.log`], ['Markdown', '/page?as=md', '.md', `spool show --md ${of}`],
      ['HTML', '/page?as=html', '.html', `spool show --html ${of}`],
    ].map(([title, under, ext, otherwise]) => h('button.more', {
      type: 'button', 'aria-label': `Save as ${title}`,
      onclick: (e) => this.save(this.base + under, `${this.session}-${this.thread}${ext}`, e.currentTarget, otherwise),
    }, title)));
  }

  permalink(rec) {
    let i = 0;
    while (this.items.get(rec.n - i - 1)?.hash === rec.hash && rec.hash) i++;
    return rec.hash ? `/n/${rec.hash.split(':').pop()}${query({ s: this.session, t: this.thread, i })}` : threadLink(this.session, this.thread, rec.n);
  }

  copy(e) {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
    e.preventDefault();
    e.stopPropagation();
    const link = e.currentTarget;
    history.replaceState(history.state, '', link.href);
    copy(link.href, 'The link', link);
  }

  copyItem() {
    const rec = this.items.get(this.current);
    if (rec) copy(saidBy(rec, this.part(rec.n)), `Item ${rec.n}`, this.list.rows.get(rec.n - 1)?.querySelector('a.n'));
  }

  // Live

  live({ event, data }) {
    if (event === 'item') this.arrived([data]);
    else if (event === 'open') this.opens(data);
    else if (event === 'live') this.prints(data);
    else if (event === 'reset') this.reset(data);
    else if (event === 'failed') this.failed(new Error(data.error), 0);
  }

  reset({ reason, message, session, thread }) {
    if (reason === 'renamed') this.navigate(threadLink(session, thread));
    else if (reason === 'replaced') this.navigate(threadLink(this.session, this.thread));
    else this.failed(new Error(reason === 'removed' ? 'This thread was removed.' : message), 0);
    this.over ||= reason === 'removed';
  }

  arrived(list) {
    const was = this.count;
    for (const rec of this.chosen ? list : []) {
      if (rec.n <= was || !isOf(rec, this.chosen.kind)) continue;
      this.chosen.rows.add(rec.n);
      this.chosen.found++;
    }
    if (this.chosen) this.showChosen();
    const fresh = this.items.grow(list);
    if (!fresh) return;
    this.showCount();
    for (const rec of list) this.outline.add(rec);
    if (list.some((rec) => rec.item.metadata?.type?.startsWith('pending_prompt'))) this.loadPrompts();
    if (!this.list.following) {
      this.unseen += this.count - was;
      this.moved(this.list.atEnd);
    }
    announce(plural(this.count - was, 'new item'));
    this.sideSoon ||= setTimeout(() => this.readSide(), 3_000);
  }

  /** opens takes which outputs are open, of each of which frames come; the text of those that were open before stays. */
  opens({ state, outputs }) {
    this.active = state === 'active';
    this.outputs = new Map(outputs.map((o) => [o.output, { text: '', ...this.outputs.get(o.output), tool: o.tool, bytes: o.bytes }]));
    this.drawOutputs();
  }

  /** prints takes what an output prints; at its end the item with its result has come or is to come. */
  prints({ output, offset, text, missed, end }) {
    const out = this.outputs.get(output) ?? { tool: 'output', text: '' };
    out.text = (out.text + (missed ? `\n[${bytes(missed)} are not kept]\n` : '') + text).slice(-tail);
    out.bytes = Math.max(out.bytes ?? 0, offset + encoder.encode(text).length);
    if (end) this.outputs.delete(output);
    else this.outputs.set(output, out);
    this.drawSoon ||= requestAnimationFrame(() => {
      this.drawSoon = 0;
      this.drawOutputs();
    });
  }

  drawOutputs() {
    keyed(this.tail, [...this.outputs].map(([id, o]) => ({ id, ...o })), (o) => o.id, (o) => h('div.running-output',
      h('p.who', h('span.state.running', h('span.unseen', 'running')), o.tool, h('span.facts', bytes(o.bytes))),
      o.text && h('pre.code.output', stripped(o.text).split('\n').slice(-30).join('\n'))));
    if (this.list.following) this.list.toEnd();
  }

  linked(state) {
    if (this.over) return;
    if (state instanceof Error) this.failed(new Error(`Live items end here: ${state.message}`), 0);
    this.onlink?.(state);
  }

  /** readSide says how the session stands, at first and some time after something came. */
  async readSide() {
    if (!this.signal.aborted && !(this.info && this.side.contains(document.activeElement))) {
      try {
        this.info = await get(path('sessions', this.session), { signal: this.signal });
        this.drawSide();
        for (const [i] of this.list.rows) if (typeOf(this.items.get(i + 1) ?? none) === 'tool_call') this.list.refresh(i); // at work, or not
      } catch { /* what was true a moment ago stays */ }
    }
    this.sideSoon = 0;
  }

  async loadPrompts() {
    try {
      const got = await get('/v1/prompts' + query({ session: this.session }), { signal: this.signal });
      const mine = got.prompts.filter((p) => p.thread === this.thread);
      const ids = new Set([...this.prompts.keys(), ...mine.map((p) => p.id)]);
      this.prompts = new Map(mine.map((p) => [p.id, p]));
      for (const id of ids) for (const n of this.items.openers.get(`prompt ${id}`) ?? []) this.list.refresh(n - 1);
    } catch { /* the fleet's poll says what is wrong */ }
  }

  async loadGraph() {
    try {
      const graph = await get(path('sessions', this.session, 'graph'), { signal: this.signal });
      const drawn = drawing(graph, { session: this.session, thread: this.thread });
      if (drawn) this.graph.replaceChildren(h('h2', 'Forks'), drawn);
      for (const node of graph.nodes) {
        const from = node.source;
        if (from?.session === this.session && from.thread === this.thread && from.n) {
          this.forks.set(from.n, [...(this.forks.get(from.n) ?? []), node]);
          this.list.refresh(from.n - 1);
        }
      }
    } catch { /* a thread without its graph is a thread still */ }
  }

  failed(err, n) {
    this.problem.hidden = false;
    this.problem.replaceChildren(n ? `Items from ${n} on could not be read: ${err.message} ` : `${err.message} `,
      h('button', { type: 'button', onclick: () => { this.problem.hidden = true; this.list.schedule(); } }, n ? 'Try again' : 'Hide'));
  }

  // Where one is

  showCount() {
    this.counter.textContent = plural(this.count, 'item');
  }

  moved(atEnd) {
    if (atEnd) this.unseen = 0;
    this.newer.hidden = atEnd || this.unseen === 0;
    this.newer.textContent = `${whole(this.unseen)} new ↓`;
    this.followButton.setAttribute('aria-pressed', String(this.list?.following ?? false));
    this.followButton.textContent = this.list?.following ? 'Following' : 'Follow';
    this.placed();
  }

  /** placed says in which turn the view is. */
  placed() {
    if (this.list) this.place.textContent = this.outline.at(this.list.atEnd ? this.count : this.list.lead + 1);
  }

  toEnd() {
    this.list.follow(true);
    this.moved(true);
  }

  toggleFollow() {
    if (this.list.following) this.list.follow(false);
    else this.list.follow(true);
    this.moved(this.list.atEnd);
  }

  /** goto brings an item into view, or the one that it is a part of; unfold opens what of it is closed. Its neighbourhood is read first,
   *  so that it stays there. */
  async goto(n, { focus = false, nearest = false, unfold = false } = {}) {
    n = Math.max(1, Math.min(n, this.count));
    this.list.following = false;
    if (!this.items.get(n)) {
      await Promise.all([this.items.load(this.items.pageOf(n)), this.items.load(this.items.pageOf(Math.max(1, n - lead)))]);
      if (this.signal.aborted) return;
    }
    const shown = this.items.folded(n) ?? n;
    if (!this.shows(shown)) this.pick(''); // of another kind
    if (shown !== n) this.choices.set(`${shown} tool`, true);
    if (unfold) for (const part of ['tool', 'thinking', 'all input', 'all output']) this.choices.set(`${shown} ${part}`, true);
    this.select(shown);
    if (shown !== n || unfold) this.list.refresh(shown - 1);
    const el = this.list.reveal(shown - 1, { nearest });
    if (focus) el?.focus({ preventScroll: true });
  }

  select(n) {
    const old = this.current;
    this.current = n;
    this.list.rows.get(old - 1)?.classList.remove('current');
    this.list.rows.get(n - 1)?.classList.add('current');
  }

  step(by) {
    const from = this.current ? this.current - 1 : this.list.first - (by > 0 ? 1 : -1);
    const i = this.list.next(from, by);
    if (i < 0 || i >= this.count) return;
    this.goto(i + 1, { focus: true, nearest: true });
  }

  /** turn goes to the prompt before or after, one after the other. */
  turn(by) {
    this.turning = this.turning.then(async () => {
      const n = await this.outline.nearest(this.current ?? this.list.first + 1, by);
      if (n && !this.signal.aborted) await this.goto(n, { focus: true });
    }).catch((err) => this.signal.aborted || this.failed(err, 0));
  }

  toOutline() {
    this.fold.open = true;
    this.outline.focus();
  }

  press() {
    this.list.rows.get(this.current - 1)?.querySelector('.head, button')?.click();
  }

  // Search

  searchSoon() {
    clearTimeout(this.searching);
    this.searching = setTimeout(() => this.searchNow(), 250);
  }

  /** searchNow looks for the words of the field, and goes to the first item from here on that has them; at is one that is shown already. */
  async searchNow(at) {
    clearTimeout(this.searching);
    const q = this.field.value.trim();
    this.search = { q, matches: [], at: -1 };
    if (!q) {
      this.found.textContent = '';
      this.highlight();
      return;
    }
    this.found.textContent = '…';
    try {
      const got = await get(`${this.base}/search` + query({ q, limit: 500 }), { signal: this.signal });
      if (this.search.q !== q) return;
      this.search.matches = got.matches.map((m) => m.n).sort((a, b) => a - b);
      this.search.more = Boolean(got.next);
      this.found.textContent = this.search.matches.length ? '' : 'Nothing found';
      const here = this.search.matches.findIndex((n) => n >= (at ?? this.list.first + 1));
      if (at) {
        const isOne = this.search.matches[here] === at;
        this.search.at = isOne ? here : here - 1;
        this.found.textContent = isOne ? this.placeOfMatch() : '';
      } else if (this.search.matches.length) this.match(0, here < 0 ? this.search.matches.length - 1 : here);
      this.highlight();
    } catch (err) {
      if (!this.signal.aborted) this.found.textContent = err.message;
    }
  }

  placeOfMatch() {
    return `${whole(this.search.at + 1)} of ${whole(this.search.matches.length)}${this.search.more ? '+' : ''}`;
  }

  match(by, at = this.search.at + by) {
    const { matches } = this.search;
    if (!matches.length) return;
    this.search.at = (at + matches.length) % matches.length;
    const n = matches[this.search.at];
    this.found.textContent = this.placeOfMatch();
    this.goto(n, { unfold: true }).then(() => this.highlight());
  }

  searchKey(e) {
    if (e.key === 'Enter') {
      e.preventDefault();
      if (this.search.q !== this.field.value.trim()) this.searchNow();
      else this.match(e.shiftKey ? -1 : 1);
    } else if (e.key === 'Escape') {
      this.field.value = '';
      this.searchNow();
      this.feed.focus();
    }
  }

  /** highlight marks what was searched for in the rows that are there, without touching them. */
  highlight() {
    if (!CSS.highlights) return;
    CSS.highlights.delete('found');
    const q = this.search.q.toLowerCase();
    if (!q) return;
    const words = [q, ...q.split(/\s+/)].filter((w, i, all) => w.length > 1 && all.indexOf(w) === i);
    const ranges = [];
    const texts = document.createTreeWalker(this.holder, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node && ranges.length < 500; node = texts.nextNode()) {
      const text = node.data.toLowerCase();
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0 && ranges.length < 500; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, Math.min(node.length, at + word.length));
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set('found', new Highlight(...ranges));
  }

  // Keys

  get keys() {
    return [
      ['j', 'next item', () => this.step(1)],
      ['k', 'previous item', () => this.step(-1)],
      ['o', 'open or close the item', () => this.press()],
      ['c', 'copy what the item says, or its output', () => this.copyItem()],
      [']', 'next prompt', () => this.turn(1)],
      ['[', 'previous prompt', () => this.turn(-1)],
      ['O', 'to the outline of prompts', () => this.toOutline()],
      ['/', 'search this thread', () => this.field.select()],
      ['n', 'next match', () => this.match(1)],
      ['N', 'previous match', () => this.match(-1)],
      ['v', 'choose which items are shown', () => this.kind.focus()],
      ['f', 'follow what is new, or stop', () => this.toggleFollow()],
      ['G', 'to the end', () => this.toEnd()],
    ];
  }
}
