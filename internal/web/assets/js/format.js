// Figures for people.

const integer = new Intl.NumberFormat('en-US');

/** whole is 12,345. */
export const whole = (n) => integer.format(n);

/** count is 12.3k. */
export function count(n) {
  if (n < 1000) return String(n);
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e3]]) {
    if (n >= size * 0.9995) {
      const x = n / size;
      return (x < 99.95 ? x.toFixed(1).replace(/\.0$/, '') : Math.round(x)) + unit;
    }
  }
}

/** bytes is 413.0 KB, in units of 1,000. */
export function bytes(n) {
  return n < 1000 ? `${n} bytes` : `${count(n).replace(/k$/, ' K').replace(/([MG])$/, ' $1')}B`;
}

/** duration of milliseconds: 8.4 s, 2 min 5 s, 3 h 20 min. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 59.95) return `${s.toFixed(1).replace(/\.0$/, '')} s`;
  const min = Math.floor(Math.round(s) / 60);
  if (min < 60) return [`${min} min`, Math.round(s) % 60 && `${Math.round(s) % 60} s`].filter(Boolean).join(' ');
  return [`${Math.floor(min / 60)} h`, min % 60 && `${min % 60} min`].filter(Boolean).join(' ');
}

/** ago says how long since a time in milliseconds. */
export function ago(then, now = Date.now()) {
  const s = Math.round((now - then) / 1000);
  if (s < 5) return 'now';
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 86400 * 60) return `${Math.floor(s / 86400)} d ago`;
  return new Date(then).toISOString().slice(0, 10);
}

/** until says how long to a time. */
export function until(then, now = Date.now()) {
  const ms = then - now;
  return ms <= 0 ? 'passed' : `in ${duration(Math.ceil(ms / 1000) * 1000)}`;
}

/** clock is the time of day. */
export const clock = (then) => new Date(then).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });

/** time in milliseconds of what an answer says: RFC 3339, or milliseconds; NaN for none. */
export function time(value) {
  if (typeof value === 'number') return value > 0 ? value : NaN;
  return value ? Date.parse(value) : NaN;
}

/** plural is "1 turn", "3 turns". */
export const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;
