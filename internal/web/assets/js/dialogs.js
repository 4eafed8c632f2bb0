// What is asked and told in front of a view: keys, where to go, a token.

import { h } from './dom.js';
import { listed } from './api.js';
import { harnessName, nameOf, stateOf } from './sessions.js';

/** modal shows a dialog and gives its return value when it is closed. */
function modal(label, ...children) {
  const dialog = h('dialog', { 'aria-label': label }, children);
  document.body.append(dialog);
  return {
    dialog,
    shown: new Promise((resolve) => {
      dialog.addEventListener('close', () => {
        dialog.remove();
        resolve(dialog.returnValue);
      });
      dialog.addEventListener('click', (e) => e.target === dialog && dialog.close());
      dialog.showModal();
    }),
  };
}

/** showKeys lists what the keys do: groups of [title, [[key, what]]]. */
export function showKeys(groups) {
  const close = h('button', { type: 'button' }, 'Close');
  const { dialog } = modal('Keys', h('h2', 'Keys'), groups.map(([title, keys]) => [
    h('h3', title), h('dl.keys', keys.map(([key, what]) => [h('dt', h('kbd', key)), h('dd', what)])),
  ]), h('p.end', close));
  close.addEventListener('click', () => dialog.close());
}

/** askToken asks for the token of this server; null when none is given. */
export async function askToken(reason) {
  const field = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, 'aria-label': 'Token' });
  const form = h('form', { method: 'dialog' },
    h('h2', 'Token'), h('p', `${reason} It is kept until this tab is closed.`), field,
    h('p.end', h('button.yes', { value: 'yes' }, 'Continue')));
  const { shown } = modal('Token', form);
  return (await shown) === 'yes' ? field.value.trim() || null : null;
}

/** goTo asks where to go: an item of this thread by its number, or a session by its words. It gives an address, or null. */
export async function goTo({ items }) {
  const field = h('input', {
    type: 'text', 'aria-label': 'Where to', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'places', autocomplete: 'off', spellcheck: 'false',
    placeholder: items ? 'Number of an item, or words of a session' : 'Words of a session',
  });
  const list = h('ul.places', { id: 'places', role: 'listbox', 'aria-label': 'Places' });
  const told = h('p.hint', { role: 'status' });
  const { dialog, shown } = modal('Go to', field, list, told);
  let places = [];
  let at = 0;
  let entered = false; // before the list of what is typed came: what comes first in it is meant
  const choose = (place) => {
    dialog.returnValue = place.href;
    dialog.close(place.href);
  };
  const draw = () => {
    list.replaceChildren(...places.map((p, i) => h('li', { id: `place-${i}`, role: 'option', 'aria-selected': String(i === at), onclick: () => choose(p) }, p.label, h('span.hint', p.note))));
    field.setAttribute('aria-activedescendant', places.length ? `place-${at}` : '');
    list.children[at]?.scrollIntoView({ block: 'nearest' });
  };
  let asked = 0;
  const look = async () => {
    const mine = ++asked;
    const q = field.value.trim();
    const item = items && /^#?(\d+)$/.exec(q);
    places = item ? [{ href: items(Number(item[1])), label: `Item ${item[1]}`, note: ' of this thread' }] : []; // needs no server
    at = 0;
    entered = false;
    told.textContent = '';
    draw();
    let nothing = 'Nothing found.';
    try {
      const { sessions } = await listed(q, 12);
      if (mine !== asked) return;
      places.push(...sessions.map((s) => ({ href: `/s/${encodeURIComponent(s.id)}`, label: nameOf(s), note: ` ${[stateOf(s), harnessName(s), s.host].filter(Boolean).join(' · ')}` })));
    } catch (e) {
      if (mine !== asked) return;
      nothing = `Sessions could not be read: ${e.message}`;
    }
    told.textContent = places.length ? '' : nothing;
    draw();
    if (entered && places.length) choose(places[at]);
  };
  field.addEventListener('input', look);
  field.addEventListener('keydown', (e) => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      at = Math.max(0, Math.min(places.length - 1, at + (e.key === 'ArrowDown' ? 1 : -1)));
      draw();
    } else if (e.key === 'Enter') {
      e.preventDefault();
      if (places[at]) choose(places[at]);
      else entered = true;
    }
  });
  look();
  return (await shown) || null;
}
