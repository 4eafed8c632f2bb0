// Streams of Spool over HTTP (docs/streams.md): appended to, read from an offset on, forked and removed.
import { setTimeout as pause } from "node:timers/promises";

/** The stream takes no more (409), is not there (404), or was removed while forks of it live (410). */
export class StreamError extends Error {
  constructor(message, status, closed) {
    super(message);
    this.name = "StreamError";
    this.status = status;
    this.closed = closed;
  }
  get gone() {
    return this.status === 404 || this.status === 410;
  }
}

export class Streams {
  #base;
  #headers;
  #patience;

  /** patience: for how long, in milliseconds, a request is tried again while the server is busy or away. */
  constructor({ url, token, patience = 30_000 }) {
    this.#base = new URL("/v1/stream/", url).href;
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#patience = patience;
  }

  /** Makes the stream if it is not there; from: the stream that it is a fork of, which copies nothing. */
  create(name, from) {
    const headers = { "Content-Type": "application/json" };
    if (from !== undefined) headers["Stream-Forked-From"] = `/v1/stream/${from}`;
    return this.#ask(name, { method: "PUT", headers });
  }

  /** Appends lines; what it returned for is on disk. It may come twice when an answer was lost. Closed, the stream takes no more. */
  append(name, lines, { close = false } = {}) {
    const headers = { "Content-Type": "application/json" };
    if (close) headers["Stream-Closed"] = "true";
    return this.#ask(name, { method: "POST", headers, body: `[${lines.join(",")}]` });
  }

  remove(name) {
    return this.#ask(name, { method: "DELETE" });
  }

  /** The lines behind offset, as a page and the offset behind it, until none is left. */
  async *read(name, offset) {
    for (;;) {
      const answer = await this.#ask(`${name}?offset=${offset ?? "-1"}`, { method: "GET" });
      offset = answer.headers.get("Stream-Next-Offset") ?? offset;
      const text = await answer.text();
      yield { lines: text === "" ? [] : JSON.parse(text), offset, bytes: text.length };
      if (answer.headers.get("Stream-Up-To-Date") === "true") return;
    }
  }

  async #ask(path, init) {
    const until = Date.now() + this.#patience;
    for (let wait = 50; ; wait = Math.min(2 * wait, 2000)) {
      let answer, why;
      try {
        answer = await fetch(this.#base + path, { ...init, headers: { ...init.headers, ...this.#headers } });
        if (answer.ok) return answer;
        why = (await answer.text()).trim();
      } catch (error) {
        why = `${error.message}${error.cause ? `: ${error.cause.message}` : ""}`;
      }
      const passing = answer === undefined || answer.status === 429 || answer.status >= 500;
      if (!passing || Date.now() + wait > until) {
        const closed = answer?.headers.get("Stream-Closed") === "true";
        throw new StreamError(`Spool, ${init.method} ${path}: ${answer ? `${answer.status}: ` : ""}${why}`, answer?.status ?? 0, closed);
      }
      const told = Number(answer?.headers.get("Retry-After"));
      await pause(told > 0 ? Math.min(told * 1000, until - Date.now()) : wait * (0.5 + Math.random() / 2));
    }
  }
}
