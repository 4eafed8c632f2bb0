/**
 * Spool over HTTP, without dependencies, in Node and in browsers.
 *
 *     const spool = new Client();
 *     const thread = spool.thread("build-42");
 *     await (await thread.publish(item("tests pass", "text"))).applied();
 *     for await (const it of thread.live({ from: 1 })) console.log(it.n, it.item);
 *
 * A method is called as in the Go client, and does what docs/http.md says of its route.
 * @module
 */
import { NotFound, SpoolError, Unavailable } from "./errors.js";
import { fresh, Publisher, threadPath } from "./publish.js";
import { lines, pause, Stream, Wire } from "./wire.js";

export { BadRequest, Conflict, NotFound, NotPermitted, SpoolError, Unavailable } from "./errors.js";
export { Ack, item, Publisher } from "./publish.js";
export { Stream } from "./wire.js";

/** @typedef {import("./publish.js").Entry} Entry */
/** @typedef {import("./wire.js").Event} Event */
/** @typedef {import("./types.js").Item} Item */
/** @typedef {import("./types.js").ThreadInfo} ThreadInfo */
/** @typedef {import("./types.js").SessionInfo} SessionInfo */
/** @typedef {import("./types.js").Prompt} Prompt */
/** @typedef {import("./types.js").Resolution} Resolution */
/** @typedef {import("./types.js").RunInfo} RunInfo */
/** @typedef {import("./types.js").Artifact} Artifact */
/** @typedef {import("./types.js").OutputResult} OutputResult */
/** Where a stream begins, and what ends it.
 * @typedef {{lastId?: string, signal?: AbortSignal}} From */

const segment = encodeURIComponent;

/** @param {Uint8Array} bytes */
const parsed = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

/** A client of one server. */
export class Client {
  /** @internal */
  wire;
  #user;
  #own;

  /**
   * @param {object} [config]
   * @param {string} [config.url] unless given: SPOOL_HTTP, in a page where that came from, else http://127.0.0.1:7717
   * @param {string} [config.token] unless given: SPOOL_TOKEN
   * @param {number} [config.timeout] seconds that one answer may take, 30
   * @param {number} [config.patience] seconds for which a request is tried again while the server is busy or away, 60
   * @param {string} [config.user] user_id of what is published, unless the token has a name
   * @param {AbortSignal} [config.signal] ends all that this client does
   * @param {typeof globalThis.fetch} [config.fetch] in the place of the platform's
   */
  constructor({ url, token, timeout = 30, patience = 60, user, signal, fetch = globalThis.fetch.bind(globalThis) } = {}) {
    /** @type {any} */
    const { process, location } = globalThis;
    url ??= process?.env?.SPOOL_HTTP || (/^https?:/.test(location?.origin) ? location.origin : "http://127.0.0.1:7717");
    token ??= process?.env?.SPOOL_TOKEN || undefined;
    this.wire = new Wire(/** @type {string} */ (url), { token, timeout, patience, signal, fetch });
    this.#user = user;
    this.#own = this.publisher();
  }

  /**
   * A producer of its own; see Publisher.
   * @param {{producer?: string, epoch?: number, seq?: number}} [config]
   */
  publisher(config = {}) {
    return new Publisher(this.wire, { ...config, user: this.#user });
  }

  /**
   * The handle of a thread, whether it is there or not: nothing is asked.
   * @param {string} session
   * @param {string} [name]
   */
  thread(session, name = "main") {
    return new Thread(this, this.#own, session, name);
  }

  /**
   * The handle of a session, whether it is there or not: nothing is asked.
   * @param {string} id
   */
  session(id) {
    return new Session(this, id);
  }

  /** The handle of artifacts. */
  artifacts() {
    return new Artifacts(this);
  }

  /**
   * Sessions, newest first, read by pages; by state: waiting, running, failed, idle or done.
   * @param {{cwd?: string, q?: string, unanswered?: boolean, state?: string}} [filter]
   * @returns {AsyncGenerator<SessionInfo, void, void>}
   */
  sessions(filter = {}) {
    return this.pages("/v1/sessions", "sessions", filter);
  }

  /**
   * Threads of all sessions, by status and by the UTC date of their end.
   * @param {{session?: string, status?: string, ended_from?: string, ended_to?: string}} [filter]
   * @returns {AsyncGenerator<ThreadInfo, void, void>}
   */
  findThreads(filter = {}) {
    return this.pages("/v1/threads", "threads", filter);
  }

  /**
   * Where a state is.
   * @param {string} hash
   * @param {{session?: string, thread?: string}} [first] look here first
   * @returns {Promise<{session: string, thread: string, n: number, hash: string}>}
   */
  findNode(hash, first = {}) {
    return this.wire.json("GET", `/v1/nodes/${segment(hash)}`, first);
  }

  /**
   * Items as they come, of all threads or of those that are named, from now on or since a time ("all", "1h", RFC 3339).
   * @param {{session?: string, thread?: string, type?: string, detail?: string, since?: string, not_user?: string} & From} [filter]
   * @returns {AsyncGenerator<Item, void, void>}
   */
  async *subscribe({ lastId, signal, ...query } = {}) {
    const seen = new Set(); // after a crash an item can come again, behind a few others
    for await (const { name, data } of new Stream(this.wire, "/v1/live", query, { lastId, signal })) {
      const key = `${data.session}/${data.thread}/${data.n}/${data.hash}`;
      if (name !== "item" || (!query.thread && seen.has(key))) continue;
      seen.add(key);
      if (seen.size > 4096) seen.delete(seen.values().next().value);
      yield data;
    }
  }

  /**
   * The heads of active threads as they move, with current from where they are. Its events are named head.
   * @param {{session?: string, current?: boolean} & From} [filter]
   * @returns {import("./wire.js").Stream}
   */
  heads({ lastId, signal, ...query } = {}) {
    return new Stream(this.wire, "/v1/heads", query, { lastId, signal });
  }

  /**
   * Stores bytes for the refs of a step that is to come next, and resolves to the ref.
   * @param {BodyInit} data
   * @returns {Promise<string>}
   */
  async putBlob(data) {
    const headers = { "Content-Type": "application/octet-stream" };
    const { bytes } = await this.wire.call("POST", "/v1/blobs", { body: data, headers, again: true });
    return parsed(bytes).id;
  }

  /**
   * The bytes of a ref, as blob:sha256:…
   * @param {string} ref
   */
  async blob(ref) {
    return (await this.wire.call("GET", `/v1/blobs/${segment(ref.replace(/^(blob:)?(sha256:)?/, ""))}`)).bytes;
  }

  /**
   * Items of all sessions that have all words; by session, cwd, tool, role, since, until, limit.
   * @param {string} q
   * @param {import("./wire.js").Query} [filter]
   * @returns {Promise<{matches: any[], incomplete?: boolean}>}
   */
  search(q, filter = {}) {
    return this.wire.json("GET", "/v1/search", { q, ...filter });
  }

  /**
   * Sessions, turns, tokens and tool calls, by project, model or day.
   * @param {import("./wire.js").Query} [filter]
   */
  stats(filter = {}) {
    return this.wire.json("GET", "/v1/stats", filter);
  }

  /**
   * What people asked for; by q, session, cwd, limit.
   * @param {import("./wire.js").Query} [filter]
   */
  history(filter = {}) {
    return this.wire.json("GET", "/v1/history", filter);
  }

  /**
   * @internal
   * @param {string} path
   * @param {string} name
   * @param {import("./wire.js").Query} query
   * @param {string} [cursor]
   * @returns {AsyncGenerator<any, void, void>}
   */
  async *pages(path, name, query, cursor = "after") {
    for (;;) {
      const page = await this.wire.json("GET", path, query);
      yield* page[name];
      if (!page.next) return;
      query = { ...query, [cursor]: page.next };
    }
  }
}

/** A thread, whether it is there or not. */
export class Thread {
  #client;
  #wire;
  #own;
  #path;

  /**
   * @param {Client} client
   * @param {Publisher} own
   * @param {string} session
   * @param {string} name
   */
  constructor(client, own, session, name) {
    this.#client = client;
    this.#wire = client.wire;
    this.#own = own;
    this.session = session;
    this.name = name;
    this.#path = threadPath(session, name);
  }

  /**
   * Appends entries by the client's own publisher, in order, and resolves when they are durable.
   * @param {Entry | Entry[]} entries
   * @param {{dialect?: string, signal?: AbortSignal}} [how]
   */
  publish(entries, how = {}) {
    return this.#own.publish(this.session, this.name, entries, how);
  }

  /** Where the thread is. @returns {Promise<ThreadInfo>} */
  head() {
    return this.#get("");
  }

  /**
   * Its items from number n to the end, read by pages.
   * @param {number} [n]
   * @returns {AsyncGenerator<Item, void, void>}
   */
  itemsFrom(n = 1) {
    return this.#client.pages(`${this.#path}/items`, "items", { from: n }, "from");
  }

  /**
   * Its items before a number, or from the end, backwards.
   * @param {number} [before]
   * @returns {AsyncGenerator<Item, void, void>}
   */
  async *itemsBack(before) {
    while (before === undefined || before > 1) {
      const { items } = await this.#get("/items", before === undefined ? { last: 100 } : { before, limit: 100 });
      if (!items.length) return;
      before = items[0].n;
      yield* items.reverse();
    }
  }

  /**
   * An item as it was before any cut.
   * @param {number} n
   * @returns {Promise<Item>}
   */
  fullItem(n) {
    return this.#get(`/items/${n}`, { full: true });
  }

  /**
   * Items that hold a text, newest first.
   * @param {string} q
   * @returns {AsyncGenerator<any, void, void>}
   */
  search(q) {
    return this.#client.pages(`${this.#path}/search`, "matches", { q }, "before");
  }

  /** All of its items as they were before any cut, read whole. @returns {AsyncGenerator<any, void, void>} */
  async *log() {
    const { bytes } = await this.#wire.call("GET", `${this.#path}/logs/thread.log`);
    for await (const line of lines(new Response(bytes))) yield JSON.parse(line);
  }

  /**
   * What the model is sent.
   * @param {string} [leaf]
   * @returns {Promise<{messages: any[], prompt?: string, summary?: string}>}
   */
  context(leaf) {
    return this.#get("/context", { leaf });
  }

  /** Its entries with their parents and labels. @returns {Promise<any[]>} */
  async tree() {
    return (await this.#get("/tree")).entries;
  }

  /**
   * All events of the thread, from now on or from an item: open, item, live (what open outputs print), head, reset.
   * @param {{from?: number, whole?: boolean, not_user?: string} & From} [filter]
   * @returns {import("./wire.js").Stream}
   */
  follow({ lastId, signal, ...query } = {}) {
    return new Stream(this.#wire, `${this.#path}/live`, query, { lastId, signal });
  }

  /**
   * Its items as they come, from now on or from an item, each once. It ends when the thread is removed or renamed. NotFound: nothing was
   * published to it.
   * @param {{from?: number, not_user?: string} & From} [filter]
   * @returns {AsyncGenerator<Item, void, void>}
   */
  async *live(filter = {}) {
    for await (const { name, data } of this.follow(filter)) if (name === "item") yield data;
  }

  /**
   * Begins it with what its workflow gives it.
   * @param {{name?: string, bundle?: string, max_rounds?: number, depth?: number, prompt?: string}} given
   * @returns {Promise<ThreadInfo>}
   */
  start(given) {
    return this.#post("/start", given);
  }

  /**
   * Makes a thread that begins as this one, up to n, index, node, entry or role; or whole. to may name another session's.
   * @param {string} to
   * @param {{n?: number, index?: number, node?: string, entry?: string, role?: string, whole?: boolean, path?: boolean}} where
   * @returns {Promise<ThreadInfo>}
   */
  fork(to, where) {
    return this.#post("/fork", { to, ...where });
  }

  /**
   * Puts a summary in the place of what was before an entry.
   * @param {string} summary
   * @param {string} [firstKept]
   * @returns {Promise<ThreadInfo>}
   */
  compact(summary, firstKept) {
    return this.#post("/compact", { summary, first_kept: firstKept });
  }

  /**
   * Completes it: it takes nothing more.
   * @param {number} [returnCode]
   * @param {string} [summary]
   * @returns {Promise<ThreadInfo>}
   */
  end(returnCode = 0, summary) {
    return this.#post("/end", { return_code: returnCode, summary });
  }

  /** Takes up a thread that failed. @returns {Promise<ThreadInfo>} */
  reopen() {
    return this.#post("/reopen", {});
  }

  /**
   * Gives it another name.
   * @param {string} to
   * @returns {Promise<ThreadInfo>}
   */
  rename(to) {
    return this.#post("/rename", { to });
  }

  /**
   * What comes next goes after that entry.
   * @param {string} entry
   * @returns {Promise<ThreadInfo>}
   */
  branch(entry) {
    return this.#post("/branch", { entry });
  }

  /** What comes next goes after no entry. @returns {Promise<ThreadInfo>} */
  reset() {
    return this.#post("/branch", {});
  }

  /**
   * As branch, with a summary of what is left.
   * @param {string} entry
   * @param {string} summary
   * @param {unknown} [details]
   * @returns {Promise<ThreadInfo>}
   */
  branchWithSummary(entry, summary, details) {
    return this.#post("/branch", { entry, summary, details });
  }

  /**
   * Names an entry, and resolves to the id of that.
   * @param {string} entry
   * @param {string} label
   * @returns {Promise<string>}
   */
  async label(entry, label) {
    return (await this.#post("/label", { entry, label })).id;
  }

  /**
   * Puts an entry of the dialect omp under the leaf; leaf_moved says that another writer was first.
   * @param {Record<string, unknown>} entry
   * @param {string} [leaf]
   * @returns {Promise<{id: string, leaf_moved?: boolean, taken?: string}>}
   */
  append(entry, leaf) {
    return this.#post("/append", { entry, leaf });
  }

  /**
   * Removes it for good.
   * @param {{force?: boolean}} [how]
   * @returns {Promise<void>}
   */
  async remove(how = {}) {
    await this.#wire.json("DELETE", this.#path, how);
  }

  /** Its open outputs. @returns {Promise<any[]>} */
  async outputs() {
    return (await this.#get("/outputs")).outputs;
  }

  /**
   * Stores what a tool printed, or prints: a ReadableStream goes to subscribers as it comes (not in browsers that send no streams).
   * @param {string} tool
   * @param {BodyInit} body
   * @param {import("./wire.js").Query & {exit_code?: number, is_error?: boolean}} [config] as docs/http.md has it: id, keep, run …
   * @returns {Promise<OutputResult>} resolves when the result is in the thread
   */
  async output(tool, body, { exit_code: code = 0, is_error: failed = code !== 0, ...query } = {}) {
    const headers = { "Content-Type": "application/octet-stream", "Spool-Exit-Code": String(code), "Spool-Is-Error": String(failed) };
    try {
      const response = await this.#wire.once("POST", `${this.#path}/outputs`, { query: { tool, ...query }, body, headers });
      return /** @type {any} */ (await response.json());
    } catch (cause) {
      this.#wire.ended();
      if (cause instanceof SpoolError) throw cause;
      throw new Unavailable("whether all of the output arrived is not known", 0, {}, { cause });
    }
  }

  /**
   * Asks a person, and resolves to the id of the prompt; awaitAnswer waits for the answer. The same question may be asked again under its id.
   * @param {string} text
   * @param {{kind?: string, id?: string}} [how]
   * @returns {Promise<string>}
   */
  async ask(text, { kind = "approval", id = fresh() } = {}) {
    await this.publish({ content: [{ type: "text", text }], metadata: { type: "pending_prompt", prompt: { id, kind } } });
    return id;
  }

  /**
   * A question, and how it was settled.
   * @param {string} id
   * @returns {Promise<Prompt>}
   */
  prompt(id) {
    return this.#get(`/prompts/${segment(id)}`);
  }

  /**
   * Resolves when a prompt is settled.
   * @param {string} id
   * @param {{signal?: AbortSignal}} [how]
   * @returns {Promise<Resolution>}
   */
  async awaitAnswer(id, { signal } = {}) {
    for (let wait = 50; ; wait = Math.min(2000, 1.5 * wait)) {
      const { resolution } = await this.prompt(id).catch((error) => {
        if (error instanceof NotFound) return /** @type {Prompt} */ ({}); // it is not applied yet
        throw error;
      });
      if (resolution) return resolution;
      await pause(wait, this.#wire.signals(signal));
    }
  }

  /**
   * Settles a prompt. Conflict: it was before.
   * @param {string} id
   * @param {unknown} answer
   * @param {{by?: string, life?: number}} [how]
   * @returns {Promise<Resolution>}
   */
  async answer(id, answer, how = {}) {
    return (await this.#post(`/prompts/${segment(id)}/answer`, { answer, ...how })).resolution;
  }

  /**
   * Begins a run; what it resolves to gives signs of life until it ends.
   * @param {{run?: string, agent?: string, summary?: string, lease_ms?: number}} [config]
   */
  async startRun(config = {}) {
    const given = { run: fresh(), lease_ms: 60_000, ...config };
    const run = new Run(given, (said) => this.#post("/runs", said, { again: true }),
      (state, summary) => this.#client.session(this.session).endRun(given.run, state, summary));
    await run.set({});
    return run;
  }

  /**
   * @param {string} path
   * @param {import("./wire.js").Query} [query]
   */
  #get(path, query) {
    return this.#wire.json("GET", this.#path + path, query);
  }

  /**
   * @param {string} path
   * @param {unknown} value
   * @param {import("./wire.js").Sent} [how]
   */
  #post(path, value, how) {
    return this.#wire.json("POST", this.#path + path, undefined, value, how);
  }
}

/** A session, whether it is there or not. */
export class Session {
  #client;
  #wire;
  #path;

  /**
   * @param {Client} client
   * @param {string} id
   */
  constructor(client, id) {
    this.#client = client;
    this.#wire = client.wire;
    this.id = id;
    this.#path = `/v1/sessions/${segment(id)}`;
  }

  /**
   * The handle of one of its threads.
   * @param {string} [name]
   */
  thread(name = "main") {
    return this.#client.thread(this.id, name);
  }

  /**
   * Begins a session of omp entries.
   * @param {string} cwd
   * @param {string} [parent]
   * @returns {Promise<void>}
   */
  async new(cwd, parent) {
    await this.#post("", { cwd, parent });
  }

  /** What a listing says of it, with its threads. @returns {Promise<SessionInfo>} */
  info() {
    return this.#wire.json("GET", this.#path);
  }

  /**
   * Gives it a title; auto: a program made it up.
   * @param {string} title
   * @param {{auto?: boolean}} [how]
   * @returns {Promise<void>}
   */
  async name(title, how = {}) {
    await this.#post("/name", { title, ...how });
  }

  /**
   * Gives it another working directory.
   * @param {string} cwd
   * @returns {Promise<void>}
   */
  async move(cwd) {
    await this.#post("/move", { cwd });
  }

  /**
   * Removes it for good, and resolves to the receipt. Conflict says why not.
   * @param {{force?: boolean, by?: string}} [how]
   * @returns {Promise<any>}
   */
  delete(how = {}) {
    return this.#wire.json("DELETE", this.#path, how);
  }

  /** @returns {Promise<ThreadInfo[]>} */
  async threads() {
    return (await this.#wire.json("GET", `${this.#path}/threads`)).threads;
  }

  /** Of its threads that are subagents, the invocation_id of the call that each works for. @returns {Promise<Record<string, string>>} */
  async agentCalls() {
    const list = (await this.info()).thread_list ?? [];
    return Object.fromEntries(list.flatMap((t) => (t.tool_call ? [[t.thread, t.tool_call]] : [])));
  }

  /** How its threads come from each other. @returns {Promise<any[]>} */
  async graph() {
    return (await this.#wire.json("GET", `${this.#path}/graph`)).nodes;
  }

  /**
   * Items of all of its threads as they come.
   * @param {{since?: string, not_user?: string} & From} [filter]
   */
  live(filter = {}) {
    return this.#client.subscribe({ ...filter, session: this.id });
  }

  /** What waits for a person. @returns {Promise<Prompt[]>} */
  async prompts() {
    return (await this.#wire.json("GET", "/v1/prompts", { session: this.id })).prompts;
  }

  /** @returns {Promise<RunInfo[]>} */
  async runs() {
    return (await this.#wire.json("GET", "/v1/runs", { session: this.id })).runs;
  }

  /**
   * Ends a run: completed, failed, aborted or cancelled.
   * @param {string} run
   * @param {string} [state]
   * @param {string} [summary]
   * @returns {Promise<void>}
   */
  async endRun(run, state = "completed", summary) {
    await this.#post(`/runs/${segment(run)}/end`, { state, summary });
  }

  /** @returns {Promise<Artifact[]>} */
  async artifacts() {
    return (await this.#wire.json("GET", `${this.#path}/artifacts`)).artifacts;
  }

  /**
   * Takes a number and a file name for an artifact that is put later.
   * @param {string} tool
   * @returns {Promise<{number: string, filename: string}>}
   */
  takeNumber(tool) {
    return this.#post("/artifacts/number", { tool });
  }

  /**
   * Takes the id of the next agent that parent starts.
   * @param {string} name
   * @param {string} [parent]
   * @returns {Promise<string>}
   */
  async takeAgentId(name, parent) {
    return (await this.#post("/agents", { name, parent })).id;
  }

  /**
   * What an address leads to, as artifact://0, by lines.
   * @param {string} url
   * @param {{offset?: number, limit?: number}} [part]
   */
  async resolve(url, part = {}) {
    return (await this.#wire.call("GET", "/v1/read", { query: { session: this.id, url, ...part } })).bytes;
  }

  /**
   * @param {string} path
   * @param {unknown} value
   */
  #post(path, value) {
    return this.#wire.json("POST", this.#path + path, undefined, value);
  }
}

/** Artifacts of any session. */
export class Artifacts {
  #wire;

  /** @param {Client} client */
  constructor(client) {
    this.#wire = client.wire;
  }

  /**
   * Stores one.
   * @param {string} session
   * @param {BodyInit} body
   * @param {import("./wire.js").Query & {mime?: string}} [about] tool, filename, number, agent, run, tool_call, summary, category
   * @returns {Promise<Artifact>}
   */
  async put(session, body, { mime = "application/octet-stream", ...query } = {}) {
    const headers = { "Content-Type": mime };
    const { bytes } = await this.#wire.call("POST", `/v1/sessions/${segment(session)}/artifacts`, { query, body, headers });
    return parsed(bytes);
  }

  /**
   * Makes an artifact of an object that is in spool_artifacts.
   * @param {string} session
   * @param {string} object
   * @param {Record<string, unknown>} [about]
   * @returns {Promise<Artifact>}
   */
  registerObject(session, object, about = {}) {
    return this.#wire.json("POST", `/v1/sessions/${segment(session)}/artifacts/register`, undefined, { object, ...about });
  }

  /**
   * Its size, type and digest, without its bytes.
   * @param {string} id
   */
  async record(id) {
    const { headers } = await this.#wire.call("HEAD", `/v1/artifacts/${segment(id)}`);
    return { size: Number(headers.get("Content-Length")), mime_type: headers.get("Content-Type"), etag: headers.get("ETag") };
  }

  /**
   * Its bytes, from the first to the last that are named.
   * @param {string} id
   * @param {{first?: number, last?: number}} [span]
   */
  async open(id, { first = 0, last } = {}) {
    /** @type {Record<string, string>} */
    const headers = first || last !== undefined ? { Range: `bytes=${first}-${last ?? ""}` } : {};
    return (await this.#wire.call("GET", `/v1/artifacts/${segment(id)}`, { headers })).bytes;
  }

  /**
   * Removes it for good.
   * @param {string} id
   * @returns {Promise<void>}
   */
  async delete(id) {
    await this.#wire.json("DELETE", `/v1/artifacts/${segment(id)}`);
  }

  /**
   * Which artifacts of debugging would be removed; with apply they are.
   * @param {string} session
   * @param {{apply?: boolean, include_all?: boolean, older_than?: string, max_bytes?: number}} [how]
   * @returns {Promise<any>}
   */
  cleanup(session, how = {}) {
    return this.#wire.json("POST", `/v1/sessions/${segment(session)}/artifacts/cleanup`, undefined, how);
  }
}

/** A run that is under way. */
export class Run {
  #config;
  #say;
  #end;
  #timer;

  /**
   * @param {{run: string, lease_ms: number}} config
   * @param {(said: object) => Promise<unknown>} say
   * @param {(state: string, summary?: string) => Promise<void>} end
   */
  constructor(config, say, end) {
    this.id = config.run;
    this.#config = config;
    this.#say = say;
    this.#end = end;
    this.#timer = setInterval(() => this.#say(this.#config).catch(() => {}), config.lease_ms / 3); // the next one may come in time
    /** @type {any} */ (this.#timer).unref?.();
  }

  /**
   * A sign of life, with another summary or state.
   * @param {{summary?: string, state?: string}} said
   * @returns {Promise<void>}
   */
  async set(said) {
    this.#config = { ...this.#config, ...said };
    await this.#say(this.#config);
  }

  /**
   * Ends it: completed, failed, aborted or cancelled.
   * @param {string} [state]
   * @param {string} [summary]
   * @returns {Promise<void>}
   */
  end(state = "completed", summary) {
    clearInterval(this.#timer);
    return this.#end(state, summary);
  }
}
