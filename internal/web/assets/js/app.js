// The page: which view an address shows, what stays around it, and the keys.

import { announce, h } from './dom.js';
import { Refused, get, onUnauthorized, path, query } from './api.js';
import { plural } from './format.js';
import { askToken, goTo, showKeys } from './dialogs.js';
import { threadLink } from './sessions.js';
import * as compare from './compare.js';
import * as fleet from './fleet.js';
import * as thread from './thread.js';
import * as prompts from './history.js';
import * as search from './search.js';

const main = document.getElementById('main');
const link = document.getElementById('link');
const badge = document.getElementById('waiting');
const themeButton = document.getElementById('theme');

let current = null; // the view that is shown
let ending = new AbortController();
let waitingCount = 0;

/**
 * routes: an address → how its view is opened. A view has a root, a title and keys as [key, what it does, function]; start() is called
 * when it is in the document, and close() when it leaves.
 */
const routes = [
  [/^\/$/, (_, q, ctx) => fleet.open({ ...ctx, query: q.get('q') })],
  [/^\/history$/, (_, q, ctx) => prompts.open({ ...ctx, query: q.get('q') })],
  [/^\/search$/, (_, q, ctx) => search.open({ ...ctx, query: q })],
  [/^\/n\/([0-9a-f]+)$/, async ([hash], q, ctx) => {
    const place = await get(path('nodes', hash) + query({ session: q.get('s'), thread: q.get('t') }), ctx);
    return thread.open({ ...ctx, session: place.session, thread: place.thread, at: place.n + Number(q.get('i') ?? 0) });
  }],
  [/^\/s\/([^/]+)$/, async ([session], q, ctx) => {
    const open = (name) => thread.open({ ...ctx, session, thread: name, query: q.get('q') });
    const view = await open('main').catch(async (err) => {
      if (err.status !== 404) throw err;
      const { threads } = await get(path('sessions', session, 'threads'), ctx);
      return open(threads[0].thread);
    });
    history.replaceState(null, '', threadLink(session, view.thread) + location.search);
    return view;
  }],
  [/^\/s\/([^/]+)\/([^/]+)$/, ([session, name], q, ctx) => (q.has('with')
    ? compare.open({ ...ctx, session, thread: name, other: q.get('with') })
    : thread.open({ ...ctx, session, thread: name, at: Number(q.get('n')) || undefined, query: q.get('q') }))],
];

async function show({ keepFocus = false } = {}) {
  ending.abort();
  ending = new AbortController();
  const { signal } = ending;
  current?.close?.();
  current = null;
  link.hidden = true;
  const address = location.pathname;
  for (const a of document.querySelectorAll('[data-view]')) {
    const here = a.getAttribute('href') === address;
    if (here) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const slow = setTimeout(() => main.replaceChildren(h('p.loading', { role: 'status' }, 'Loading…')), 150);
  try {
    const [route, found] = routes.map(([re, open]) => [open, re.exec(address)]).find(([, m]) => m) ?? [];
    if (!route) throw new Error(`there is no view at ${address}`);
    const view = await route(found.slice(1).map(decodeURIComponent), new URLSearchParams(location.search), { signal, navigate, waiting });
    clearTimeout(slow);
    if (signal.aborted) return;
    current = view;
    view.onlink = linked;
    view.ontitle = retitle;
    main.replaceChildren(view.root);
    view.start?.();
    retitle();
    if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.focus();
    else if (!keepFocus && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  } catch (err) {
    clearTimeout(slow);
    if (signal.aborted) return;
    if (!(err instanceof Refused)) console.error(err);
    const gone = err.status === 404;
    main.replaceChildren(h('div.empty', { role: 'alert' },
      h('h1', gone ? 'Not there' : 'That did not work'), h('p', err.message),
      h('p', h('button', { type: 'button', onclick: () => show() }, 'Try again'), ' ', h('a', { href: '/' }, 'To the fleet'))));
    document.title = 'Spool';
  }
}

function retitle() {
  document.title = (waitingCount ? `(${waitingCount}) ` : '') + (current?.title ? `${current.title} – Spool` : 'Spool');
}

/** navigate goes to an address of this page. */
function navigate(address) {
  const to = new URL(address, location.href);
  if (to.href !== location.href) history.pushState(null, '', to);
  show();
}

document.addEventListener('click', (e) => {
  const a = e.target.closest?.('a[href]');
  if (e.defaultPrevented || !a || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || a.target) return;
  const to = new URL(a.href);
  if (to.origin !== location.origin || a.getAttribute('href').startsWith('#')) return;
  e.preventDefault();
  if (to.pathname === location.pathname && to.search === location.search && to.hash) document.getElementById(to.hash.slice(1))?.focus();
  else navigate(to);
});
addEventListener('popstate', () => show());

// What waits, wherever one is

function waiting(n) {
  if (n > waitingCount && !location.pathname.match(/^\/$/)) announce(`${plural(n, 'question')} waiting for you.`);
  waitingCount = n;
  badge.hidden = n === 0;
  badge.replaceChildren(String(n), h('span', ' waiting'));
  badge.setAttribute('aria-label', `${n} waiting for you`);
  retitle();
}

async function poll() {
  if (!(current?.keys && location.pathname === '/')) { // there the view itself does
    try {
      const got = await get('/v1/prompts');
      waiting(got.prompts.filter((p) => p.answerable !== false).length);
    } catch { /* the view says what is wrong */ }
  }
  setTimeout(poll, document.hidden ? 30_000 : 8_000);
}
poll();

function linked(state) {
  link.hidden = state === 'live';
  link.textContent = state instanceof Error ? 'not live' : 'connecting…';
}

// Light and dark

const themes = { '': ['Auto', ', light or dark as the system is'], light: ['Light', ''], dark: ['Dark', ''] };

function setTheme(theme) {
  localStorage.setItem('spool.theme', theme);
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  const [text, label] = themes[theme];
  themeButton.textContent = text;
  themeButton.setAttribute('aria-label', `Colours: ${text}${label}`);
}

function nextTheme() {
  const names = Object.keys(themes);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme ?? '') + 1) % names.length]);
}
const chosen = localStorage.getItem('spool.theme');
setTheme(chosen in themes ? chosen : '');
themeButton.addEventListener('click', nextTheme);

// Dense

const denseButton = document.getElementById('dense');

function setDense(on) {
  localStorage.setItem('spool.dense', on ? 'yes' : '');
  document.documentElement.toggleAttribute('data-dense', on);
  denseButton.setAttribute('aria-pressed', String(on));
}

const otherDense = () => setDense(!document.documentElement.hasAttribute('data-dense'));
setDense(localStorage.getItem('spool.dense') === 'yes');
denseButton.addEventListener('click', otherDense);

// Keys

async function goSomewhere() {
  const address = await goTo({ items: current?.items && ((n) => threadLink(current.session, current.thread, n)) });
  if (!address) return;
  const to = new URL(address, location.href);
  if (current?.items && to.pathname === location.pathname) current.goto(Number(to.searchParams.get('n')), { focus: true });
  else navigate(to);
}

const everywhere = [
  ['g', 'go to an item or a session', goSomewhere],
  ['u', 'to the fleet', () => navigate('/')],
  ['p', 'to the prompts of all sessions', () => navigate('/history')],
  ['s', 'search everything', () => navigate('/search')],
  ['/', 'search everything, where a view has no other box', () => navigate('/search')],
  ['t', 'light or dark', nextTheme],
  ['d', 'denser rows, or as they were', otherDense],
  ['?', 'these keys', () => showKeys([['Here', current?.keys ?? []], ['Everywhere', everywhere]].filter(([, keys]) => keys.length))],
];

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
  const typing = e.target.matches?.('input, textarea, select, [contenteditable]');
  if (e.key === 'Escape' && typing) e.target.blur();
  if (typing || document.querySelector('dialog[open]')) return;
  const bound = [...(current?.keys ?? []), ...everywhere].find(([key]) => key === e.key);
  if (!bound) return;
  e.preventDefault();
  bound[2]();
});

document.getElementById('help').addEventListener('click', everywhere.at(-1)[2]);
document.getElementById('goto').addEventListener('click', goSomewhere);

onUnauthorized(askToken);
show({ keepFocus: true });
