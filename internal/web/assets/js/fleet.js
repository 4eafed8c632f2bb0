// The first screen: who waits for a person, then every session by what it is doing.

import { announce, h, keyed } from './dom.js';
import { follow, get, listed, query } from './api.js';
import { count, plural, time } from './format.js';
import { answering, deadline, kindOf, nameField } from './prompts.js';
import { harnessName, isQuiet, nameOf, stateOf, states, threadLink, tokens, turns } from './sessions.js';
import { ticking } from './ticking.js';

/** first is how many sessions are listed before more are asked for. */
const first = 60;
const most = 1000; // sessions that one answer lists

/** Between two readings of the list: at least this long, and at most that, in milliseconds. */
const soon = 1_000;
const late = 15_000;

/** Between two counts of sessions by the server, and two looks at those far back, for which it reads very many, in milliseconds. */
const counted = 60_000;

/** stays is how long an answered prompt is shown before it goes, in milliseconds. */
const stays = 4_000;

/** open reads the fleet and gives a view of it, as app.js wants one. */
export async function open({ signal, query: words, waiting }) {
  const view = new Fleet(signal, words, waiting);
  await view.read();
  return view;
}

class Fleet {
  constructor(signal, words, waiting) {
    Object.assign(this, { signal, waiting });
    this.title = 'Fleet';
    this.limit = first;
    this.filter = { q: words ?? '', state: '' };
    this.sessions = [];
    this.far = { sessions: [], pages: 0 }; // of one state, behind where a reading of the list ends, and where they go on
    this.prompts = [];
    this.answered = new Map(); // key of a prompt → it, for as long as its answer is shown
    this.whole = true; // what is listed is all there is
    this.part = false; // there are more sessions than are listed, whatever their state is: then the server filters and counts
    this.counts = undefined; // what it counted
    this.current = -1;
    this.build();
  }

  build() {
    this.needs = h('ul.prompts');
    this.needsCount = h('span.count');
    this.nobody = h('p.empty', 'Nobody waits for you.');
    this.groups = h('div.groups');
    this.field = h('input', {
      type: 'search', placeholder: 'Filter sessions', 'aria-label': 'Filter sessions', value: this.filter.q, oninput: () => {
        this.filter.q = this.field.value.trim();
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.read(), 200);
      },
    });
    this.byProject = localStorage.getItem('spool.group') === 'project';
    this.grouping = h('button.quiet', { type: 'button', title: 'By project (b)', 'aria-pressed': String(this.byProject), onclick: () => this.group() }, 'By project');
    this.tabs = h('div.tabs', { role: 'group', 'aria-label': 'Sessions that are shown' });
    this.more = h('button.more', { type: 'button', hidden: true, onclick: () => this.readMore() }, 'More sessions');
    this.problem = h('p.problem', { role: 'alert', hidden: true });
    this.root = h('div.fleet',
      h('h1.unseen', 'Fleet'),
      this.problem,
      h('section.needs', { id: 'needs-you', 'aria-labelledby': 'needs-title', tabindex: -1 },
        h('div.section-head', h('h2', { id: 'needs-title' }, 'Needs you ', this.needsCount), nameField()),
        this.nobody, this.needs),
      h('section.sessions', { 'aria-labelledby': 'sessions-title' },
        h('div.section-head', h('h2', { id: 'sessions-title' }, 'Sessions'), this.tabs, this.grouping, this.field),
        this.groups, this.more));
  }

  /** start reads anew when heads move, not more often than is useful, and now and then in any case. */
  start() {
    let due = 0;
    let lastRead = Date.now();
    const again = (wait) => {
      clearTimeout(due);
      due = setTimeout(async () => {
        lastRead = Date.now();
        if (!document.hidden) await this.read();
        again(late);
      }, wait);
    };
    again(late);
    let moved = false;
    follow(() => '/v1/heads', {
      signal: this.signal,
      state: (s) => this.onlink?.(s),
      take: () => {
        if (moved || this.part && this.filter.state) return; // the server reads very many for a list of one state
        moved = true;
        setTimeout(() => {
          moved = false;
          again(0);
        }, Math.max(150, soon - (Date.now() - lastRead)));
      },
    });
    this.signal.addEventListener('abort', () => clearTimeout(due));
  }

  /** list says which list is shown. */
  list() {
    return `${this.part ? this.filter.state : ''} ${this.filter.q}`;
  }

  async read() {
    const state = this.part ? this.filter.state : '';
    const list = this.list();
    try {
      const [prompts, { sessions, next }] = await Promise.all([
        get('/v1/prompts', { signal: this.signal }),
        listed(this.filter.q, this.limit, this.signal, state),
      ]);
      this.take(prompts.prompts);
      if (this.list() !== list) return; // who went to another one had that read
      if (this.far.list !== list || !next) this.far = { list, sessions: [], pages: 0, next };
      else if (!this.far.pages) this.far.next = next;
      else if (Date.now() - this.far.at >= counted) await this.readFar(state, next);
      if (this.list() !== list) return;
      this.near = sessions;
      this.sessions = this.both();
      this.whole = !this.far.next;
      if (!state) this.part = !this.whole;
      this.countAll();
      this.more.hidden = this.whole || this.limit === most && !state;
      this.problem.hidden = true;
    } catch (err) {
      if (this.signal.aborted || this.list() !== list) return;
      this.problem.hidden = false;
      this.problem.textContent = `The list could not be read: ${err.message}. It is tried again.`;
    }
    this.draw();
  }

  /** readFar reads those far back again, as many pages of them as were asked for: some have left their state. */
  async readFar(state, next) {
    const was = this.far;
    const far = { ...was, sessions: [], pages: 0, at: Date.now(), next };
    for (; this.far === was && far.pages < was.pages && far.next; far.pages++) {
      const got = await listed(this.filter.q, this.limit, this.signal, state, far.next);
      far.sessions.push(...got.sessions);
      far.next = got.next;
    }
    if (this.far === was) this.far = far;
  }

  /** both are the sessions of the newest pages, and those far back that were read before. */
  both() {
    const near = new Set(this.near.map((s) => s.id));
    return [...this.near, ...this.far.sessions.filter((s) => !near.has(s.id))];
  }

  /** readMore lists more sessions. Of one state they may be far back: it goes on from where it came to. */
  async readMore() {
    const state = this.part ? this.filter.state : '';
    if (!state || this.near.length >= this.limit && this.limit < most) {
      this.limit = Math.min(this.limit * 3, most);
      this.far = { sessions: [], pages: 0 };
      return this.read();
    }
    const { far } = this;
    if (!far.pages++) far.at = Date.now();
    this.more.disabled = true;
    try {
      const { sessions, next } = await listed(this.filter.q, this.limit, this.signal, state, far.next);
      Object.assign(far, { sessions: [...far.sessions, ...sessions], next });
    } catch (err) {
      if (this.signal.aborted) return;
      this.problem.hidden = false;
      this.problem.textContent = `The list could not be read: ${err.message}.`;
    }
    this.more.disabled = false;
    if (far !== this.far) return;
    this.sessions = this.both();
    this.whole = !far.next;
    this.more.hidden = this.whole;
    this.draw();
  }

  /** countAll has the server count by state what is not all listed: not more often than is needed, since it reads many. */
  async countAll() {
    const q = this.filter.q;
    if (!this.part) this.counts = this.counted = undefined;
    if (!this.part || this.counted?.q === q && Date.now() - this.counted.at < counted) return;
    this.counted = { q, at: Date.now() };
    try {
      this.counts = await get('/v1/states' + query({ q, unanswered: 1 }), { signal: this.signal });
    } catch {
      this.counts = undefined; // then it is said that there are more than are listed
    }
    if (!this.signal.aborted && q === this.filter.q) this.drawTabs();
  }

  take(list) {
    const now = new Set(list.map(promptKey));
    const fresh = this.prompts.length ? list.filter((p) => !this.prompts.some((old) => promptKey(old) === promptKey(p))) : [];
    if (fresh.length) announce(`${plural(fresh.length, 'new question')} waiting for you.`);
    this.prompts = list;
    for (const key of this.answered.keys()) if (now.has(key)) list.splice(list.findIndex((p) => promptKey(p) === key), 1);
    this.waiting(list.filter((p) => p.answerable !== false).length);
  }

  draw() {
    this.drawNeeds();
    this.drawTabs();
    const shown = this.filter.state ? [this.filter.state] : states;
    const groups = [...Map.groupBy(this.sessions.filter((s) => shown.includes(stateOf(s))), (s) => (this.byProject ? `in ${s.cwd ?? ''}` : stateOf(s)))]
      .map(([key, list]) => ({ key, list }));
    if (!this.byProject) groups.sort((a, b) => states.indexOf(a.key) - states.indexOf(b.key));
    if (!groups.length) {
      if (!this.problem.hidden) return;
      this.groups.replaceChildren(this.sessions.length || this.filter.q || this.filter.state
        ? h('p.empty', this.whole ? 'No session is like that.' : 'None of the newest sessions is like that.')
        : h('div.empty', h('p', 'Nothing is stored yet. Sessions appear here as agents publish, or as transcripts are imported:'), h('pre.code', 'spool import ~/.claude/projects ~/.codex/sessions')));
      return;
    }
    for (const el of [...this.groups.children]) if (!el.dataset.key) el.remove();
    keyed(this.groups, groups.map((g) => g.key), (key) => key, (key) => h('section.group',
      h('h3', this.byProject ? h('span.cwd', key.slice(3) || 'Without a directory') : [h(`span.dot.${key}`), groupName[key]], ' ', h('span.count')), h('ul.rows')));
    groups.forEach((g, i) => {
      const el = this.groups.children[i];
      el.querySelector('.count').textContent = this.byProject ? this.atLeast(g.list.length) : this.numberOf(g.key);
      keyed(el.querySelector('.rows'), g.list, (s) => s.id, (s) => sessionRow(s, this.byProject));
    });
  }

  /** group shows sessions by their project, the one that moved last first, or by what they are doing. */
  group() {
    this.byProject = !this.byProject;
    localStorage.setItem('spool.group', this.byProject ? 'project' : 'state');
    this.grouping.setAttribute('aria-pressed', String(this.byProject));
    this.draw();
  }

  /** atLeast is a number of the sessions that are listed: there may be more of them where the list goes on. */
  atLeast(n) {
    return this.whole ? n : n ? `${n}+` : '';
  }

  /** numberOf is how many sessions are in a state, as far as that is known. */
  numberOf(state) {
    const c = this.counts;
    if (!c) return this.atLeast(this.sessions.filter((s) => stateOf(s) === state).length);
    const n = c.states[state] ?? 0;
    return !c.more ? n : n ? `${n}+` : '';
  }

  drawTabs() {
    const tab = (state, text) => h('button.tab', { type: 'button', 'aria-pressed': String(this.filter.state === state), onclick: () => { this.filter.state = state; this.draw(); if (this.part) this.read(); } }, text);
    const all = states.map((s) => [s, this.numberOf(s)]);
    const data = JSON.stringify([all, this.filter.state]);
    if (this.tabData === data) return;
    this.tabData = data;
    const focused = [...this.tabs.children].indexOf(document.activeElement);
    this.tabs.replaceChildren(tab('', 'All'), ...all.map(([s, n]) => tab(s, [groupName[s], ' ', h('span.count', n)])));
    this.tabs.children[focused]?.focus();
  }

  drawNeeds() {
    const due = (p) => time(p.deadline) || Infinity;
    const list = [...this.prompts, ...this.answered.values()].sort((a, b) => (due(a) === due(b) ? (time(a.asked_at) || 0) - (time(b.asked_at) || 0) : due(a) - due(b)));
    const open = list.filter((p) => !this.answered.has(promptKey(p)));
    this.needsCount.textContent = open.length || '';
    this.nobody.hidden = list.length > 0;
    this.needs.closest('section').classList.toggle('calm', open.length === 0);
    const names = new Map(this.sessions.map((s) => [s.id, s]));
    keyed(this.needs, list.map(({ overdue, ...p }) => ({ ...p, overdue, name: names.has(p.session) ? nameOf(names.get(p.session)) : p.session })), promptKey, (p) => this.card(p));
  }

  card(p) {
    const key = promptKey(p);
    const asked = time(p.asked_at);
    return h('li.prompt', { class: p.kind === 'approval' ? 'prompt approval' : 'prompt' },
      h('p.prompt-head', h('span.tag.warm', kindOf(p)), h('a', { href: threadLink(p.session, p.thread, p.n) }, p.name, p.thread === 'main' ? '' : ` / ${p.thread}`),
        h('span.facts', !Number.isNaN(asked) && ['asked ', ticking('ago', asked)], deadline(p) && [' · answer ', deadline(p)])),
      h('p.prompt-text', p.text),
      answering(p, () => {
        this.answered.set(key, p);
        setTimeout(() => {
          this.answered.delete(key);
          this.read();
        }, stays);
      }));
  }

  get keys() {
    const links = () => [...this.root.querySelectorAll('.prompt-head a, .session-link')];
    const step = (by) => {
      const all = links();
      const at = all.indexOf(document.activeElement);
      all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus();
    };
    return [
      ['j', 'next question or session', () => step(1)],
      ['k', 'previous question or session', () => step(-1)],
      ['f', 'filter sessions', () => this.field.select()],
      ['b', 'sessions by project, or by what they do', () => this.group()],
    ];
  }
}

const groupName = { waiting: 'Waiting', running: 'Running', failed: 'Failed', idle: 'Idle', done: 'Done' };

const promptKey = (p) => `${p.session}/${p.thread}/${p.id}`;

/** sessionRow is a session in a list by what they do, or with project in one by their directories. */
function sessionRow(s, project) {
  const at = time(s.modified);
  const name = nameOf(s);
  const prompt = s.title ? s.first_prompt : ''; // without a title the name is the prompt
  const facts = [harnessName(s), s.host, !project && s.cwd && h('span.cwd', { title: s.cwd }, s.cwd)].filter(Boolean);
  const figures = [turns(s), tokens(s), s.entries > 0 && `${count(s.entries)} entries`, s.threads > 1 && `${s.threads} threads`].filter(Boolean);
  return h('li.session',
    h('a.session-link', { href: `/s/${encodeURIComponent(s.id)}` },
      project && h(`span.dot.${stateOf(s)}`, { title: stateOf(s) }, h('span.unseen', stateOf(s))), h('span.session-title', name),
      s.prompts > 0 && h('span.tag.warm', plural(s.prompts, 'question'), ' waiting'),
      isQuiet(s) && h('span.tag', { title: 'It has said nothing for more than five minutes. It may be at work all the same.' }, 'quiet')),
    h('p.session-when', Number.isNaN(at) ? '' : ticking('ago', at)),
    prompt && h('p.session-prompt', prompt),
    h('div.session-meta', h('p.session-facts', joined(facts)), h('p.session-figures', joined(figures))));
}

const joined = (list) => list.flatMap((x, i) => (i ? [' · ', x] : [x]));
