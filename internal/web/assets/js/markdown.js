// A subset of Markdown, as elements: headings, lists, quotes, tables, fenced code, code, strong, emphasis, links. HTML in it
// is text, an image is a link to it, and a link leads to http and https alone.

import { copyable, h } from './dom.js';
import { highlight } from './code.js';

/** longest is the longest text that is read as Markdown, in characters; a longer one is shown as it is. */
const longest = 60_000;

/** deepest is how many quotes and lists are read inside of each other. */
const deepest = 6;

/** markdown is a fragment. */
export function markdown(text) {
  const out = document.createDocumentFragment();
  if (text.length > longest) out.append(h('pre.plain', text));
  else out.append(...blocks(text.replaceAll('\r\n', '\n').split('\n'), 0));
  return out;
}

// Patterns are bounded, so that no text makes one of them run for long.
const fence = /^\s{0,3}(`{3,20}|~{3,20})\s{0,20}([\w+#.-]{0,40})[^`]*$/;
const bullet = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const rule = /^\s{0,3}([-*_])\s*(?:\1\s*){2,}$/;
const heading = /^\s{0,3}(#{1,6})\s+(.*)$/;
const columns = /^[ \t|:-]{1,500}$/;
const cells = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((c) => c.trim());

function blocks(lines, depth) {
  const out = [];
  let para = [];
  const flush = () => {
    if (para.length) out.push(h('p', inline(para.join('\n'))));
    para = [];
  };
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      flush();
      i++;
    } else if ((m = fence.exec(line))) {
      flush();
      const end = closing(lines, i + 1, m[1]);
      const code = lines.slice(i + 1, end).join('\n');
      out.push(copyable(h('pre.code', h('code', highlight(code, m[2]))), code, 'The code'));
      i = end + 1;
    } else if ((m = heading.exec(line))) {
      flush();
      out.push(h(`p.md-h.md-h${m[1].length}`, inline(m[2]))); // no real heading: the outline is the page's own
      i++;
    } else if (rule.test(line)) {
      flush();
      out.push(h('hr'));
      i++;
    } else if (/^\s{0,3}>/.test(line) && depth < deepest) {
      flush();
      const from = i;
      while (i < lines.length && /^\s{0,3}>/.test(lines[i])) i++;
      out.push(h('blockquote', blocks(lines.slice(from, i).map((l) => l.replace(/^\s{0,3}> ?/, '')), depth + 1)));
    } else if (bullet.test(line) && depth < deepest) {
      flush();
      i = list(lines, i, depth, out);
    } else if (line.includes('|') && columns.test(lines[i + 1] ?? '') && lines[i + 1].includes('|') && lines[i + 1].includes('--')) {
      flush();
      i = table(lines, i, out);
    } else {
      para.push(line.trim());
      i++;
    }
  }
  flush();
  return out;
}

function closing(lines, from, mark) {
  for (let i = from; i < lines.length; i++) {
    const t = lines[i].trim();
    if (t.startsWith(mark) && /^(`+|~+)$/.test(t)) return i;
  }
  return lines.length;
}

/** list reads the items at line i and appends the list; gives the line behind it. */
function list(lines, i, depth, out) {
  const [, space, mark] = bullet.exec(lines[i]);
  const ordered = /\d/.test(mark);
  const items = [];
  while (i < lines.length) {
    const m = bullet.exec(lines[i]);
    if (!m || m[1].length > space.length + 1 || m[1].length < space.length || /\d/.test(m[2]) !== ordered) break;
    const inner = m[1].length + m[2].length + 1;
    const body = [m[3]];
    for (i++; i < lines.length; i++) {
      const indent = lines[i].length - lines[i].trimStart().length;
      const blank = !lines[i].trim();
      if (blank && !/^\s{2,}\S/.test(lines[i + 1] ?? '')) break;
      if (!blank && indent <= space.length && (bullet.test(lines[i]) || lines[i - 1].trim() === '' || fence.test(lines[i]) || heading.test(lines[i]))) break;
      body.push(lines[i].slice(Math.min(indent, inner)));
    }
    const parts = blocks(body, depth + 1);
    items.push(h('li', parts.length && parts[0].tagName === 'P' ? [...parts[0].childNodes, ...parts.slice(1)] : parts));
    while (i < lines.length && !lines[i].trim() && bullet.test(lines[i + 1] ?? '')) i++;
  }
  out.push(ordered ? h('ol', { start: parseInt(mark, 10) }, items) : h('ul', items));
  return i;
}

function table(lines, i, out) {
  const head = cells(lines[i]);
  const rows = [];
  for (i += 2; i < lines.length && lines[i].includes('|') && lines[i].trim(); i++) rows.push(cells(lines[i]));
  out.push(h('div.table', { tabindex: 0, role: 'region', 'aria-label': 'Table' }, h('table',
    h('thead', h('tr', head.map((c) => h('th', { scope: 'col' }, inline(c))))),
    h('tbody', rows.map((r) => h('tr', head.map((_, k) => h('td', inline(r[k] ?? '')))))))));
  return i;
}

const spans = [
  [/(?<!`)(`{1,20})(?!`)([\s\S]{0,1000}?[^`])\1(?!`)/, (m) => h('code', m[2].replace(/^ (.*) $/, '$1'))],
  [/!?\[([^\]\n]{0,200})\]\(<?([^\s)>]{0,1000})>?(?:\s"[^"]{0,200}")?\)/, (m) => link(m[2], m[1] || m[2], m[0])],
  [/\bhttps?:\/\/[^\s<>"'`)\]]{0,1000}[^\s<>"'`)\].,;:!?]/, (m) => link(m[0], m[0], m[0])],
  [/\*\*(?=\S)([\s\S]{0,1000}?\S)\*\*/, (m, deep) => h('strong', inline(m[1], deep))],
  [/(?<![\w*])\*(?=[^\s*])([^*]{0,1000}[^\s*])\*(?![\w*])/, (m, deep) => h('em', inline(m[1], deep))],
  [/(?<![\w_])_(?=[^\s_])([^_]{0,1000}[^\s_])_(?![\w_])/, (m, deep) => h('em', inline(m[1], deep))],
  [/~~(?=\S)([\s\S]{0,1000}?\S)~~/, (m, deep) => h('del', inline(m[1], deep))],
];

// One scan finds the next span, whichever it is.
const any = new RegExp(spans.map(([re], i) => `(?<s${i}>${re.source.replaceAll('\\1', `\\k<t${i}>`).replace('(`{1,20})', `(?<t${i}>\`{1,20})`)})`).join('|'), 'g');

/** inline is a list of texts and elements. */
function inline(text, depth = 0) {
  if (depth > 4) return [text];
  const out = [];
  let at = 0;
  for (const m of text.matchAll(any)) {
    const which = spans.findIndex((_, i) => m.groups[`s${i}`] !== undefined);
    const [re, build] = spans[which];
    out.push(text.slice(at, m.index), build(re.exec(m[0]) ?? [m[0], m[0], m[0]], depth + 1));
    at = m.index + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}

/** link is an element, or the text as it was written when its address is none of the web. */
function link(address, label, source) {
  if (!/^https?:\/\//i.test(address)) return source;
  return h('a.out', { href: address, target: '_blank', rel: 'noopener noreferrer', title: address }, label);
}
