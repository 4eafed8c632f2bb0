// The client against a server that does what each test says, request by request: node --test
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import test from "node:test";
import { buffer } from "node:stream/consumers";
import { BadRequest, Client, Conflict, item, NotFound, NotPermitted, SpoolError, Unavailable } from "./index.js";

const cut = Symbol("an answer that does not come: the connection ends");

/** Answers each request with the next of the answers: a status, headers and a body, or cut. */
async function server(t, ...answers) {
  const s = { answers, requests: [] };
  const http = createServer(async (request, response) => {
    s.requests.push({ path: request.url, headers: request.headers, body: (await buffer(request)).toString() });
    const answer = answers.shift() ?? refused(500, "not expected");
    if (answer === cut) return request.socket.destroy();
    response.writeHead(answer.status ?? 200, answer.headers);
    response.write(answer.body);
    if (answer.torn) setTimeout(() => request.socket.destroy(), 20);
    else response.end();
  });
  await new Promise((ready) => http.listen(0, "127.0.0.1", ready));
  t.after(() => { http.closeAllConnections(); http.close(); });
  s.url = `http://127.0.0.1:${http.address().port}`;
  s.identities = () => s.requests.map((r) => [Number(r.headers["spool-seq"]), r.body]);
  return s;
}
const json = (value, status = 200, headers = {}) => ({ status, headers, body: JSON.stringify(value) });
const refused = (status, error, headers) => json({ error, quota: "q", limit: 3 }, status, headers);
const stored = () => json({ ok: true, seq: 1 }, 202);
const results = (...oks) => ({ body: oks.map((ok, i) => JSON.stringify({ line: i + 1, ok }) + "\n").join("") });
const stream = (...events) => ({ headers: { "Content-Type": "text/event-stream" },
  body: events.map(([name, id, data]) => `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`).join("") });
const all = async (items) => { const out = []; for await (const it of items) out.push(it); return out; };

test("a busy server, and an answer that is lost: the same entry again, not before the server said", async (t) => {
  const s = await server(t, refused(503, "busy", { "Retry-After": "1" }), cut, stored()), begun = performance.now();
  const ack = await new Client({ url: s.url }).thread("s").publish(item("x"));
  assert.ok(performance.now() - begun >= 1000);
  assert.deepEqual([ack.first, ack.last], [1, 1]);
  assert.equal(s.requests.length, 3);
  assert.equal(new Set(s.requests.map((r) => r.headers["spool-producer"] + r.headers["spool-seq"] + r.body)).size, 1);
});

test("patience ends; the same entries keep their sequences, others get those above", async (t) => {
  const full = () => refused(503, "full", { "Retry-After": "60" });
  const s = await server(t, full(), full(), stored(), stored(), full(), stored(), stored());
  const thread = new Client({ url: s.url, patience: 2 }).thread("s");
  for (let i = 0; i < 2; i++) {
    await assert.rejects(thread.publish(item("x")), (e) => e instanceof Unavailable && e.retryAfter === 60 && e.status === 503);
  }
  for (const text of ["x", "x"]) await thread.publish(item(text));
  await assert.rejects(thread.publish(new Uint8Array([1])), Unavailable);
  for (const byte of [2, 1]) await thread.publish(new Uint8Array([byte]));
  assert.deepEqual(s.identities().map(([seq]) => seq), [1, 1, 1, 2, 3, 4, 5]);
});

test("what failed in a thread keeps its sequences whatever is published to others, and those do not wait for it", async (t) => {
  const s = await server(t, refused(503, "full", { "Retry-After": "60" }), stored(), stored(), stored(),
    refused(429, "quota", { "Retry-After": "3" }), stored(), stored());
  const of = ({ path }, i) => [path.split("/")[3], s.identities()[i][0]];
  const client = new Client({ url: s.url, patience: 5 });
  await assert.rejects(client.thread("a").publish(item("x")), Unavailable);
  await client.thread("b").publish(item("y"));
  await client.thread("a").publish([item("x"), new Uint8Array([50])]);
  assert.deepEqual(s.requests.map(of), [["a", 1], ["b", 2], ["a", 1], ["a", 3]]);
  const waits = client.thread("a").publish(item("x")), begun = performance.now();
  while (s.requests.length < 5) await new Promise((later) => setTimeout(later, 10));
  await client.thread("b").publish(item("y"));
  assert.ok(performance.now() - begun < 2000);
  await waits;
  assert.deepEqual(s.requests.slice(4).map((r, i) => of(r, i + 4)), [["a", 4], ["b", 5], ["a", 4]]);
});

test("of lines that were cut off those without a result are sent again as they were", async (t) => {
  const torn = { body: '{"line":1,"ok":true,"seq":1}\n{"line":2,"ok":fal', torn: true };
  const s = await server(t, torn, cut, stored(), results(true, true));
  const ack = await new Client({ url: s.url }).thread("s").publish(["1", "2", "3", "4"]);
  assert.deepEqual([ack.first, ack.last], [1, 4]);
  assert.deepEqual(s.identities(), [[1, "1\n2\n3\n4\n"], [2, "2\n3\n4\n"], [2, "2"], [3, "3\n4\n"]]);
});

for (const rest of [["b", "c"], ["c"]]) {
  test(`what is refused for good is thrown, once; the rest, ${rest}, goes on under its sequences`, async (t) => {
    const last = rest.length === 2 ? [results(false, true), refused(400, "no")] : [stored()];
    const s = await server(t, results(true, false, true), results(false, true), refused(400, "no"), ...last);
    const thread = new Client({ url: s.url }).thread("s");
    await assert.rejects(thread.publish(["a", "b", "c"]), BadRequest);
    await thread.publish(rest).catch((e) => assert.ok(rest.length === 2 && e instanceof BadRequest));
    assert.deepEqual(s.identities()[3], rest.length === 2 ? [2, "b\nc\n"] : [3, "c"]);
  });
}

test("calls wait for each other, and entries with newlines and bytes go alone", async (t) => {
  const s = await server(t, stored(), stored(), stored());
  const thread = new Client({ url: s.url }).thread("s");
  await Promise.all([thread.publish(["[1,\n2]", new Uint8Array([51])], { dialect: "raw" }), thread.publish(item("木\ud800"))]);
  assert.deepEqual(s.identities().map(([seq]) => seq), [1, 2, 3]);
  assert.equal(JSON.parse(s.requests[2].body).content[0].text, "木\ud800");
});

test("applied", async (t) => {
  const s = await server(t, stored(), refused(503, "late", { "Retry-After": "0" }), json({ ok: true }), refused(409, "a dead letter"));
  const ack = await new Client({ url: s.url }).publisher({ producer: "ci-3", epoch: 2, seq: 6 }).publish("s", "main", item("x"));
  await ack.applied();
  await assert.rejects(ack.applied(), Conflict);
  assert.equal(s.requests.at(-1).path, "/v1/sessions/s/threads/main/applied?producer=ci-3&epoch=2&first=7&seq=7");
});

test("errors are of one family", async (t) => {
  const kinds = { 400: BadRequest, 401: NotPermitted, 403: NotPermitted, 404: NotFound, 409: Conflict, 410: NotFound, 413: BadRequest,
    429: Unavailable, 500: Unavailable, 503: Unavailable };
  for (const [status, Kind] of Object.entries(kinds)) {
    const s = await server(t, refused(Number(status), "why"));
    await assert.rejects(new Client({ url: s.url, patience: 0 }).thread("s").head(), (e) => {
      assert.ok(e instanceof Kind && e instanceof SpoolError && e.name === Kind.name, String(e));
      assert.deepEqual([e.status, e.quota, e.limit, /why/.test(e.message)], [Number(status), "q", 3, true]);
      return true;
    });
  }
});

test("a change that may have been done is not sent twice; one that was not taken is", async (t) => {
  const lost = await server(t, cut);
  await assert.rejects(new Client({ url: lost.url }).thread("s").end(), Unavailable);
  assert.equal(lost.requests.length, 1);
  await assert.rejects(new Client({ url: (await server(t, cut)).url }).thread("s").output("make", "x"), Unavailable);
  const busy = await server(t, refused(429, "busy", { "Retry-After": "0" }), json({ thread: "main" }));
  await new Client({ url: busy.url, token: "t" }).thread("s").end();
  assert.equal(busy.requests[1].headers.authorization, "Bearer t");
});

test("pages", async (t) => {
  const s = await server(t, json({ items: [{ n: 1 }], next: 2 }), json({ items: [{ n: 2 }] }));
  assert.deepEqual((await all(new Client({ url: s.url }).thread("s").itemsFrom())).map((it) => it.n), [1, 2]);
  assert.match(s.requests[1].path, /from=2/);
});

test("cut anywhere, a reader comes back with the last id that it has", async (t) => {
  const [one, two, three] = [1, 2, 3].map((n) => ["item", `${n};~A`, { n, item: {} }]);
  const first = stream(["open", "0;~A", { n: 0 }], one, two);
  const s = await server(t, { ...first, body: first.body.slice(0, -1), torn: true }, refused(503, "busy"), cut,
    stream(two, ["failed", "", { error: "away" }]), stream(three, ["reset", "3;~A", { reason: "removed" }]));
  assert.deepEqual((await all(new Client({ url: s.url }).thread("s").live({ from: 1 }))).map((it) => it.n), [1, 2, 3]);
  assert.deepEqual(s.requests.map((r) => r.headers["last-event-id"]), [undefined, "1;~A", "1;~A", "1;~A", "2;~A"]);
  assert.deepEqual(s.requests.map((r) => r.path.includes("from=1")), [true, false, false, false, false]);
});

test("what a stream is refused is thrown", async (t) => {
  const s = await server(t, refused(403, "not with this token"));
  await assert.rejects(all(new Client({ url: s.url }).thread("s").live()), NotPermitted);
});

test("of many sessions an item that comes twice is dropped", async (t) => {
  const at = { session: "s", thread: "main", n: 1, hash: "h" }, seen = [];
  const s = await server(t, stream(["item", "1", at], ["item", "2", at], ["item", "3", { ...at, n: 2 }]));
  for await (const it of new Client({ url: s.url }).subscribe({ since: "all" })) if (seen.push(it.n) === 2) break;
  assert.deepEqual(seen, [1, 2]);
});

test("signals and close end what waits for a server that is away", async (t) => {
  const s = await server(t);
  const gone = new Client({ url: s.url, fetch: () => Promise.reject(new TypeError("nobody is there")) }), stop = new AbortController();
  const follower = gone.thread("s").follow();
  setTimeout(() => { follower.close(); stop.abort(new Error("enough")); }, 100);
  assert.deepEqual(await all(follower), []);
  await assert.rejects(all(gone.thread("s").live({ signal: stop.signal })), /enough/);
  const ended = new AbortController();
  setTimeout(() => ended.abort(new Error("enough")), 100);
  await assert.rejects(gone.thread("s").publish(item("x"), { signal: ended.signal }), /enough/);
  await assert.rejects(new Client({ url: s.url, signal: AbortSignal.abort(new Error("enough")) }).thread("s").head(), /enough/);
});

test("what the types name is in the document of the API", (t) => {
  const file = new URL("../../internal/httpapi/schemas.json", import.meta.url);
  if (!existsSync(file)) return t.skip("outside of the repository");
  const schemas = JSON.parse(readFileSync(file)), types = readFileSync(new URL("./types.d.ts", import.meta.url), "utf8");
  const names = { Item: "item", ThreadInfo: "thread", SessionInfo: "session", Resolution: "resolution", Prompt: "prompt", RunInfo: "run",
    Artifact: "artifact", OutputResult: "output" };
  for (const [, name, members] of types.matchAll(/export interface (\w+) \{\n([^}]*)\}/g)) {
    const has = schemas[names[name]].properties;
    for (const [, member] of members.matchAll(/^  (\w+)\??:/gm)) assert.ok(has[member], `${name}.${member}`);
    delete names[name];
  }
  assert.deepEqual(names, {});
});

test("who finds no server is told where none answers, and a URL that is not one of HTTP is refused", async () => {
  const fetch = () => Promise.reject(new TypeError("fetch failed"));
  const spool = new Client({ url: "http://127.0.0.1:7000", patience: 0, fetch });
  const where = (e) => e instanceof Unavailable && e.message.includes("http://127.0.0.1:7000/v1/") && e.message.includes("SPOOL_HTTP");
  await assert.rejects(spool.thread("s").head(), where);
  await assert.rejects(spool.thread("s").publish(item("x")), where);
  assert.throws(() => new Client({ url: "nats://127.0.0.1:4222" }), /"nats:.*" is no address: use http:\/\/HOST:PORT/);
});

test("a name that fetch would take for another place in the path is refused, and nothing is asked there", async (t) => {
  const s = await server(t), spool = new Client({ url: s.url });
  const refuses = (promise) => assert.rejects(promise, (e) => e instanceof BadRequest && e.message.includes("is empty, or . or .."));
  await refuses(spool.session("..").threads());
  await refuses(spool.thread("s", "..").remove());
  await refuses(spool.thread(".").publish(item("x")));
  await refuses(spool.thread("").publish(item("x")));
  await refuses(all(spool.thread("..").live()));
  assert.deepEqual(s.requests, []);
});
