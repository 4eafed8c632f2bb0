// Prompts across sessions: what was asked for, found again.

import { h, marked } from './dom.js';
import { get, query } from './api.js';
import { time } from './format.js';
import { harnessName, threadLink } from './sessions.js';
import { ticking } from './ticking.js';

const most = 100;

/** open reads the newest prompts, or those with the words, and gives a view, as app.js wants one. */
export async function open({ query: words, signal }) {
  const view = new Prompts(words ?? '', signal);
  await view.read();
  return view;
}

class Prompts {
  constructor(words, signal) {
    this.title = 'Prompts';
    this.signal = signal;
    this.field = h('input', {
      type: 'search', value: words, placeholder: 'Words of a prompt', 'aria-label': 'Words of a prompt', oninput: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.read(), 200);
      },
    });
    this.state = h('p.hint', { role: 'status' });
    this.list = h('ol.found-prompts');
    this.root = h('div.history', h('div.section-head', h('h1', 'Prompts'), this.field), this.state, this.list);
  }

  async read() {
    const q = this.field.value.trim();
    history.replaceState(history.state, '', '/history' + query({ q }));
    try {
      const got = await get('/v1/history' + query({ q, limit: most }), { signal: this.signal });
      if (q !== this.field.value.trim()) return;
      const list = got.prompts;
      this.state.textContent = list.length ? (q ? `${list.length}${list.length === most ? ' or more' : ''} found, newest first` : 'The newest first') : q ? 'No prompt has these words.' : 'Nobody has asked for anything yet.';
      this.list.replaceChildren(...list.map((p) => found(p, q)));
    } catch (err) {
      if (!this.signal.aborted) this.state.textContent = `The prompts could not be read: ${err.message}`;
    }
  }

  get keys() {
    const step = (by) => {
      const all = [...this.list.querySelectorAll('a')];
      const at = all.indexOf(document.activeElement);
      all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus();
    };
    return [
      ['j', 'next prompt', () => step(1)],
      ['k', 'previous prompt', () => step(-1)],
      ['/', 'search', () => this.field.select()],
    ];
  }
}

function found(p, q) {
  const at = time(p.time);
  const { text } = p;
  const link = threadLink(p.session, p.thread, p.n);
  return h('li', h('a', { href: link }, marked(text.length > 400 ? `${text.slice(0, 400)}…` : text, q)),
    h('p.hint', [harnessName(p), p.host, p.cwd].filter(Boolean).join(' · '), !Number.isNaN(at) && [' · ', ticking('ago', at)]));
}
