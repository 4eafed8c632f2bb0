// What an item of a thread looks like.

import { copyable, h } from './dom.js';
import { bytes, clock, count, duration, plural, time, whole } from './format.js';
import { ansi, stripped } from './ansi.js';
import { difference, highlight, isPatch, language, patch } from './code.js';
import { markdown } from './markdown.js';
import { picture, source } from './picture.js';
import { answering, deadline, kindOf } from './prompts.js';
import { textOf, typeOf } from './store.js';

/** Of a text longer than this the first lines are shown, and the rest when it is asked for. */
const clip = { lines: 24, chars: 6_000 };

/** most of a text that is shown at all, in characters. */
const most = 2_000_000;

/**
 * row is the element of an item. view gives what it needs to know of the thread:
 *   part(n), folded(n)       as Items has them
 *   opened(n, key, usual)    whether a part of a row is open; open(n, key, on) says so
 *   running(n)               whether a call without a result is still at work; null when that is not known
 *   full(n), fullState(n)    reads an item as it was before a cut: undefined, 'loading' or an error
 *   prompt(id)               a prompt of this thread that waits; null when that is not known
 *   download(id, button)     saves an artifact
 *   permalink(rec), copy(a)  the link of an item; copies it
 *   get(n), count            another item, if it is there; of items
 */
export function row(rec, view) {
  const type = typeOf(rec);
  const build = builders[type] ?? other;
  const { body, label, classes = '' } = build(rec, view);
  const at = timeOf(rec);
  const el = h('article', {
    class: `row ${type in builders ? type : 'other'} ${classes}`, tabindex: -1, 'data-n': rec.n, 'aria-label': `${label}, item ${rec.n}`,
    'aria-posinset': rec.n, 'aria-setsize': view.count,
  },
  dayBefore(rec, at, view),
  h('div.gutter',
    !Number.isNaN(at) && h('time.at', { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString() }, clock(at)),
    h('a.n', { href: view.permalink(rec), title: 'Link to this item', 'aria-label': `Link to item ${rec.n}`, onclick: view.copy }, `#${rec.n}`)),
  h('div.body', body, pictures(rec), cutBanner(rec, view)));
  return el;
}

/** dayBefore is a line with the date where a day begins: at the first item, and where the one before is of another day. */
function dayBefore(rec, at, view) {
  const before = rec.n > 1 ? timeOf(view.get(rec.n - 1)) : 0;
  if (Number.isNaN(at) || Number.isNaN(before) || new Date(at).toDateString() === new Date(before).toDateString()) return null;
  return h('p.day', new Date(at).toLocaleDateString([], { weekday: 'short', year: 'numeric', month: 'short', day: 'numeric' }));
}

const timeOf = (rec) => time(rec?.time ?? rec?.item.created_at);

/** marker is a line between items that is none of them: where a fork begins. */
export function marker(...parts) {
  return h('p.marker', parts);
}

const builders = {
  user(rec) {
    const text = textOf(rec);
    const first = text.trim().split('\n', 1)[0].slice(0, 80);
    return { label: 'Prompt', body: [h('h3.who', 'Prompt', h('span.unseen', `: ${first}`)), h('div.prose', markdown(text))] };
  },

  text(rec) {
    return { label: 'Agent', body: [h('p.who', 'Agent'), h('div.prose', markdown(textOf(rec)))] };
  },

  thinking(rec, view) {
    const m = rec.item.metadata;
    const text = String(m.text ?? textOf(rec).replace(/^\[thinking\] /, ''));
    const open = view.opened(rec.n, 'thinking', false);
    return {
      label: 'Thinking',
      body: [
        toggle(view, rec.n, 'thinking', open, h('span.kind', 'Thinking'), h('span.arg', open ? '' : text.replace(/[*_`#]{1,6}/g, '').trim().slice(0, 300)),
          h('span.facts', m.full_text_length > 200 && `${count(m.full_text_length)} characters`)),
        open && h('div.prose.dim', markdown(text)),
      ],
    };
  },

  tool_call(rec, view) {
    const result = view.part(rec.n);
    const tool = rec.item.metadata.tool ?? {};
    const failed = result?.item.metadata.tool?.is_error === true;
    const running = result ? false : view.running(rec.n);
    const state = result ? (failed ? 'failed' : 'ok') : running ? 'running' : running === false ? 'no result' : '…';
    const usual = failed || isEdit(tool) ? true : false;
    const open = view.opened(rec.n, 'tool', usual);
    const output = result && outputOf(result);
    const from = time(rec.time);
    const to = result ? time(result.time) : NaN;
    return {
      label: `Tool ${tool.name ?? ''}, ${state}`,
      classes: `tool ${state === 'failed' ? 'failed' : ''}`,
      body: [
        toggle(view, rec.n, 'tool', open, h(`span.state.${state.replace(' ', '-')}`, { title: state }, h('span.unseen', state)), h('span.kind', { title: String(tool.name ?? '') }, String(tool.name ?? 'tool')),
          h('span.arg', open && tool.input && argument(rec).startsWith('{') ? '' : argument(rec)),
          h('span.facts', [to - from >= 50 && duration(to - from), output && lineCount(output), result && cutOf(result) && 'cut'].filter(Boolean).join(' · '))),
        open && h('div.tool-body',
          inputOf(tool, rec.n, view, argument(rec)),
          result && cutOf(result) && cutBanner(result, view),
          result && !(isEdit(tool) && !failed && output.length < 200) && (output ? text(output, 'output', rec.n, view, { terminal: true, failed }) : h('p.hint', 'No output.')),
          result && pictures(result),
          result && artifactOf(result, view),
          running && h('p.hint', 'No result yet.')),
      ],
    };
  },

  tool_result(rec, view) { // whose call is not there
    const tool = rec.item.metadata.tool ?? {};
    const failed = tool.is_error === true;
    const open = view.opened(rec.n, 'tool', failed);
    const output = outputOf(rec);
    return {
      label: `Result, ${failed ? 'failed' : 'ok'}`,
      classes: `tool ${failed ? 'failed' : ''}`,
      body: [
        toggle(view, rec.n, 'tool', open, h(`span.state.${failed ? 'failed' : 'ok'}`, h('span.unseen', failed ? 'failed' : 'ok')), h('span.kind', 'Result'),
          h('span.arg', textOf(rec).replace(/^→ /, '')), h('span.facts', lineCount(output))),
        open && h('div.tool-body', text(output, 'output', rec.n, view, { terminal: true, failed })),
      ],
    };
  },

  status(rec) {
    const m = rec.item.metadata;
    const compacted = m.status === 'compacting_context';
    const label = compacted ? 'Context compacted' : textOf(rec) || String(m.status ?? 'Status').replaceAll('_', ' ');
    return {
      label: `Status ${label}`,
      classes: compacted ? 'mark' : /error|fail|abort|interrupt/.test(m.status ?? '') ? 'bad' : '',
      body: h('p.line', h('span', label), m.detail && !label.includes(m.detail) && h('span.detail', String(m.detail))),
    };
  },

  turn_end(rec) {
    const facts = turnFacts(rec.item.metadata.stats);
    return { label: 'End of turn', body: h('p.line', h('span', 'End of turn'), facts.map((f) => h('span.detail', f))) };
  },

  pending_prompt(rec, view) {
    const asked = rec.item.metadata.prompt ?? {};
    const settled = view.part(rec.n);
    const waits = view.prompt(asked.id);
    const p = {
      ...waits, session: view.session, thread: view.thread, id: asked.id, kind: asked.kind, text: textOf(rec), prompt: asked, deadline: asked.deadline,
      resolution: settled?.item.metadata.resolution ?? waits?.resolution,
    };
    const open = waits && !p.resolution;
    return {
      label: p.resolution ? 'Settled question' : 'Question that waits',
      classes: open ? 'waits' : '',
      body: [
        h('p.who', kindOf(p), open && deadline(p)),
        h('div.prose', markdown(p.text)),
        p.resolution || waits ? answering(p) : waits !== null && h('p.hint', 'Not open any more.'),
      ],
    };
  },

  pending_prompt_resolved(rec) { // whose prompt is not there
    return { label: 'Settled question', body: [h('p.who', 'Question settled'), answering({ resolution: rec.item.metadata.resolution ?? {} })] };
  },
};

function other(rec) {
  return { label: typeOf(rec), body: [h('p.who', typeOf(rec).replaceAll('_', ' ')), h('div.prose', markdown(textOf(rec)))] };
}

function toggle(view, n, key, open, ...children) {
  return h('button.head', { type: 'button', 'aria-expanded': String(open), onclick: () => view.open(n, key, !open) }, children);
}

/** turnFacts are what a turn took, as its end told it: time, and tokens. */
export function turnFacts(stats) {
  const s = stats ?? {};
  const cached = s.input_tokens ? Math.round((100 * (s.input_tokens_cached ?? 0)) / s.input_tokens) : 0;
  return [
    s.duration_ms > 0 && duration(s.duration_ms),
    s.input_tokens > 0 && `${count(s.input_tokens)} tokens in${cached ? `, ${cached} % cached` : ''}`,
    s.output_tokens > 0 && `${count(s.output_tokens)} out`,
  ].filter(Boolean);
}

/** saidBy is what an item says, for the clipboard: the output of a call that has one. */
export function saidBy(rec, result) {
  const output = result ?? rec;
  return ['tool_call', 'tool_result'].includes(typeOf(rec)) ? stripped(outputOf(output)) || textOf(rec) : String(rec.item.metadata?.text ?? textOf(rec));
}

const outputOf = (rec) => {
  const out = rec.item.metadata.tool?.output;
  return out === undefined || out === null ? '' : typeof out === 'string' ? out : JSON.stringify(out, null, 2);
};

function lineCount(text) {
  if (!text) return '';
  let n = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < text.length - 1; at = text.indexOf('\n', at + 1)) n++;
  return n > 1 ? plural(n, 'line') : '';
}

/** argument is what a call's brief says behind the name of its tool. */
function argument(rec) {
  const brief = textOf(rec);
  const at = brief.indexOf(' → ');
  return at >= 0 ? brief.slice(at + 3) : '';
}

const isEdit = ({ input } = {}) => input && typeof input === 'object' && (typeof input.old_string === 'string' || Array.isArray(input.edits));

/** inputOf shows what a tool was asked to do, by the shape of its input: an edit, a file, a command, a patch, or its members. What
 *  the row's head says already is not said again. */
function inputOf(tool, n, view, said) {
  const { input } = tool;
  if (input === undefined || input === null) return null;
  if (typeof input === 'string') return text(input, 'input', n, view, { lang: '' });
  if (typeof input !== 'object') return text(JSON.stringify(input), 'input', n, view, {});
  const file = input.file_path ?? input.filePath ?? input.path ?? input.notebook_path;
  const name = typeof file === 'string' && file !== said && h('p.file', file);
  const edits = Array.isArray(input.edits) ? input.edits : [input];
  if (edits.length && edits.every((e) => typeof e?.old_string === 'string' && typeof e?.new_string === 'string')) {
    return [name, edits.map((e) => difference(e.old_string, e.new_string))];
  }
  if (typeof input.content === 'string' && typeof file === 'string') return [name, text(input.content, 'input', n, view, { lang: language(file) })];
  const asPatch = [input.patch, input.input, input.diff].find((p) => typeof p === 'string' && isPatch(p));
  if (asPatch) return [name, text(asPatch, 'input', n, view, {})];
  const command = input.command ?? input.cmd;
  const line = Array.isArray(command) ? command.join(' ') : command;
  const rest = Object.entries(input).filter(([key, value]) => value !== said && !(typeof line === 'string' && (key === 'command' || key === 'cmd')));
  if (Array.isArray(input.todos)) return h('ul.todos', input.todos.map(todo));
  return [
    typeof line === 'string' && line !== said && text(line, 'input', n, view, { lang: 'sh', prompt: true }),
    rest.length > 0 && h('dl.members', rest.map(([key, value]) => [h('dt', key), h('dd', member(value, `input.${key}`, n, view))])),
  ];
}

function todo(t) {
  const state = String(t?.status ?? 'pending');
  return h('li', { class: state }, h('span.unseen', `${state.replaceAll('_', ' ')}: `), String(t?.content ?? t?.text ?? t));
}

function member(value, key, n, view) {
  if (typeof value !== 'string') return h('code', value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value));
  return value.includes('\n') || value.length > 160 ? text(value, key, n, view, {}) : h('code', value);
}

/** text shows one that can be long: its beginning, and all of it when it is asked for. */
function text(value, key, n, view, { lang = '', terminal = false, prompt = false, failed = false }) {
  const all = view.opened(n, `all ${key}`, false);
  const [head, more] = all ? [value.slice(0, most), value.length > most] : beginning(value);
  const what = terminal ? 'The output' : prompt ? 'The command' : 'The text';
  const plain = terminal ? stripped(value) : value;
  const shown = copyable(isPatch(head) ? patch(head)
    : h(`pre.code${terminal ? '.output' : ''}${prompt ? '.command' : ''}${failed ? '.failed' : ''}`, terminal ? terminalText(head) : highlight(head, lang)), plain, what);
  if (!more) return shown;
  return h('div.clipped', shown, h('p.more', all
    ? `The first ${bytes(most)} of ${bytes(value.length)}.`
    : h('button.more', { type: 'button', onclick: () => view.open(n, `all ${key}`, true) }, `Show all (${lineCount(value) || bytes(value.length)})`)));
}

function terminalText(value) {
  if (value.length < 20_000 && /^\s*[{[]/.test(value)) {
    try { return highlight(JSON.stringify(JSON.parse(value), null, 2), 'json'); } catch { /* not JSON */ }
  }
  return ansi(value);
}

function beginning(value) {
  let at = -1;
  for (let i = 0; i < clip.lines; i++) {
    const next = value.indexOf('\n', at + 1);
    if (next < 0) {
      at = value.length;
      break;
    }
    at = next;
  }
  const end = Math.min(at, clip.chars);
  return value.length - end > 200 || lineCount(value.slice(end)) ? [value.slice(0, end), true] : [value, false];
}

function pictures(rec) {
  const parts = (rec.item.content ?? []).filter((p) => p && (p.type === 'image' || p.type === 'image_url'));
  return parts.map((p) => (source(p) ? picture(source(p)) : h('p.hint', '[image]')));
}

/** artifactOf offers all of an output that went to an artifact. */
function artifactOf(rec, view) {
  const ref = rec.item.metadata.artifact;
  const id = ref?.artifact_id ?? rec.item.metadata.artifact_id;
  if (!id) return null;
  return h('p.artifact', h('span.hint', 'The whole output is artifact '), h('code', String(id)), ' ',
    h('button.quiet', { type: 'button', onclick: (e) => view.download(String(id), e.currentTarget) }, 'Download'));
}

/** cutOf says which fields of an item were cut, and by how many bytes; null for none. */
function cutOf(rec) {
  const m = rec.item.metadata;
  if (rec.whole || !m?.truncated) return null;
  let removed = 0;
  const values = { 'tool.output': m.tool?.output, 'tool.input': m.tool?.input, text: m.text, 'content[0].text': rec.item.content?.[0]?.text };
  for (const field of m.truncated_fields ?? []) {
    const found = /…\[truncated (\d+) bytes; see [^\]]*\]…/.exec(typeof values[field] === 'string' ? values[field] : JSON.stringify(values[field]) ?? '');
    if (found) removed += Number(found[1]);
  }
  return { fields: m.truncated_fields ?? [], removed };
}

const fieldNames = { 'tool.output': 'the output', 'tool.input': 'the input', text: 'the text', 'content[0].text': 'the text' };

function cutBanner(rec, view) {
  const cut = cutOf(rec);
  if (!cut) return null;
  const state = view.fullState(rec.n);
  const what = [...new Set(cut.fields.map((f) => fieldNames[f] ?? f))].join(', ') || 'this item';
  return h('div.cut', { role: 'note' },
    h('p', h('strong', 'Cut for live readers: '), `${cut.removed ? `${bytes(cut.removed)} (${whole(cut.removed)} bytes) ` : 'a part '}of ${what} is left out here. All of it is stored.`),
    state instanceof Error && h('p.bad', `It could not be read: ${state.message}`),
    h('button', { type: 'button', disabled: state === 'loading', onclick: () => view.full(rec.n) }, state === 'loading' ? 'Loading…' : 'Load full'));
}
