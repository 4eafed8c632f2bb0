// The prompts of a thread: where its turns begin, and what each took. They are read from the newest back, as far as somebody looks.

import { get, query } from './api.js';
import { h } from './dom.js';
import { plural, whole } from './format.js';
import { turnFacts } from './rows.js';
import { textOf, typeOf } from './store.js';

/** page is how many prompts and ends of turns are asked for at a time. */
const page = 400;

/** Outline of the thread at base. go(n) brings a prompt into view, link(n) is its address; changed() is called when there are more. */
export class Outline {
  constructor({ base, signal, link, go, changed }) {
    Object.assign(this, { base, signal, link, go, changed });
    this.numbers = []; // of the items, in order
    this.next = null; // what was not read begins before this item; 0: nothing
    this.first = Infinity; // items from here on are in it
    this.last = 0; // the newest that came live
    this.ends = []; // of turns whose prompt was not read yet
    this.current = null;
    this.title = h('h2', { id: 'outline-title' });
    this.list = h('ol', { 'aria-labelledby': 'outline-title' });
    this.button = h('button.more', { type: 'button', hidden: true, onclick: () => this.more().catch(() => {}) }, 'Earlier prompts');
    this.root = h('div.outline', { hidden: true }, this.title, this.button, this.list);
  }

  get whole() {
    return this.next === 0;
  }

  /** more reads the prompts before those that are there. Of several callers one asks. */
  more() {
    this.reading ??= this.read().finally(() => { this.reading = null; });
    return this.reading;
  }

  async read() {
    const got = await get(`${this.base}/search` + query({ type: 'message,turn_end', limit: page, before: this.next }), { signal: this.signal });
    const { scrollTop, scrollHeight } = this.list;
    for (const m of got.matches) { // the newest first
      if (m.n >= this.first) continue; // it came live
      if (m.type === 'turn_end') this.ends.unshift(m.stats);
      else {
        const entry = this.entry(m.n, m.snippet);
        this.numbers.unshift(m.n);
        this.list.prepend(entry);
        for (const stats of this.ends.splice(0)) this.took(entry, stats);
      }
    }
    this.list.scrollTop = scrollTop + this.list.scrollHeight - scrollHeight;
    this.next = Number(got.next ?? 0);
    this.first = this.next || 1;
    this.show();
  }

  /** add takes an item that came live. */
  add(rec) {
    if (rec.n <= this.last) return;
    this.last = rec.n;
    this.first = Math.min(this.first, rec.n);
    if (typeOf(rec) === 'turn_end') {
      if (this.list.lastChild) this.took(this.list.lastChild, rec.item.metadata.stats);
      else this.ends.push(rec.item.metadata.stats);
    } else if (typeOf(rec) === 'user') {
      this.numbers.push(rec.n);
      this.list.append(this.entry(rec.n, textOf(rec).trim().split('\n', 1)[0].slice(0, 160)));
      this.show();
    }
  }

  /** took adds what a turn took to its prompt. */
  took(entry, stats) {
    const facts = turnFacts(stats);
    if (facts.length) entry.firstChild.append(h('span.turn-facts', facts.join(' · ')));
  }

  entry(n, text) {
    return h('li', h('a', {
      href: this.link(n), onclick: (e) => {
        if (e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
        e.preventDefault();
        this.go(n);
      },
    }, h('span.outline-text', text || 'Without text'), h('span.n', `#${n}`)));
  }

  show() {
    this.title.textContent = this.whole ? plural(this.numbers.length, 'prompt') : `${whole(this.numbers.length)}+ prompts`;
    this.button.hidden = this.whole;
    this.root.hidden = this.whole && !this.numbers.length;
    this.changed();
  }

  /** nearest is the prompt before item n, or after it (by 1); undefined for none. It reads on where that is not known. */
  async nearest(n, by) {
    while (!this.whole && !(this.numbers[0] < n)) await this.more();
    return by > 0 ? this.numbers.find((p) => p > n) : this.numbers.findLast((p) => p < n);
  }

  /** at marks the turn that item n is in, and says which one that is; '' where it is not known. */
  at(n) {
    const k = this.numbers.findLastIndex((p) => p <= n);
    const entry = this.list.children[k];
    if (entry !== this.current) {
      this.current?.firstChild.removeAttribute('aria-current');
      this.current = entry;
      entry?.firstChild.setAttribute('aria-current', 'location');
      if (entry && !this.list.contains(document.activeElement)) this.scroll();
    }
    if (k < 0) return '';
    if (this.whole) return `prompt ${whole(k + 1)} of ${whole(this.numbers.length)}`;
    const behind = this.numbers.length - 1 - k;
    return behind ? `${plural(behind, 'prompt')} before the last` : 'last prompt';
  }

  /** scroll brings the list where it was before it was taken out of the document, or to the turn that is in view. */
  scroll(to = this.current ? this.current.offsetTop - this.list.clientHeight / 2 : 0) {
    this.list.scrollTop = to;
  }

  focus() {
    (this.current ?? this.list.lastChild)?.firstChild.focus();
  }
}
