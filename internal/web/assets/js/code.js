// Code and differences.

import { h } from './dom.js';

/** mostHighlighted is the longest text that is coloured, in characters. */
const mostHighlighted = 60_000;

const words = new Set(('abstract and as assert async await bool break case catch chan class const continue def default defer del do elif else enum ' +
  'except export extends extern false False finally float fn for from func function go goto if impl implements import in int interface is lambda let ' +
  'loop map match mod module mut namespace new nil None nonlocal not null number of or package pass private protected pub public raise range ref return ' +
  'select self static string struct super switch template this throw throws trait true True try type typedef typeof undefined union unsafe use using var ' +
  'virtual void where while with yield then fi esac done elif echo local').split(' '));

const families = {
  hash: new Set(['py', 'python', 'sh', 'bash', 'shell', 'zsh', 'console', 'yaml', 'yml', 'toml', 'rb', 'ruby', 'pl', 'r', 'ex', 'exs', 'dockerfile', 'makefile', 'mk', 'conf', 'ini', 'tf']),
  dash: new Set(['sql', 'lua', 'hs', 'elm', 'ada']),
  shell: new Set(['sh', 'bash', 'shell', 'zsh', 'console']),
  none: new Set(['', 'txt', 'text', 'md', 'markdown', 'log', 'csv', 'diff', 'patch', 'html', 'xml', 'svg']),
};

function comments(lang) {
  if (families.hash.has(lang)) return '#[^\\n]*';
  if (families.dash.has(lang)) return '--[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)';
  return '//[^\\n]*|/\\*[\\s\\S]*?(?:\\*/|$)';
}

const grammars = new Map();

function grammar(lang) {
  if (!grammars.has(lang)) {
    grammars.set(lang, new RegExp(`(?<comment>${comments(lang)})` +
      '|(?<string>"(?:[^"\\\\\\n]|\\\\.)*"?|\'(?:[^\'\\\\\\n]|\\\\.)*\'?|`[^`]*`?)' +
      '|(?<number>\\b(?:0[xXbBoO][0-9a-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b)' +
      '|(?<word>[A-Za-z_$][\\w$]*)', 'g'));
  }
  return grammars.get(lang);
}

/** language of a file, by its name: "" when it is not known. */
export function language(file) {
  const name = String(file || '').split(/[\\/]/).pop().toLowerCase();
  const dot = name.lastIndexOf('.');
  return dot > 0 ? name.slice(dot + 1) : name === 'dockerfile' || name === 'makefile' ? name : '';
}

/** highlight is the code as texts and elements, with its comments, strings, numbers and keywords marked: by one grammar that is nearly
 *  right for most languages. */
export function highlight(text, lang = '') {
  lang = lang.toLowerCase();
  if (families.none.has(lang) || text.length > mostHighlighted) return [text];
  const out = [];
  let at = 0;
  for (const m of text.matchAll(grammar(lang))) {
    const g = m.groups;
    const kind = g.comment ? 'comment' : g.string ? 'string' : g.number ? 'number' : words.has(m[0]) && !families.shell.has(lang) ? 'word' : null; // a shell's words are mostly commands
    if (!kind) continue;
    out.push(text.slice(at, m.index), h(`span.code-${kind}`, m[0]));
    at = m.index + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}

/** mostCompared is the largest table of a comparison, in cells; beyond it everything counts as changed. */
const mostCompared = 1_000_000;

/** compare gives the lines of two texts as [sign, line], sign being ' ', '-' or '+', by a longest common subsequence. */
function compare(before, after) {
  const a = before === '' ? [] : before.split('\n');
  const b = after === '' ? [] : after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const left = a.slice(head, a.length - tail);
  const right = b.slice(head, b.length - tail);
  return [
    ...a.slice(0, head).map((line) => [' ', line]),
    ...middle(left, right),
    ...a.slice(a.length - tail).map((line) => [' ', line]),
  ];
}

function middle(a, b) {
  if (a.length * b.length > mostCompared) return [...a.map((line) => ['-', line]), ...b.map((line) => ['+', line])];
  const wide = b.length + 1;
  const common = new Uint32Array((a.length + 1) * wide); // common[i,j]: of a from i and b from j
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * wide + j] = a[i] === b[j] ? common[(i + 1) * wide + j + 1] + 1 : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
    }
  }
  const out = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push([' ', a[i]]);
      i++, j++;
    } else if (i < a.length && (j === b.length || common[(i + 1) * wide + j] >= common[i * wide + j + 1])) out.push(['-', a[i++]]);
    else out.push(['+', b[j++]]);
  }
  return out;
}

/** around leaves of unchanged lines those next to a change; [null, N] stands for N that were left out. */
function around(lines, near = 3) {
  const keep = new Uint8Array(lines.length);
  lines.forEach(([sign], i) => sign !== ' ' && keep.fill(1, Math.max(0, i - near), i + near + 1));
  const out = [];
  for (let i = 0; i < lines.length;) {
    if (keep[i]) {
      out.push(lines[i++]);
      continue;
    }
    const from = i;
    while (i < lines.length && !keep[i]) i++;
    out.push([null, i - from]);
  }
  return out;
}

const lineClass = { '+': 'added', '-': 'removed', ' ': 'same', '@': 'hunk', '*': 'file' };

function row([sign, line]) {
  if (sign === null) return h('span.diff-line.hunk', `⋯ ${line} unchanged ${line === 1 ? 'line' : 'lines'}\n`);
  return h(`span.diff-line.${lineClass[sign]}`, (sign === '@' || sign === '*' ? '' : `${sign} `) + `${line}\n`);
}

/** difference shows what an edit changes. */
export function difference(before, after) {
  return h('pre.diff', around(compare(before, after)).map(row));
}

/** isPatch tells a unified diff or a patch of Codex from other text. */
export const isPatch = (text) => /^(?:diff --git |\*\*\* Begin Patch|--- .*\n\+\+\+ .*\n@@ )/m.test(text.slice(0, 4000));

/** patch shows a text that is a patch already. */
export function patch(text) {
  return h('pre.diff', text.replace(/\n$/, '').split('\n').map((line) => {
    if (/^(?:diff --git |index |--- |\+\+\+ |\*\*\* )/.test(line)) return row(['*', line]);
    if (line.startsWith('@@')) return row(['@', line]);
    return line[0] === '+' || line[0] === '-' ? row([line[0], line.slice(1)]) : row([' ', line.replace(/^ /, '')]);
  }));
}
