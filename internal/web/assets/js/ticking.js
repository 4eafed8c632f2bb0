// Times that stay true while one looks at them.

import { h } from './dom.js';
import { ago, until } from './format.js';

const forms = { ago, until };

/** ticking is a time that is said relative to now. */
export function ticking(form, at) {
  const el = h('time', { datetime: new Date(at).toISOString(), title: new Date(at).toLocaleString(), 'data-form': form }, forms[form](at));
  return el;
}

setInterval(() => {
  if (document.hidden) return;
  const now = Date.now();
  for (const el of document.querySelectorAll('time[data-form]')) {
    const text = forms[el.dataset.form](Date.parse(el.dateTime), now);
    if (el.textContent !== text) el.textContent = text;
  }
}, 1000);
