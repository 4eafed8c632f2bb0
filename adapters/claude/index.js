// A session store of the Claude Agent SDK that keeps sessions in Spool, over HTTP (docs/http.md, "Sessions of the Claude Agent SDK").
import { setTimeout as pause } from "node:timers/promises";

/** A name as a segment of a path; clients take "." and ".." out of paths. */
const segment = (name) => encodeURIComponent(/^(=|\.\.?$)/.test(name) ? `=${name}` : name);

export class SpoolSessionStore {
  #base; #headers; #patience; #fold;
  #last = new Map(); // the last append of each transcript, which the next one comes behind

  constructor({ url = "http://127.0.0.1:7717", token, patience = 40_000, foldSessionSummary } = {}) {
    this.#base = new URL("/v1/claude", url).href;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#patience = patience;
    this.#fold = foldSessionSummary;
    if (!foldSessionSummary) this.listSessionSummaries = undefined; // so the SDK reads transcripts
  }

  append(key, entries) {
    const path = this.#path(key);
    const next = (this.#last.get(path) ?? Promise.resolve()).catch(() => {}).then(() => this.#append(key, path, entries));
    this.#last.set(path, next);
    return next.finally(() => this.#last.get(path) === next && this.#last.delete(path));
  }

  async load(key) {
    const answer = await this.#ask("GET", this.#path(key), { none: true });
    return answer === null ? null : (await answer.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  }

  async listSessions(projectKey) {
    return (await this.#list(projectKey)).map(({ session, mtime }) => ({ sessionId: session, mtime }));
  }

  async listSessionSummaries(projectKey) {
    const folded = (await this.#list(projectKey)).filter((one) => one.summary?.js);
    return folded.map(({ session, summary, summary_mtime }) => ({ sessionId: session, mtime: summary_mtime, data: summary.js }));
  }

  async listSubkeys({ projectKey, sessionId }) {
    return (await (await this.#ask("GET", `${this.#path({ projectKey, sessionId })}?subkeys`)).json()).subkeys;
  }

  async delete(key) {
    await this.#ask("DELETE", this.#path(key));
  }

  #path({ projectKey, sessionId, subpath }) {
    return [projectKey, sessionId, ...(subpath ? [subpath] : [])].map((name) => `/${segment(name)}`).join("");
  }

  async #list(projectKey) {
    return (await (await this.#ask("GET", `/${segment(projectKey)}`)).json()).sessions;
  }

  async #append(key, path, entries) {
    if (entries.length === 0) return;
    const body = entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");
    const added = await (await this.#ask("POST", path, { body, type: "application/x-ndjson" })).json();
    if (this.#fold && !key.subpath) await this.#summarize(key, path, entries, added);
  }

  /** Folds entries into the summary, until nobody else did. It is of n entries: where some are missing, or Python made it, of all. */
  async #summarize(key, path, entries, { entries: fresh, total = Infinity }) {
    for (;;) {
      const had = await this.#ask("GET", `${path}?summary`, { none: true });
      const { n, js: data } = had ? await had.json() : {};
      if (data && n >= total) return;
      const next = (data ? n : 0) + fresh === total && fresh === entries.length;
      const all = next ? entries : ((await this.load(key)) ?? []);
      const prev = next && data ? { sessionId: key.sessionId, mtime: 0, data } : undefined;
      const body = JSON.stringify({ n: next ? total : all.length, js: this.#fold(prev, key, all, { mtime: Date.now() }).data });
      const headers = had ? { "If-Match": had.headers.get("ETag") } : {};
      if (await this.#ask("PUT", `${path}?summary`, { body, type: "application/json", headers, lost: true })) return;
    }
  }

  /** Asks, again while the server is busy or away. null: there is none (with none), or somebody was first (with lost). */
  async #ask(method, path, { body, type, headers, none, lost } = {}) {
    const until = Date.now() + this.#patience;
    for (let wait = 50; ; wait = Math.min(2 * wait, 2000)) {
      let answer, why;
      const silent = new AbortController();
      const late = setTimeout(() => silent.abort(), Math.max(until - Date.now(), 1000)); // one that begins may take its time
      try {
        const sent = { ...this.#headers, ...headers, ...(type && { "Content-Type": type }) };
        answer = await fetch(this.#base + path, { method, body, headers: sent, signal: silent.signal }).finally(() => clearTimeout(late));
        if (answer.ok) return answer;
        why = (await answer.text()).trim();
      } catch (error) {
        why = `${error.message}${error.cause ? `: ${error.cause.message}` : ""}`;
      }
      if ((none && answer?.status === 404) || (lost && answer?.status === 412)) return null;
      const passing = answer === undefined || answer.status === 429 || answer.status >= 500;
      if (!passing || Date.now() + wait > until) throw new Error(`Spool, ${method} ${path}: ${answer ? `${answer.status}: ` : ""}${why}`);
      await pause(wait * (0.5 + Math.random() / 2));
    }
  }
}
