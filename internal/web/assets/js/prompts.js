// Questions that wait for a person, and their answers.

import { h, announce } from './dom.js';
import { post, path } from './api.js';
import { time } from './format.js';
import { ticking } from './ticking.js';

const nameKey = 'spool.name';

/** name of who answers, as it goes into the log. */
export const name = () => localStorage.getItem(nameKey) ?? '';

/** nameField asks who answers; it stays in this browser. */
export function nameField() {
  return h('label.name', 'Answering as ', h('input', {
    type: 'text', value: name(), placeholder: 'your name', autocomplete: 'name', maxlength: 80, spellcheck: 'false',
    oninput: (e) => localStorage.setItem(nameKey, e.target.value.trim()),
  }));
}

const kinds = { approval: 'Approval', ask_user_question: 'Question', text: 'Question' };

/** kindOf says what a prompt is, for people. */
export const kindOf = (p) => kinds[p.kind] ?? p.kind;

/** outcome says how a prompt was settled. */
function outcome(r) {
  const verb = { approved: 'Approved', denied: 'Denied', expired: 'Expired', answered: 'Answered' }[r.outcome] ?? r.outcome;
  const by = r.by === 'deadline' ? ' at its deadline' : r.by ? ` by ${r.by}` : '';
  return verb + by;
}

/** answerText is an answer for people; an approval's is its outcome. */
function answerText(r) {
  const a = r.answer;
  if (a === undefined || a === null || typeof a === 'boolean') return '';
  if (typeof a === 'string') return a;
  if (a.answers && typeof a.answers === 'object') {
    return Object.entries(a.answers).map(([q, v]) => `${q} ${Array.isArray(v) ? v.join(', ') : v}`).join('\n');
  }
  return JSON.stringify(a, null, 2);
}

/** options of a question, as {label, description, value}. */
function options(list) {
  if (!Array.isArray(list)) return [];
  return list.map((o) => (o && typeof o === 'object'
    ? { label: String(o.label ?? o.title ?? o.value ?? o.id ?? ''), description: o.description && String(o.description), value: o.value ?? o.id ?? o.label }
    : { label: String(o), value: o }));
}

/**
 * answering is the part of a prompt that takes its answer. done(resolution, first) is called when it is settled, first telling
 * whether by this answer.
 */
export function answering(p, done = () => {}) {
  const status = h('p.answer-state', { role: 'status' });
  if (p.resolution) return h('p.answer-state.settled', settledText(p.resolution));
  if (p.answerable === false) {
    return h('p.hint', 'Asked in a transcript: it is answered where the agent runs.');
  }
  if (p.overdue) return h('p.hint', p.kind === 'approval' ? 'Its deadline has passed: it counts as denied.' : 'Its deadline has passed.');

  const form = h('form.answer', { onsubmit: (e) => e.preventDefault() });
  const send = async (answer) => {
    for (const el of form.elements) el.disabled = true;
    status.textContent = 'Sending…';
    try {
      const by = name();
      const got = await post(path('sessions', p.session, 'threads', p.thread, 'prompts', p.id, 'answer'), { answer, by: by || undefined, life: p.life });
      settle(got.resolution, true);
    } catch (err) {
      if (err.status === 409 && err.body?.resolution?.outcome) {
        settle(err.body.resolution, false);
        return;
      }
      status.textContent = `The answer was not taken: ${err.message}`;
      for (const el of form.elements) el.disabled = false;
    }
  };
  const settle = (resolution, first) => {
    const text = first ? settledText(resolution) : `Somebody was first. ${settledText(resolution)}`;
    form.replaceChildren(h('p.answer-state.settled', text));
    announce(text);
    done(resolution, first);
  };
  form.append(...controls(p, send), status);
  return form;
}

function settledText(r) {
  const text = answerText(r);
  return outcome(r) + (text ? `: ${text}` : '');
}

function controls(p, send) {
  const body = p.prompt ?? {};
  if (p.kind === 'approval') {
    return [h('div.choices',
      h('button.yes', { type: 'button', onclick: () => send(true) }, 'Approve'),
      h('button.no', { type: 'button', onclick: () => send(false) }, 'Deny'))];
  }
  const questions = Array.isArray(body.questions) ? body.questions.filter((q) => q && typeof q === 'object') : [];
  if (questions.length) return questionnaire(p, questions, send);
  const choices = options(body.options ?? body.choices);
  return [
    choices.length > 0 && h('div.choices', choices.map((o) => choice(o, () => send(o.value)))),
    free(choices.length ? 'Something else' : 'Answer', (text) => send(text)),
  ].filter(Boolean);
}

function choice(o, onclick) {
  return h('button.choice', { type: 'button', onclick }, h('span.choice-label', o.label), o.description && h('span.choice-why', o.description));
}

function free(label, take) {
  const field = h('textarea', {
    rows: 1, 'aria-label': label, placeholder: label,
    onkeydown: (e) => {
      if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && field.value.trim()) take(field.value.trim());
    },
  });
  return h('div.free', field, h('button', { type: 'button', onclick: () => (field.value.trim() ? take(field.value.trim()) : field.focus()) }, 'Answer'));
}

/** questionnaire takes an answer to each question; a single one with a single choice needs no further button. */
function questionnaire(p, questions, send) {
  const text = (q) => String(q.question ?? q.header ?? 'Question');
  const answer = (values) => ({ answers: Object.fromEntries(questions.map((q, i) => [text(q), values[i]])) });
  if (questions.length === 1 && !questions[0].multiSelect) {
    const [q] = questions;
    return [
      text(q) !== p.text && h('p.question', text(q)),
      h('div.choices', options(q.options).map((o) => choice(o, () => send(answer([o.label]))))),
      free('Something else', (other) => send(answer([other]))),
    ].filter(Boolean);
  }
  const fields = questions.map((q, i) => {
    const group = `${p.thread}/${p.id}/${i}`;
    const other = h('input', { type: 'text', 'aria-label': `Something else: ${text(q)}`, placeholder: 'Something else' });
    const set = h('fieldset', h('legend', text(q)), options(q.options).map((o) => h('label.option',
      h('input', { type: q.multiSelect ? 'checkbox' : 'radio', name: group, value: o.label }),
      h('span', h('span.choice-label', o.label), o.description && h('span.choice-why', o.description)))), other);
    const value = () => {
      const picked = [...set.querySelectorAll('input:checked')].map((el) => el.value);
      if (other.value.trim()) picked.push(other.value.trim());
      return q.multiSelect ? picked : picked.at(-1);
    };
    return { set, value };
  });
  const submit = h('button.yes', {
    type: 'button',
    onclick: () => {
      const values = fields.map((f) => f.value());
      const open = values.findIndex((v) => v === undefined || v.length === 0);
      if (open >= 0) fields[open].set.querySelector('input').focus();
      else send(answer(values));
    },
  }, 'Answer');
  return [...fields.map((f) => f.set), submit];
}

/** deadline says how long there is left, and goes on saying it. */
export function deadline(p) {
  const at = time(p.deadline);
  return Number.isNaN(at) ? null : h('span.deadline', ticking('until', at));
}
