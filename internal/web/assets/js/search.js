// Search: whatever anybody said, a tool was asked and a tool printed, in all sessions that the token may read.

import { h, marked } from './dom.js';
import { get, path, query } from './api.js';
import { plural, time } from './format.js';
import { harnessName, nameOf } from './sessions.js';
import { ticking } from './ticking.js';

/** first is how many items are asked for, and most how many one answer has. */
const first = 100;
const most = 1000;

/** named is how many sessions are asked for their names. */
const named = 30;

const roles = [['', 'Anybody'], ['user', 'People'], ['assistant', 'Agents'], ['tool', 'Tools'], ['system', 'System']];
const times = [['', 'Any time'], ['24h', 'Last 24 hours'], ['7d', 'Last 7 days'], ['30d', 'Last 30 days']];

/** open gives a view of what the address asks for, as app.js wants one. */
export async function open({ query: q, signal }) {
  return new Search(q, signal);
}

class Search {
  constructor(q, signal) {
    this.title = 'Search';
    this.signal = signal;
    this.limit = first;
    this.names = new Map(); // session → what it is known by
    const soon = () => {
      this.limit = first;
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.read(), 200);
    };
    const text = (name, label, list) => h('input', { type: 'search', name, value: q.get(name) ?? '', placeholder: label, 'aria-label': label, autocomplete: 'off', spellcheck: 'false', list, oninput: soon });
    const choice = (name, label, all) => {
      const el = h('select', { name, 'aria-label': label, onchange: soon }, all.map(([value, says]) => h('option', { value }, says)));
      el.value = q.get(name) ?? '';
      if (el.selectedIndex < 0) el.append(h('option', { value: q.get(name), selected: true }, q.get(name))); // an address that somebody wrote
      return el;
    };
    this.field = text('q', 'Search everything that was said and printed');
    this.filters = [choice('role', 'Who said it', roles), text('tool', 'Tool'), text('cwd', 'Project directory', 'projects'), choice('since', 'When', times)];
    this.projects = h('datalist', { id: 'projects' });
    this.state = h('p.hint', { role: 'status' });
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    this.groups = h('div.search-groups');
    this.more = h('button', { type: 'button', hidden: true, onclick: () => {
      this.limit = most;
      this.read();
    } }, 'Show more');
    this.root = h('div.search', { onkeydown: (e) => this.key(e) }, h('h1', 'Search'),
      h('form', { role: 'search', onsubmit: (e) => {
        e.preventDefault();
        this.enter();
      } }, h('div.asked', this.field, h('button', { type: 'submit' }, 'Search')), h('div.filters', this.filters), this.projects),
      this.state, this.problem, this.groups, this.more);
  }

  start() {
    this.field.focus();
    this.field.select();
    this.read();
  }

  get asked() {
    return Object.fromEntries([this.field, ...this.filters].map((el) => [el.name, el.value.trim()]));
  }

  async read() {
    clearTimeout(this.typing);
    const { asked, limit } = this;
    const key = JSON.stringify([asked, limit]);
    this.reading = key;
    history.replaceState(history.state, '', '/search' + query(asked));
    if (!Object.values(asked).some(Boolean)) {
      this.show([], asked);
      this.state.textContent = 'Words, or beginnings of words: what has all of them is found, in prompts, answers, thinking, calls of tools and what these printed.';
      return;
    }
    this.state.textContent = 'Searching…';
    try {
      const got = await get('/v1/search' + query({ ...asked, limit }), { signal: this.signal });
      if (this.reading !== key) return;
      this.show(got.matches, asked);
      const behind = got.incomplete ? ' The index is being built: what is newer is not in it yet.' : '';
      const found = got.matches.length;
      const count = `${plural(found, 'item')}${found === limit ? ' or more' : ''} in ${plural(this.groups.children.length, 'session')}, the newest first.`;
      this.state.textContent = (found ? count : behind ? 'Nothing found so far.' : 'Nothing that was said or printed is like that.') + behind;
      this.more.hidden = found < limit || limit >= most;
      if (behind) this.typing = setTimeout(() => this.read(), 3_000);
    } catch (err) {
      if (this.signal.aborted || this.reading !== key) return;
      this.show([], asked);
      this.state.textContent = '';
      this.problem.hidden = false;
      this.problem.textContent = err.status === 404 ? `There is no search here: ${err.message}.` : `That could not be searched for: ${err.message}`;
    }
  }

  show(matches, asked) {
    this.problem.hidden = true;
    this.more.hidden = true;
    const groups = Map.groupBy(matches, (m) => m.session);
    this.groups.replaceChildren(...[...groups].map(([session, list]) => this.group(session, list, asked.q)));
    this.projects.replaceChildren(...[...new Set(matches.map((m) => m.cwd).filter(Boolean))].map((cwd) => h('option', { value: cwd })));
    this.name([...groups.keys()].slice(0, named));
  }

  group(session, list, q) {
    const facts = [harnessName(list[0]), list[0].host, list[0].cwd].filter(Boolean).join(' · ');
    return h('section.search-group', { 'data-session': session },
      h('h2', h('a', { href: `/s/${encodeURIComponent(session)}` }, this.names.get(session) ?? session)),
      facts && h('p.hint', facts),
      h('ol', list.map((m) => hit(m, q))));
  }

  /** name writes what sessions are known by over them: an item that was found does not tell. */
  async name(sessions) {
    for (const session of sessions.filter((s) => !this.names.has(s))) {
      try {
        this.names.set(session, nameOf(await get(path('sessions', session), { signal: this.signal })));
      } catch {
        if (this.signal.aborted) return;
        this.names.set(session, session); // it is gone, or it has no name: its id is one
      }
      const link = [...this.groups.children].find((el) => el.dataset.session === session)?.querySelector('h2 a');
      if (link) link.textContent = this.names.get(session);
    }
  }

  /** enter searches at once, or opens the first item that was found for these words. */
  enter() {
    const key = JSON.stringify([this.asked, this.limit]);
    if (this.reading === key && this.groups.querySelector('.hit')) this.groups.querySelector('.hit').click();
    else this.read();
  }

  step(by) {
    const all = [...this.groups.querySelectorAll('.hit')];
    const at = all.indexOf(document.activeElement);
    if (at + by < 0) this.field.focus();
    else all[Math.min(all.length - 1, at + by)]?.focus();
  }

  key(e) {
    if (e.target.matches('select') || e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    if (e.key === 'ArrowDown' && (e.target === this.field || e.target.matches('.hit'))) this.step(1);
    else if (e.key === 'ArrowUp' && e.target.matches('.hit')) this.step(-1);
    else if (e.key === 'Escape' && e.target.matches('.hit')) this.field.select();
    else if (e.key === 'Escape' && e.target.matches('input') && e.target.value) {
      e.target.value = '';
      this.read();
      e.stopPropagation(); // it stays, to be typed in
    } else return;
    e.preventDefault();
  }

  get keys() {
    return [
      ['/', 'search', () => this.field.select()],
      ['j', 'next item (↓)', () => this.step(1)],
      ['k', 'previous item (↑)', () => this.step(-1)],
    ];
  }
}

const who = { message: 'Prompt', text: 'Agent', thinking: 'Thinking', pending_prompt: 'Question', pending_prompt_resolved: 'Answer', status: 'Status', turn_end: 'End of turn' };

function hit(m, q) {
  const at = time(m.time);
  const says = m.type === 'tool_call' || m.type === 'tool_result' ? m.tool || 'Tool' : who[m.type] ?? m.type;
  const result = m.type === 'tool_result' && (m.failed ? 'failed' : 'printed');
  return h('li', h('a.hit', { href: `/s/${encodeURIComponent(m.session)}/${encodeURIComponent(m.thread)}` + query({ n: m.n, q }) },
    h('span.hit-who', h('strong', says), result && h(`span.${m.failed ? 'bad' : 'hint'}`, ` ${result}`)),
    h('span.hit-text', marked(m.snippet, q)),
    h('span.hint.hit-where', m.thread !== 'main' && `${m.thread} `, `#${m.n}`, !Number.isNaN(at) && [' · ', ticking('ago', at)])));
}
