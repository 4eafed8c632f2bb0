// Output of terminals. Colours and weights become classes of a fixed set, everything else of the escapes is dropped.

import { h } from './dom.js';

// A control sequence; an operating system command, title or hyperlink, to its end; a two-character escape; other controls.
// eslint-disable-next-line no-control-regex
const escapes = /\x1b\[([0-9;:]*)([\x40-\x7e])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][0-9A-Za-z]|\x1b.?|\x9b[0-9;:]*[\x40-\x7e]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g;

const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const plain = () => ({ fg: null, bold: false, dim: false, italic: false, underline: false });

/** nearest is which of the eight colours another one is shown as: the page's own are readable in both themes, any other may not be. */
function nearest(r, g, b) {
  const most = Math.max(r, g, b);
  const least = Math.min(r, g, b);
  if (most - least < 40) return null; // grey: the text's own colour
  const on = (x) => (x - least > (most - least) / 2 ? 1 : 0);
  return on(r) + 2 * on(g) + 4 * on(b);
}

function fromCube(n) {
  if (n < 16) return n % 8;
  if (n > 231) return null;
  const level = (x) => (x ? 55 + 40 * x : 0);
  n -= 16;
  return nearest(level(Math.floor(n / 36)), level(Math.floor(n / 6) % 6), level(n % 6));
}

function apply(style, codes) {
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i];
    if (c === 0) Object.assign(style, plain());
    else if (c === 1) style.bold = true;
    else if (c === 2) style.dim = true;
    else if (c === 3) style.italic = true;
    else if (c === 4) style.underline = true;
    else if (c === 22) style.bold = style.dim = false;
    else if (c === 23) style.italic = false;
    else if (c === 24) style.underline = false;
    else if (c >= 30 && c <= 37) style.fg = c - 30;
    else if (c >= 90 && c <= 97) style.fg = c - 90;
    else if (c === 39) style.fg = null;
    else if (c === 38 || c === 48) { // 38;5;N and 38;2;R;G;B; backgrounds are read over
      const rgb = codes[i + 1] === 2;
      const colour = rgb ? nearest(codes[i + 2], codes[i + 3], codes[i + 4]) : fromCube(codes[i + 2]);
      if (c === 38) style.fg = colour ?? null;
      i += rgb ? 4 : 2;
    }
  }
}

function classes(style) {
  const list = [];
  if (style.fg !== null) list.push(`ansi-${names[style.fg]}`);
  for (const name of ['bold', 'dim', 'italic', 'underline']) if (style[name]) list.push(`ansi-${name}`);
  return list;
}

/** overwritten is what a terminal leaves of lines that carriage returns went back in. */
function overwritten(text) {
  if (!text.includes('\r')) return text;
  return text.split('\n').map((line) => {
    line = line.replace(/\r{1,9}$/, '');
    return line.slice(line.lastIndexOf('\r') + 1);
  }).join('\n');
}

/** ansi is the text, coloured: texts and elements. */
export function ansi(text) {
  const out = [];
  const style = plain();
  let at = 0;
  const put = (piece) => {
    if (!piece) return;
    const list = classes(style);
    out.push(list.length ? h(['span', ...list].join('.'), piece) : piece);
  };
  text = overwritten(text);
  for (const m of text.matchAll(escapes)) {
    put(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[2] === 'm') apply(style, m[1].split(/[;:]/).map(Number));
  }
  put(text.slice(at));
  return out;
}

/** stripped is the text without any escapes. */
export const stripped = (text) => overwritten(text).replace(escapes, '');
