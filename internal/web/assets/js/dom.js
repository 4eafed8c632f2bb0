// Elements. Text from anywhere becomes text nodes that read as they are written; addresses pass safe(), so that no scheme but
// these leads out of a page.

const schemes = /^(?:https?:\/\/|blob:|[/#?]|$)/i;

/** safe is the address, or null when its scheme is not one that a link may have. */
function safe(address) {
  const text = String(address).trim();
  return schemes.test(text) && !/^[/\\]{2}/.test(text) ? text : null;
}

/** plain is a text without what turns the direction of what stands behind it: it would be read as another one than it is. */
export const plain = (text) => String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, '·');

function set(el, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith('on')) el.addEventListener(name.slice(2), value);
  else if (name === 'href' || name === 'src') {
    const address = safe(value);
    if (address !== null) el.setAttribute(name, address);
  } else if (name === 'value' || name === 'checked' || name === 'open') el[name] = value;
  else el.setAttribute(name, value === true ? '' : plain(value));
}

function fill(el, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false) continue;
    if (Array.isArray(child)) fill(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return el;
}

function make(el, classes, attributes, children) {
  if (classes.length) el.setAttribute('class', classes.join(' '));
  for (const [name, value] of Object.entries(attributes)) set(el, name, value);
  return fill(el, children);
}

function split(rest) {
  const first = rest[0];
  const plain = first !== null && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first);
  return plain ? [first, rest.slice(1)] : [{}, rest];
}

/** h makes an element: h('p.note', {title: 'T', onclick: f}, 'text', child, [more]). Attributes may be left out. */
export function h(spec, ...rest) {
  const [name, ...classes] = spec.split('.');
  return make(document.createElement(name), classes, ...split(rest));
}

/** svg makes an element of a drawing, as h does. */
export function svg(spec, ...rest) {
  const [name, ...classes] = spec.split('.');
  return make(document.createElementNS('http://www.w3.org/2000/svg', name), classes, ...split(rest));
}

/** keyed makes the children of a parent those of a list, in its order. An element whose data did not change stays, with its
 *  focus and what was typed into it. */
export function keyed(parent, list, key, build) {
  const old = new Map([...parent.children].map((el) => [el.dataset.key, el]));
  let at = parent.firstElementChild;
  for (const one of list) {
    const id = key(one);
    const data = JSON.stringify(one);
    let el = old.get(id);
    old.delete(id);
    if (!el || el.keyedData !== data) {
      const fresh = build(one);
      fresh.dataset.key = id;
      fresh.keyedData = data;
      if (el) {
        const focused = el === document.activeElement || el.contains(document.activeElement);
        if (at === el) at = fresh;
        el.replaceWith(fresh);
        if (focused) (fresh.matches('a, button') ? fresh : fresh.querySelector('a, button'))?.focus();
      }
      el = fresh;
    }
    if (el === at) at = at.nextElementSibling;
    else parent.insertBefore(el, at);
  }
  for (const el of old.values()) el.remove();
}

/** marked is a text with the words set off that were looked for. */
export function marked(text, q) {
  const words = q.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  if (!words.length) return [text];
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return [text];
  const out = [];
  let at = 0;
  while (at < text.length) {
    const next = words.map((w) => [lower.indexOf(w, at), w]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0] || b[1].length - a[1].length)[0];
    if (!next) break;
    out.push(text.slice(at, next[0]), h('mark', text.slice(next[0], next[0] + next[1].length)));
    at = next[0] + next[1].length;
  }
  out.push(text.slice(at));
  return out;
}

const region = () => document.getElementById('announce');

/** announce tells a screen reader, politely. */
export function announce(text) {
  region().textContent = plain(text);
}

/** copyText puts a text into the clipboard, also where the page came over plain HTTP from another machine and may not write there itself. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h('textarea.unseen', { readonly: true, value: text });
  const before = document.activeElement;
  (document.querySelector('dialog[open]') ?? document.body).append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  before?.focus({ preventScroll: true });
  if (!done) throw new Error('the browser does not let the page copy');
}

/** copy puts a text into the clipboard, and says so: to a screen reader, and on the element that was used. */
export async function copy(text, what, el) {
  const told = (done) => {
    announce(done);
    if (!el) return;
    el.dataset.copied = done;
    setTimeout(() => { delete el.dataset.copied; }, 1200);
  };
  await copyText(text).then(() => told(`${what} is copied.`), (err) => told(`Not copied: ${err.message}`));
}

/** copyable is an element with a button that copies its text. */
export function copyable(el, text, what) {
  return h('div.copyable', el, h('button.copy', { type: 'button', 'aria-label': `Copy ${what.toLowerCase()}`, onclick: (e) => copy(text, what, e.currentTarget) }, 'Copy'));
}
