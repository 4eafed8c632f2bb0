// A list of which only what is near the view is in the document. Heights are measured when a row is there and estimated
// before; whatever changes above the view, the row that a person reads stays where it is.

/** Heights of rows, with their sums in logarithmic time (a Fenwick tree). */
class Heights {
  constructor(estimate) {
    this.estimate = estimate;
    this.count = 0;
    this.heights = new Float64Array(1024);
    this.tree = new Float64Array(1025);
  }

  grow(count) {
    if (count > this.heights.length) {
      const heights = new Float64Array(Math.max(count, 2 * this.heights.length));
      heights.set(this.heights);
      this.heights = heights;
      this.tree = new Float64Array(heights.length + 1);
    }
    this.heights.fill(this.estimate, this.count, count);
    this.count = count;
    this.add();
  }

  /** add makes the sums anew, in one pass: each node hands its sum to the next larger one that holds it. */
  add() {
    this.tree.set(this.heights, 1);
    for (let i = 1; i < this.tree.length; i++) {
      const up = i + (i & -i);
      if (up < this.tree.length) this.tree[up] += this.tree[i];
    }
  }

  /** add one row, in logarithmic time while there is room. */
  push() {
    if (this.count === this.heights.length) this.grow(this.count + 1);
    else this.set(this.count++, this.estimate);
  }

  get(i) {
    return this.heights[i];
  }

  set(i, height) {
    const delta = height - this.heights[i];
    if (delta === 0) return 0;
    this.heights[i] = height;
    for (let k = i + 1; k < this.tree.length; k += k & -k) this.tree[k] += delta;
    return delta;
  }

  /** before is where row i begins. */
  before(i) {
    let sum = 0;
    for (let k = i; k > 0; k -= k & -k) sum += this.tree[k];
    return sum;
  }

  get total() {
    return this.before(this.count);
  }

  /** at is the row that a distance from the top falls into. */
  at(offset) {
    let i = 0;
    for (let step = 2 ** Math.floor(Math.log2(this.tree.length - 1)); step >= 1; step /= 2) {
      if (i + step < this.tree.length && this.tree[i + step] <= offset) {
        i += step;
        offset -= this.tree[i];
      }
    }
    return Math.min(i, Math.max(0, this.count - 1));
  }
}

/** overscan is how far beyond the view rows are in the document, in pixels. */
const overscan = 700;

/** mostRows is how many rows are ever in the document, however tall the view claims to be. */
const mostRows = 400;

/** slack is how far from the end of the list still counts as at its end, in pixels. */
const slack = 32;

/**
 * WindowedList shows rows 0 … count-1 in a scroller.
 *   build(i)        the element of a row, or null while it is not known: then a placeholder of the estimated height is shown
 *   need(from, to)  rows that are in view or near it; called after each layout
 *   moved(atEnd)    after a scroll
 * following: the end stays in view as the list grows; scrolling up ends it, reaching the end begins it.
 */
export class WindowedList {
  constructor(scroller, holder, { estimate, build, need, moved = () => {} }) {
    Object.assign(this, { scroller, holder, build, need, moved });
    this.heights = new Heights(estimate);
    this.rows = new Map(); // row → element
    this.following = false;
    this.last = 0; // scrollTop as it was left
    this.frame = 0;
    this.sizes = new ResizeObserver(() => this.schedule());
    this.sizes.observe(scroller);
    this.onscroll = () => this.scrolled();
    scroller.addEventListener('scroll', this.onscroll, { passive: true });
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.sizes.disconnect();
    this.scroller.removeEventListener('scroll', this.onscroll);
  }

  get count() {
    return this.heights.count;
  }

  /** resize makes the list longer. */
  resize(count) {
    if (count === this.count + 1) this.heights.push();
    else if (count > this.count) this.heights.grow(count);
    else return;
    this.schedule();
  }

  /** refresh builds a row anew, if it is in the document; hidden rows take no place. */
  refresh(i) {
    const old = this.rows.get(i);
    if (old) {
      const focused = old.contains(document.activeElement);
      this.sizes.unobserve(old);
      const fresh = this.make(i);
      old.replaceWith(fresh);
      if (focused) fresh.focus({ preventScroll: true });
    }
    this.schedule();
  }

  /** hide takes a row out of the list; show gives it back. */
  hide(i) {
    if (this.heights.get(i) === 0) return;
    const at = this.anchor();
    this.heights.set(i, 0);
    this.drop(i);
    this.hold(at);
    this.schedule();
  }

  show(i) {
    if (this.heights.get(i) === 0) this.heights.set(i, this.heights.estimate);
    this.schedule();
  }

  /** choose shows the rows that keep(i) is true of, and no others. */
  choose(keep) {
    const at = this.anchor();
    const { heights, estimate } = this.heights;
    for (let i = 0; i < this.count; i++) heights[i] = keep(i) ? heights[i] || estimate : 0;
    this.heights.add();
    this.hold(at);
    this.schedule();
  }

  hidden(i) {
    return this.heights.get(i) === 0;
  }

  get atEnd() {
    return this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - slack;
  }

  follow(on) {
    this.following = on;
    if (on) this.toEnd();
  }

  toEnd() {
    this.pad(); // it may be longer since, and what is on the way there is not wanted
    this.scroll(this.scroller.scrollHeight);
    this.layout();
  }

  /** reveal brings a row into view: at the top, or where it is nearest. Neighbours are measured on the way. */
  reveal(i, { nearest = false } = {}) {
    this.following = false; // which a scroll at the end may have begun again, while what is revealed was read
    this.pad();
    for (let tries = 0; tries < 4; tries++) {
      const top = this.top + this.heights.before(i);
      const bottom = top + this.heights.get(i);
      const view = this.scroller.scrollTop;
      const height = this.scroller.clientHeight;
      let want = top - this.room;
      if (nearest && top >= view + 8 && bottom <= view + height - 8) want = view;
      else if (nearest && top >= view && bottom - top < height) want = bottom - height + 24;
      this.scroll(Math.max(0, want));
      this.layout();
      if (Math.abs(this.top + this.heights.before(i) - top) < 1 && this.rows.has(i)) break;
    }
    this.moved(this.atEnd);
    return this.rows.get(i);
  }

  /** first is the row at the top of the view. */
  get first() {
    return this.under(0);
  }

  /** lead is the row that is read first: what reveal brings into view begins there. */
  get lead() {
    return this.under(this.room + 1);
  }

  /** next is the nearest row after i, in that direction, that takes place; i itself at the ends. */
  next(i, by) {
    for (let k = i + by; k >= 0 && k < this.count; k += by) if (!this.hidden(k)) return k;
    return i;
  }

  // What follows is the machine.

  /** top is how far below the scroller's beginning the list begins. */
  get top() {
    return this.holder.offsetTop;
  }

  /** room is what reveal leaves above a row. */
  get room() {
    return Math.min(80, this.scroller.clientHeight / 5);
  }

  under(distance) {
    return this.heights.at(Math.max(0, this.scroller.scrollTop - this.top + distance));
  }

  scroll(to) {
    this.scroller.scrollTop = to;
    this.last = this.scroller.scrollTop;
  }

  scrolled() {
    const now = this.scroller.scrollTop;
    if (now < this.last - 1 && !this.atEnd) this.following = false;
    else if (this.atEnd) this.following = true;
    this.last = now;
    this.moved(this.atEnd);
    this.schedule();
  }

  schedule() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.layout();
    });
  }

  /** anchor is the row at the top of the view and where in the view it begins. */
  anchor() {
    const row = this.first;
    return { row, at: this.top + this.heights.before(row) - this.scroller.scrollTop };
  }

  /** hold puts that row back to where it was, or the end into view while it is followed. */
  hold({ row, at }) {
    this.pad();
    if (this.following) this.scroll(this.scroller.scrollHeight);
    else if (this.scroller.scrollTop > this.top) { // above the list nothing moves
      const off = this.top + this.heights.before(row) - this.scroller.scrollTop - at;
      if (Math.abs(off) >= 0.5) this.scroll(this.scroller.scrollTop + off);
    }
  }

  /** layout puts into the document what the view needs, and measures it; twice, as what is measured moves what is needed. */
  layout() {
    for (let pass = 0; pass < 2; pass++) {
      const at = this.anchor();
      const [from, to] = this.range();
      for (const [i] of this.rows) if (i < from || i >= to || this.hidden(i)) this.drop(i);
      let after = this.holder.firstElementChild;
      for (let i = from; i < to; i++) {
        if (this.hidden(i)) continue;
        const row = this.rows.get(i) ?? this.make(i);
        if (row === after) after = after.nextElementSibling;
        else this.holder.insertBefore(row, after);
      }
      let changed = 0;
      for (const [i, row] of this.rows) changed += Math.abs(this.heights.set(i, Math.max(1, row.getBoundingClientRect().height)));
      this.shown = [from, to];
      this.hold(at);
      if (changed < 1) break;
    }
    const [from, to] = this.shown;
    if (to > from) this.need(from, to);
  }

  range() {
    const view = this.scroller.scrollTop - this.top;
    const from = this.heights.at(Math.max(0, view - overscan));
    const end = Math.min(this.count, this.heights.at(Math.max(0, view + this.scroller.clientHeight + overscan)) + 1);
    let to = from;
    for (let rows = 0; to < end && rows < mostRows; to++) if (!this.hidden(to)) rows++;
    return [from, to];
  }

  pad() {
    const [from, to] = this.shown ?? [0, 0];
    this.holder.style.paddingTop = `${this.heights.before(from)}px`;
    this.holder.style.paddingBottom = `${this.heights.total - this.heights.before(to)}px`;
  }

  make(i) {
    let row = this.build(i);
    if (!row) {
      row = document.createElement('div');
      row.className = 'row pending';
      row.style.height = `${this.heights.estimate}px`;
      row.setAttribute('aria-hidden', 'true');
    }
    this.rows.set(i, row);
    this.sizes.observe(row);
    return row;
  }

  drop(i) {
    const row = this.rows.get(i);
    if (!row) return;
    if (row.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
    this.sizes.unobserve(row);
    row.remove();
    this.rows.delete(i);
  }
}
