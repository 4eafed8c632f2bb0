// A checkpointer of LangGraph whose threads are streams of Spool. README.md says how they lie there.
import { createHash } from "node:crypto";
import {
  BaseCheckpointSaver, TASKS, WRITES_IDX_MAP, copyCheckpoint, getCheckpointId, maxChannelVersion,
} from "@langchain/langgraph-checkpoint";
import { Log, linesOf } from "./log.js";
import { StreamError, Streams } from "./streams.js";

const most = 4 << 20; // bytes of lines in one append

export class SpoolSaver extends BaseCheckpointSaver {
  #streams;
  #name;
  #cacheBytes;
  #index = { offset: undefined, threads: new Map(), reading: undefined }; // thread id -> {stream, gone}
  #open = new Map(); // stream -> {log, offset, bytes, reading}, the one used last at the end
  #bytes = 0;

  /**
   * url: where spool up, or spool ingest, answers HTTP; token: of a user that may write and read sessions whose names begin with
   * name; name: letters, digits and "-", "langgraph" unless given; cacheBytes: how much of streams is kept in memory, 64 MiB.
   */
  constructor({ url = "http://127.0.0.1:7717", token, name = "langgraph", cacheBytes = 64 << 20, patience, serde } = {}) {
    super(serde);
    if (!/^[A-Za-z0-9][A-Za-z0-9-]{0,31}$/.test(name)) throw new Error(`name ${JSON.stringify(name)}: 1 to 32 letters, digits and "-"`);
    this.#streams = new Streams({ url, token, patience });
    this.#name = name;
    this.#cacheBytes = cacheBytes;
  }

  /** The next whole number, and a fraction that keeps apart two versions that two branches of a thread make. */
  getNextVersion(current = 0) {
    return Math.floor(Number.parseFloat(current)) + 1 + Math.random();
  }

  async getTuple(config) {
    const { thread_id: thread, checkpoint_ns: ns = "" } = config.configurable ?? {};
    if (thread === undefined) return undefined;
    const log = await this.#log(checked(thread));
    const record = log?.get(ns, getCheckpointId(config) || log.ids(ns)[0]);
    return record && this.#tuple(thread, log, record);
  }

  async *list(config, { limit = Infinity, before, filter } = {}) {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const threads = thread_id === undefined ? await this.#threads() : [checked(thread_id)];
    const end = before && getCheckpointId(before);
    for (const thread of threads) {
      const log = await this.#log(thread);
      if (!log) continue;
      const found = [];
      for (const ns of checkpoint_ns === undefined ? log.namespaces() : [checkpoint_ns]) {
        for (const id of log.ids(ns)) {
          if ((!end || id < end) && (!checkpoint_id || id === checkpoint_id)) found.push(log.get(ns, id));
        }
      }
      found.sort((a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0));
      for (const record of found) {
        if (limit <= 0) return;
        const metadata = await this.#loads(record.metadata);
        if (filter && !Object.entries(filter).every(([key, value]) => metadata[key] === value)) continue;
        limit--;
        yield this.#tuple(thread, log, record);
      }
    }
  }

  async put(config, checkpoint, metadata, newVersions) {
    const { thread_id: thread, checkpoint_ns: ns = "", checkpoint_id: parent } = config.configurable ?? {};
    if (thread === undefined) throw new Error('put: config.configurable has no "thread_id"');
    const { channel_values, ...rest } = copyCheckpoint(checkpoint);
    const values = {};
    for (const [channel, value] of Object.entries(channel_values)) {
      const stored = newVersions && Object.hasOwn(rest.channel_versions, channel) && !Object.hasOwn(newVersions, channel);
      if (!stored) define(values, channel, await this.#dumps(value));
    }
    await this.#append(checked(thread), {
      put: { ns, id: checkpoint.id, parent, checkpoint: rest, metadata: await this.#dumps(metadata), values },
    });
    return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: checkpoint.id } };
  }

  async putWrites(config, writes, task, path = "") {
    const { thread_id: thread, checkpoint_ns: ns = "", checkpoint_id: id } = config.configurable ?? {};
    if (thread === undefined) throw new Error('putWrites: config.configurable has no "thread_id"');
    if (id === undefined) throw new Error('putWrites: config.configurable has no "checkpoint_id"');
    const list = [];
    for (const [at, [channel, value]] of writes.entries()) list.push([WRITES_IDX_MAP[channel] ?? at, channel, await this.#dumps(value)]);
    await this.#append(checked(thread), { writes: { ns, id, task, path, list } });
  }

  async deleteThread(thread) {
    const known = await this.#find(checked(thread));
    if (!known) return;
    if (!known.gone) await this.#note({ thread, stream: known.stream, gone: true });
    await this.#remove(known.stream);
  }

  /** Makes the thread "to" a fork of "from", which copies nothing: each goes on alone. */
  async copyThread(from, to) {
    for (;;) {
      const source = await this.#find(checked(from));
      if (!source || source.gone) throw new Error(`copyThread: there is no thread ${JSON.stringify(from)}`);
      const there = await this.#find(checked(to));
      if (there && !there.gone) throw new Error(`copyThread: the thread ${JSON.stringify(to)} is there already`);
      const log = await this.#read(source.stream);
      if (!log || log.pruned) {
        await this.#settle(from, source.stream); // a prune is under way, or was interrupted
        continue;
      }
      return this.#begin(to, this.#next(to, there), source.stream);
    }
  }

  /** Leaves of each thread the latest checkpoint of each namespace ("keep_latest"), or nothing of it ("delete"). */
  async prune(threads, { strategy = "keep_latest" } = {}) {
    if (strategy !== "keep_latest" && strategy !== "delete") throw new Error(`prune: strategy ${strategy}: "keep_latest" or "delete"`);
    for (const thread of threads) {
      if (strategy === "delete") {
        await this.deleteThread(thread);
        continue;
      }
      const known = await this.#find(checked(thread));
      if (!known || known.gone) continue;
      try {
        await this.#streams.append(known.stream, ['{"prune":"latest"}'], { close: true });
      } catch (error) {
        if (!(error instanceof StreamError) || !(error.closed || error.gone)) throw error;
      }
      await this.#settle(thread, known.stream);
    }
  }

  // ---- threads and their streams

  #session(thread) {
    if (/^[A-Za-z0-9-][A-Za-z0-9_-]{0,94}$/.test(thread)) return `${this.#name}_${thread}`;
    return `${this.#name}__${createHash("sha256").update(thread).digest("base64url")}`;
  }

  // A thread's streams never have the name of an earlier one: who has that one open must not take the new one for it.
  #next(thread, known) {
    if (!known) return `${this.#session(thread)}/main`;
    const at = known.stream.match(/\/(?:main|g(\d+))$/)[1] ?? 1;
    return `${this.#session(thread)}/g${Number(at) + 1}`;
  }

  /** Where the thread is, as the index says: {stream, gone}. */
  async #find(thread) {
    await this.#readIndex();
    return this.#index.threads.get(thread);
  }

  /** The same, by what was read before: its stream may be pruned or removed since, and then says so. */
  async #recall(thread) {
    const known = this.#index.threads.get(thread);
    return known && !known.gone ? known : this.#find(thread);
  }

  async #threads() {
    await this.#readIndex();
    return [...this.#index.threads].filter(([, known]) => !known.gone).map(([thread]) => thread).reverse();
  }

  #readIndex() {
    return once(this.#index, async () => {
      try {
        for await (const { lines, offset } of this.#streams.read(this.#name, this.#index.offset)) {
          for (const { thread, stream, gone = false } of lines) {
            const known = this.#index.threads.get(thread);
            const old = known && !newer(stream, known.stream) && !(stream === known.stream && gone);
            if (!old) this.#index.threads.set(thread, { stream, gone });
          }
          this.#index.offset = offset;
        }
      } catch (error) {
        if (!(error instanceof StreamError) || !error.gone) throw error; // no thread was ever made
      }
    });
  }

  async #note(line) {
    try {
      await this.#streams.append(this.#name, [JSON.stringify(line)]);
    } catch (error) {
      if (!(error instanceof StreamError) || error.status !== 404) throw error;
      await this.#streams.create(this.#name);
      await this.#streams.append(this.#name, [JSON.stringify(line)]);
    }
  }

  /** What is in the thread now; undefined where there is none. */
  async #log(thread) {
    let known = await this.#recall(thread);
    for (;;) {
      if (!known || known.gone) return undefined;
      const log = await this.#read(known.stream);
      if (log && !log.pruned) return log;
      if (log) await this.#settle(thread, known.stream);
      const now = await this.#find(thread);
      if (!log && now?.stream === known.stream) return undefined; // removed by other means
      known = now;
    }
  }

  async #append(thread, what) {
    const lines = [...linesOf(what)];
    for (;;) {
      const known = await this.#recall(thread);
      if (!known || known.gone) {
        await this.#begin(thread, this.#next(thread, known));
        continue;
      }
      try {
        return await this.#appendAll(known.stream, lines);
      } catch (error) {
        if (!(error instanceof StreamError) || !(error.closed || error.gone)) throw error;
        if (error.closed) await this.#settle(thread, known.stream);
        else if ((await this.#find(thread)).stream === known.stream) await this.#note({ thread, stream: known.stream, gone: true });
        await this.#find(thread);
      }
    }
  }

  // The stream is there before the index has it: one that the index has and that is not there was removed.
  async #begin(thread, stream, from) {
    await this.#streams.create(stream, from);
    await this.#note({ thread, stream });
  }

  async #appendAll(stream, lines) {
    let batch = [];
    let bytes = 0;
    for (const line of lines) {
      const size = Buffer.byteLength(line) + 1;
      if (bytes > 0 && bytes + size > most) {
        await this.#streams.append(stream, batch);
        batch = [];
        bytes = 0;
      }
      batch.push(line);
      bytes += size;
    }
    if (batch.length > 0) await this.#streams.append(stream, batch);
  }

  // Gives a thread whose stream is pruned the next one. Several may do so at once, and one may do what another left half done: all
  // write the same lines, of which it does not matter that they come again.
  async #settle(thread, pruned) {
    const known = await this.#find(thread);
    if (!known || known.stream !== pruned || known.gone) return;
    const log = await this.#read(pruned);
    if (!log) return;
    if (!log.pruned) throw new Error(`the stream ${pruned} was closed, and not by prune`);
    const stream = this.#next(thread, known);
    await this.#streams.create(stream);
    await this.#appendAll(stream, [...log.latest()].flatMap((what) => [...linesOf(what)]));
    await this.#note({ thread, stream });
    await this.#remove(pruned);
  }

  async #remove(stream) {
    this.#forget(stream);
    try {
      await this.#streams.remove(stream);
    } catch (error) {
      if (!(error instanceof StreamError) || !error.gone) throw error;
    }
  }

  // ---- what is read

  /** The stream's log with all that is in it now; undefined where there is no such stream. */
  async #read(stream) {
    const open = this.#open.get(stream) ?? { log: new Log(), offset: undefined, bytes: 0, reading: undefined };
    this.#open.delete(stream);
    this.#open.set(stream, open);
    try {
      await once(open, async () => {
        for await (const { lines, offset, bytes } of this.#streams.read(stream, open.offset)) {
          for (const line of lines) open.log.add(line);
          open.offset = offset;
          open.bytes += bytes;
          if (this.#open.get(stream) === open) this.#bytes += bytes;
        }
      });
    } catch (error) {
      this.#forget(stream);
      if (error instanceof StreamError && error.gone) return undefined;
      throw error;
    }
    for (const other of this.#open.keys()) {
      if (this.#bytes <= this.#cacheBytes || other === stream) break;
      this.#forget(other);
    }
    return open.log;
  }

  #forget(stream) {
    this.#bytes -= this.#open.get(stream)?.bytes ?? 0;
    this.#open.delete(stream);
  }

  async #tuple(thread, log, record) {
    const at = (id) => ({ configurable: { thread_id: thread, checkpoint_ns: record.ns, checkpoint_id: id } });
    const checkpoint = { ...record.checkpoint, channel_values: {} };
    checkpoint.channel_versions = { ...checkpoint.channel_versions };
    for (const [channel, value] of log.channels(record)) define(checkpoint.channel_values, channel, await this.#loads(value));
    const parent = record.parent && log.get(record.ns, record.parent);
    if (checkpoint.v < 4 && record.parent !== undefined) {
      const sends = parent ? log.writes(parent).filter(({ channel }) => channel === TASKS) : [];
      checkpoint.channel_values[TASKS] = await Promise.all(sends.map(({ value }) => this.#loads(value)));
      const versions = Object.values(checkpoint.channel_versions);
      checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
    }
    const writes = log.writes(record).map(async ({ task, channel, value }) => [task, channel, await this.#loads(value)]);
    return {
      config: at(record.id),
      checkpoint,
      metadata: await this.#loads(record.metadata),
      ...(record.parent !== undefined && { parentConfig: at(record.parent) }),
      pendingWrites: await Promise.all(writes),
    };
  }

  async #dumps(value) {
    const [type, bytes] = await this.serde.dumpsTyped(value);
    return type === "json" ? [type, Buffer.from(bytes).toString()] : [type, Buffer.from(bytes).toString("base64"), "b"];
  }

  async #loads([type, text, as]) {
    return this.serde.loadsTyped(type, as === "b" ? Buffer.from(text, "base64") : text);
  }
}

// One reading at a time, and the next one begins after it: what was asked for is at least as new as the question.
function once(of, read) {
  const reading = (of.reading ?? Promise.resolve()).catch(() => {}).then(read);
  of.reading = reading;
  return reading;
}

function newer(stream, than) {
  const number = (name) => Number(name.match(/\/(?:main|g(\d+))$/)[1] ?? 1);
  return number(stream) > number(than);
}

function checked(thread) {
  if (typeof thread !== "string" || thread === "") throw new Error(`thread_id: a text that is not empty, not ${JSON.stringify(thread)}`);
  return thread;
}

// Not an assignment: a channel may be named __proto__.
function define(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}
