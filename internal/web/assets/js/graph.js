// The forks of a session, drawn: a lane for each thread, from where it begins to its head. The same is there as links.

import { h, svg } from './dom.js';
import { whole } from './format.js';
import { threadLink } from './sessions.js';

const wide = 232;
const lane = 26;
const left = 8;

/** drawing of a fork graph as the API gives it; null when nothing is forked. */
export function drawing(graph, here) {
  const nodes = graph.nodes.slice(0, 200);
  if (!nodes.some((n) => n.source)) return null;
  const key = (n) => `${n.session}/${n.thread}`;
  const lanes = order(nodes, key);
  const most = Math.max(1, ...nodes.map((n) => n.n));
  const x = (n) => left + ((wide - 2 * left) * Math.sqrt(n)) / Math.sqrt(most); // a root: short threads are seen beside long ones
  const y = (i) => lane * i + 18;
  const at = new Map(lanes.map((n, i) => [key(n), i]));
  const height = lanes.length * lane + 10;
  const isHere = (n) => n.session === here.session && n.thread === here.thread;
  return h('div.forks',
    svg('svg', { viewBox: `0 0 ${wide} ${height}`, width: wide, height, role: 'img', 'aria-label': `${nodes.length} threads and their forks; the list below says the same` },
      lanes.map((n, i) => {
        const from = n.source;
        const above = from && at.get(key(from));
        const begin = x(n.from_n);
        const end = Math.max(begin + 6, x(n.n));
        return svg('g', { class: isHere(n) ? 'lane here' : 'lane' },
          svg('title', `${n.thread}, ${whole(n.n)} items`),
          from && above !== undefined && svg('path', { d: `M${begin - 6} ${y(above)} C${begin} ${y(above)} ${begin - 6} ${y(i)} ${begin + 2} ${y(i)}`, class: 'branch' }),
          svg('line', { x1: begin, y1: y(i), x2: end, y2: y(i) }),
          svg('circle', { cx: end, cy: y(i), r: 4 }));
      })),
    h('ol.fork-list', lanes.map((n) => {
      const from = n.source;
      return h('li', h('a', { href: threadLink(n.session, n.thread), 'aria-current': isHere(n) ? 'page' : null }, n.session === here.session ? n.thread : `${n.session}/${n.thread}`),
        from && h('span.hint', ` from ${from.thread} at ${whole(n.from_n)}`));
    })));
}

/** order puts each fork below what it comes from. */
function order(nodes, key) {
  const children = new Map();
  const known = new Set(nodes.map(key));
  const roots = [];
  for (const n of nodes) {
    const above = n.source && key(n.source);
    if (above && known.has(above) && above !== key(n)) children.set(above, [...(children.get(above) ?? []), n]);
    else roots.push(n);
  }
  const out = [];
  const seen = new Set();
  const walk = (n) => {
    if (seen.has(key(n))) return;
    seen.add(key(n));
    out.push(n);
    for (const child of children.get(key(n)) ?? []) walk(child);
  };
  roots.forEach(walk);
  nodes.forEach(walk);
  return out;
}
