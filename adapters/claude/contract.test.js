// What the SDK asks of a session store, held against a real spool up.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";
import { foldSessionSummary } from "@anthropic-ai/claude-agent-sdk";
import { SpoolSessionStore } from "./index.js";

const url = process.env.SPOOL_HTTP;
const make = () => new SpoolSessionStore({ url, foldSessionSummary });
const store = make();
const fresh = () => ({ projectKey: `-p-${randomUUID()}`, sessionId: randomUUID() });
const entry = (text, more) => ({
  type: "user", uuid: randomUUID(), timestamp: new Date().toISOString(), message: { role: "user", content: `${text}` }, ...more,
});
const many = (n) => Array.from({ length: n }, (_, i) => entry(i));
const sub = "subagents/agent-1";

test("what was appended is loaded, in order and deep-equal", async () => {
  const key = fresh();
  const odd = { type: "tag", tag: "x/y", deep: [1, null, { "ü😀\u2028": "\ud800" }], n: [-1.5, 1e21, 0.1] };
  const entries = [entry("a"), odd, entry("b")];
  await store.append(key, entries);
  assert.deepEqual(await store.load(key), entries);
  assert.deepEqual(await make().load(key), entries);
});

test("null where nothing was appended, or nothing at all", async () => {
  const key = fresh();
  assert.equal(await store.load(key), null);
  await store.append(key, []);
  assert.equal(await store.load(key), null);
  assert.deepEqual(await store.listSessions(key.projectKey), []);
});

test("appends of a process keep the order of the calls", async () => {
  const key = fresh(), entries = many(40);
  await Promise.all(entries.map((one) => store.append(key, [one])));
  assert.deepEqual(await store.load(key), entries);
});

test("a load behind an append sees it, also elsewhere", async () => {
  const key = fresh(), entries = [], other = make();
  for (const one of many(20)) {
    await store.append(key, [one]);
    entries.push(one);
    assert.deepEqual(await other.load(key), entries);
  }
});

test("replays and overlaps add nothing, by any process, at once", async () => {
  for (let round = 0; round < 5; round++) {
    const key = fresh(), entries = many(6);
    await Promise.all([make(), make(), make()].map((one, i) => one.append(key, entries.slice(i, i + 4))));
    await Promise.all([make(), make()].map((one) => one.append(key, entries)));
    const texts = (list) => list.map((one) => one.message.content).sort();
    assert.deepEqual(texts(await store.load(key)), texts(entries));
  }
});

test("entries without a uuid are kept, but where a replay brings them", async () => {
  const key = fresh(), tag = { type: "tag", tag: "t" }, entries = [entry("a"), tag, entry("b"), tag];
  await store.append(key, [tag]);
  await store.append(key, [tag]);
  await store.append(key, entries);
  await make().append(key, entries);
  assert.deepEqual(await store.load(key), [tag, tag, ...entries]);
});

test("projects, sessions and subpaths are apart", async () => {
  const a = fresh(), keys = [a, { ...a, projectKey: `${a.projectKey}-b` }, { ...a, sessionId: randomUUID() }, { ...a, subpath: sub }];
  for (const [i, key] of keys.entries()) await store.append(key, [entry(i)]);
  for (const [i, key] of keys.entries()) assert.equal((await store.load(key))[0].message.content, `${i}`);
});

test("a list has times of the store, and no sessions of subpaths alone", async () => {
  const a = fresh(), b = { ...a, sessionId: randomUUID() }, begun = Date.now() - 1000;
  await store.append(a, [{ type: "tag", tag: "no time" }]);
  await store.append(b, [entry("old", { timestamp: "2020-01-01T00:00:00.000Z" })]);
  await store.append({ ...a, sessionId: randomUUID(), subpath: sub }, [entry("of a subagent")]);
  const list = await store.listSessions(a.projectKey);
  assert.deepEqual(list.map((one) => one.sessionId).sort(), [a.sessionId, b.sessionId].sort());
  for (const { mtime } of list) assert.ok(Number.isInteger(mtime) && mtime > begun && mtime < Date.now() + 1000, `mtime ${mtime}`);
});

test("subkeys, nested and odd ones, without the session's own", async () => {
  const key = fresh(), subpaths = [sub, "subagents/workflows/run-7/agent-1", "subagents/agent-ä.b", "x", "..", "=", "summary", "a%2Fb"];
  await store.append(key, [entry("main")]);
  for (const subpath of subpaths) await store.append({ ...key, subpath }, [entry(subpath)]);
  assert.deepEqual((await store.listSubkeys(key)).sort(), subpaths.sort());
  for (const subpath of subpaths) assert.equal((await store.load({ ...key, subpath }))[0].message.content, subpath);
  assert.deepEqual(await store.listSubkeys(fresh()), []);
});

test("long and odd names never meet", async () => {
  const { projectKey } = fresh(), long = "ü".repeat(300);
  const ids = ["team/1", "team_1", "team%2F1", ".", "..", "=..", "a b?c#d", long, `${long}x`, "x".repeat(300)];
  for (const sessionId of ids) await store.append({ projectKey, sessionId }, [entry(sessionId)]);
  for (const sessionId of ids) assert.equal((await store.load({ projectKey, sessionId }))[0].message.content, sessionId);
  assert.deepEqual((await store.listSessions(projectKey)).map((one) => one.sessionId).sort(), ids.sort());
  for (const odd of ["..", `${projectKey}/..`, `${projectKey}%2F`, long]) {
    assert.equal(await store.load({ projectKey: odd, sessionId: "team/1" }), null);
  }
});

test("a session is deleted with its subpaths, a subpath alone, and begins anew", async () => {
  const key = fresh(), other = { ...key, sessionId: randomUUID() }, first = entry("first");
  await store.delete(key);
  for (const one of [key, { ...key, subpath: sub }, { ...key, subpath: "x" }, other]) await store.append(one, [first]);
  await store.delete({ ...key, subpath: sub });
  assert.equal(await store.load({ ...key, subpath: sub }), null);
  assert.deepEqual(await store.listSubkeys(key), ["x"]);
  await store.delete(key);
  assert.equal(await store.load(key), null);
  assert.equal(await store.load({ ...key, subpath: "x" }), null);
  assert.deepEqual((await store.listSessions(key.projectKey)).map((one) => one.sessionId), [other.sessionId]);
  await store.append(key, [first]);
  assert.deepEqual(await store.load(key), [first]);
  assert.deepEqual(await store.listSubkeys(key), []);
});

test("large entries and many come back whole", async () => {
  const key = fresh(), entries = [entry("x".repeat(700_000)), ...many(1200)];
  await store.append(key, entries);
  assert.deepEqual(await store.load(key), entries);
});

test("summaries are those of the transcript, whoever folded, and no older than it", async () => {
  const key = fresh(), stores = [make(), make(), new SpoolSessionStore({ url })]; // the last one folds nothing
  const title = { type: "custom-title", customTitle: "T", sessionId: key.sessionId };
  const entries = [...many(12).map((one, i) => ({ ...one, cwd: `/w${i}` })), title];
  await Promise.all(entries.map((one, i) => stores[i % 3].append(key, [one])));
  await stores[0].append(key, [entry("last")]);
  const whole = foldSessionSummary(undefined, key, await store.load(key), { mtime: 0 });
  const [one, ...rest] = await store.listSessionSummaries(key.projectKey);
  assert.deepEqual([one.sessionId, one.data, rest], [key.sessionId, whole.data, []]);
  assert.ok(one.mtime >= (await store.listSessions(key.projectKey))[0].mtime);
  assert.equal(stores[2].listSessionSummaries, undefined);
});

test("a summary that the SDK for Python made, whose form is another one, is made anew", async () => {
  const key = fresh(), plain = new SpoolSessionStore({ url });
  await plain.append(key, many(2));
  const path = new URL(`/v1/claude/${key.projectKey}/${key.sessionId}?summary`, url);
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(path, { method: "PUT", body: `{"n":9,"python":{"is_sidechain":true}}`, headers });
  assert.equal(answer.status, 200);
  assert.deepEqual(await store.listSessionSummaries(key.projectKey), []);
  await store.append(key, [entry("last")]);
  const [one] = await store.listSessionSummaries(key.projectKey);
  assert.deepEqual(one.data, foldSessionSummary(undefined, key, await store.load(key), { mtime: 0 }).data);
});

test("an append that cannot be made is an error, in time", async () => {
  const key = fresh(), away = new SpoolSessionStore({ url: "http://127.0.0.1:1", patience: 200 });
  await assert.rejects(away.append(key, [entry("x")]), /Spool, POST/);
  await assert.rejects(store.append({ ...key, sessionId: "" }, [entry("x")]));
  await store.append(key, [entry("y")]);
});

test("a server that takes a request and does not answer is tried no longer than one that is away", async () => {
  const silent = createServer(() => {});
  await new Promise((done) => silent.listen(0, "127.0.0.1", done));
  const store = new SpoolSessionStore({ url: `http://127.0.0.1:${silent.address().port}`, patience: 300 });
  const late = setTimeout(() => silent.closeAllConnections(), 5000), begun = Date.now();
  await assert.rejects(store.append(fresh(), [entry("x")]), /Spool, POST/);
  clearTimeout(late);
  silent.closeAllConnections();
  silent.close();
  assert.ok(Date.now() - begun < 5000);
});
