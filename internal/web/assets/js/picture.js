// Pictures. What a picture is, its bytes say: one of four raster formats, or it is not shown. Nothing in it can be a script.

import { h } from './dom.js';
import { bytes, path } from './api.js';

/** largest is the largest picture that is shown, in bytes. */
const largest = 24 << 20;

/** kept is how many pictures stay in memory. */
const kept = 40;

const addresses = new Map(); // of bytes → promise of an object URL

const formats = [
  ['image/png', (b) => b[0] === 0x89 && b[1] === 0x50 && b[2] === 0x4e && b[3] === 0x47],
  ['image/jpeg', (b) => b[0] === 0xff && b[1] === 0xd8 && b[2] === 0xff],
  ['image/gif', (b) => b[0] === 0x47 && b[1] === 0x49 && b[2] === 0x46 && b[3] === 0x38],
  ['image/webp', (b) => b[0] === 0x52 && b[1] === 0x49 && b[2] === 0x46 && b[3] === 0x46 && b[8] === 0x57 && b[9] === 0x45],
];

async function checked(blob) {
  const head = new Uint8Array(await blob.slice(0, 16).arrayBuffer());
  const format = formats.find(([, is]) => is(head));
  if (!format) throw new Error('not a PNG, JPEG, GIF or WebP');
  return URL.createObjectURL(new Blob([blob], { type: format[0] }));
}

async function fetched(hex) {
  const { blob, more } = await bytes(path('blobs', hex), largest);
  if (more) throw new Error('larger than 24 MiB');
  return (await blob.slice(0, 5).text()) === 'data:' ? decoded(await blob.text()) : checked(blob);
}

function decoded(data) {
  const base64 = /^data:[\w/+.-]*;base64,(.*)$/s.exec(data)?.[1] ?? data;
  const text = atob(base64.replace(/\s+/g, ''));
  return checked(new Blob([Uint8Array.from(text, (c) => c.charCodeAt(0))]));
}

function address(data) {
  if (!addresses.has(data)) {
    if (addresses.size >= kept) {
      const [oldest, url] = addresses.entries().next().value;
      addresses.delete(oldest);
      url.then(URL.revokeObjectURL, () => {});
    }
    const hex = /^blob:sha256:([a-f0-9]{64})$/.exec(data)?.[1];
    addresses.set(data, hex ? fetched(hex) : Promise.resolve().then(() => decoded(data)));
  }
  return addresses.get(data);
}

/** source is where a part of an item has the bytes of its picture: a blob ref, base64 or a data URL; null for none. */
export function source(part) {
  const data = part?.data ?? part?.source?.data ?? part?.image_url?.url ?? part?.image_url ?? part?.url;
  return typeof data === 'string' ? data : null;
}

/** picture shows one, when it is there and is one. */
export function picture(data) {
  const frame = h('figure.picture', h('span.hint', 'Loading a picture…'));
  address(data).then(
    (url) => frame.replaceChildren(h('img', { src: url, alt: 'Picture in this item', loading: 'lazy' })),
    (err) => frame.replaceChildren(h('span.hint', `A picture that cannot be shown: ${err.message}.`)));
  return frame;
}
