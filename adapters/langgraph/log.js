// What one thread of LangGraph is, from the lines of its stream. A line that comes again, as it does when an answer was lost, changes
// nothing: a checkpoint is known by its id, a value by its checkpoint and channel, a write by its task and number.
//
//	{"put":{ns,id,parent,checkpoint,metadata,values}}   a checkpoint but for its channels, and what is new in it
//	{"writes":{ns,id,task,path,list:[[number,channel,value]…],kept}}
//	{"part":[of,number,count],"text":…}                a piece of a line that is too large for one append
//	{"prune":"latest"}                                 the last line of a stream: its next one has what is left
//
// A value is [type, text], or [type, base64, "b"], of LangGraph's serializer.
import { randomUUID } from "node:crypto";
import { TASKS, compareWritesSortKeys, writesSortKey } from "@langchain/langgraph-checkpoint";

const piece = 1 << 20; // characters: an append of JSON has at most 8 MiB, and quoting makes up to six bytes of one

/** The lines of what is to be appended: one, or its parts. */
export function* linesOf(what) {
  const text = JSON.stringify(what);
  if (text.length <= piece) {
    yield text;
    return;
  }
  const of = randomUUID();
  const count = Math.ceil(text.length / piece);
  for (let i = 0; i < count; i++) {
    yield JSON.stringify({ part: [of, i, count], text: text.slice(i * piece, (i + 1) * piece) });
  }
}

export class Log {
  #namespaces = new Map(); // ns -> id -> record
  #values = new Map(); // [ns, channel, version] -> the records that stored that version of it
  #parts = new Map();
  pruned = false;

  add(line) {
    if (line.put) this.#put(line.put);
    else if (line.writes) this.#write(line.writes);
    else if (line.part) this.#part(line.part, line.text);
    else if (line.prune) this.pruned = true;
  }

  namespaces() {
    return [...this.#namespaces.keys()];
  }

  /** The ids of a namespace's checkpoints, newest first. */
  ids(ns) {
    const found = [];
    for (const [id, record] of this.#namespaces.get(ns) ?? []) if (record.checkpoint && !record.partial) found.push(id);
    return found.sort().reverse();
  }

  get(ns, id) {
    const record = this.#namespaces.get(ns)?.get(id);
    return record?.checkpoint ? record : undefined;
  }

  /** What is stored of a checkpoint's channels, [channel, value] each. */
  *channels(record) {
    for (const [channel, value] of Object.entries(record.values)) {
      if (!Object.hasOwn(record.checkpoint.channel_versions, channel)) yield [channel, value];
    }
    for (const [channel, version] of Object.entries(record.checkpoint.channel_versions)) {
      const from = this.#holder(record, channel, version);
      if (from) yield [channel, from.values[channel]];
    }
  }

  // Two branches of a thread may give one version number to two values: then the nearest ancestor's counts.
  #holder(record, channel, version) {
    const holders = this.#values.get(JSON.stringify([record.ns, channel, version]));
    if (!holders || holders.length === 1) return holders?.[0];
    for (let at = record; at; at = this.get(at.ns, at.parent)) if (holders.includes(at)) return at;
    return holders[0];
  }

  /** The writes of a checkpoint as LangGraph applies them: {task, path, number, channel, value} each. */
  writes(record) {
    return [...record.writes.values()].sort((a, b) =>
      compareWritesSortKeys(writesSortKey(a.path, a.task, a.number), writesSortKey(b.path, b.task, b.number)),
    );
  }

  /**
   * What is left of it when each namespace keeps its latest checkpoint: that one whole, and of its ancestors the writes and values
   * from which a channel that stores no value of its own is put together. Those ancestors are read by their ids, and not listed.
   */
  *latest() {
    for (const ns of this.#namespaces.keys()) {
      const newest = this.get(ns, this.ids(ns)[0]);
      if (!newest) continue;
      const have = Object.fromEntries(this.channels(newest));
      const missing = new Set(Object.keys(newest.checkpoint.channel_versions).filter((channel) => !Object.hasOwn(have, channel)));
      if (newest.checkpoint.v < 4) missing.add(TASKS); // it has no value for them: they are its parent's writes
      const before = [];
      for (let at = this.get(ns, newest.parent); at && missing.size > 0; at = this.get(ns, at.parent)) {
        const values = Object.fromEntries([...this.channels(at)].filter(([channel]) => missing.has(channel)));
        before.push([...this.#left(at, values, missing)]);
        for (const channel of Object.keys(values)) missing.delete(channel);
        missing.delete(TASKS);
      }
      for (const left of before.reverse()) yield* left;
      yield* this.#left(newest, have);
    }
  }

  *#left(record, values, channels) {
    const { ns, id, parent, checkpoint, metadata } = record;
    yield { put: { ns, id, parent, checkpoint, metadata, values, partial: channels !== undefined } };
    for (const { task, path, number, channel, value } of this.writes(record)) {
      if (!channels || channels.has(channel)) yield { writes: { ns, id, task, path, list: [[number, channel, value]], kept: true } };
    }
  }

  #record(ns, id) {
    if (!this.#namespaces.has(ns)) this.#namespaces.set(ns, new Map());
    const of = this.#namespaces.get(ns);
    if (!of.has(id)) of.set(id, { ns, id, writes: new Map() });
    return of.get(id);
  }

  #put({ ns, id, parent, checkpoint, metadata, values, partial }) {
    const record = this.#record(ns, id);
    if (record.checkpoint) return;
    Object.assign(record, { parent, checkpoint, metadata, values, partial });
    for (const channel of Object.keys(values)) {
      const key = JSON.stringify([ns, channel, checkpoint.channel_versions[channel]]);
      this.#values.set(key, [...(this.#values.get(key) ?? []), record]);
    }
  }

  #write({ ns, id, task, path, list, kept: again }) {
    const { writes } = this.#record(ns, id);
    for (const [number, channel, value] of list) {
      const key = `${number} ${task}`;
      if (writes.has(key) && (number >= 0 || again)) continue; // an error, an interrupt and the like give way to the next one
      writes.set(key, { task, path, number, channel, value });
    }
  }

  #part([of, number, count], text) {
    if (!this.#parts.has(of)) this.#parts.set(of, new Array(count));
    const parts = this.#parts.get(of);
    parts[number] = text;
    if (!parts.includes(undefined)) {
      this.#parts.delete(of);
      this.add(JSON.parse(parts.join("")));
    }
  }
}
