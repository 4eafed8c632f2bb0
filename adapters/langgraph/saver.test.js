import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { DeltaSnapshot, emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { expect, test } from "vitest";
import { SpoolSaver } from "./index.js";

const url = process.env.SPOOL_HTTP;
let made = 0;
const fresh = () => `own-${process.pid}-${++made}`;
const saver = (name, more) => new SpoolSaver({ url, name, ...more });
const at = (thread_id, checkpoint_ns = "") => ({ configurable: { thread_id, checkpoint_ns } });
const meta = { source: "loop", step: 0, parents: {} };

// Puts a checkpoint with these values behind config, all of them new.
function put(of, config, values, versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, of.getNextVersion()]))) {
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(3), channel_values: values, channel_versions: versions };
  return of.put(config, checkpoint, meta, Object.fromEntries(Object.keys(values).map((channel) => [channel, versions[channel]])));
}
const values = async (of, config) => (await of.get(config))?.channel_values;
async function all(of, config, options) {
  const found = [];
  for await (const tuple of of.list(config, options)) found.push(tuple);
  return found;
}

test("what another process wrote is read, and values that did not change are not stored again", async () => {
  const name = fresh();
  const [one, other] = [saver(name), saver(name)];
  const first = await put(one, at("t"), { big: "x".repeat(300_000), small: 1 }, { big: 1, small: 1 });
  expect((await values(other, at("t"))).small).toBe(1);
  let last = first;
  for (let i = 2; i <= 10; i++) {
    const [channel_values, channel_versions] = [{ big: "x".repeat(300_000), small: i }, { big: 1, small: i }];
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(3), channel_values, channel_versions };
    last = await (i % 2 ? one : other).put(last, checkpoint, meta, { small: i });
  }
  expect(await values(one, at("t"))).toEqual({ big: "x".repeat(300_000), small: 10 });
  const stored = await fetch(`${url}/v1/stream/${name}_t/main`).then((answer) => answer.text());
  expect(stored.length).toBeLessThan(320_000);
});

test("names, texts and bytes of any kind come back", async () => {
  const name = fresh();
  const one = saver(name);
  const odd = ["a/b", "ü", "_", "..", "x".repeat(500), "__proto__", "A", "a", "line\nbreak", "*", "🙂"];
  for (const thread of odd) {
    const odd = { thread, bytes: new Uint8Array([0, 255, 128]), ["__proto__"]: 1, lone: "\ud800", "": null };
    await put(one, at(thread, `ns of ${thread}`), odd);
  }
  for (const thread of odd) {
    const got = await values(saver(name), at(thread, `ns of ${thread}`));
    expect(got.thread).toBe(thread);
    expect([...got.bytes]).toEqual([0, 255, 128]);
    expect(got[""]).toBe(null);
  }
  expect(new Set((await all(saver(name), {})).map(({ config }) => config.configurable.thread_id))).toEqual(new Set(odd));
  await expect(put(one, at(""), {})).rejects.toThrow("thread_id");
  await expect(put(one, at(7), {})).rejects.toThrow("thread_id");
  expect(() => new SpoolSaver({ name: "a b" })).toThrow("name");
});

test("a checkpoint larger than an append", async () => {
  const name = fresh();
  const big = "é\"\n".repeat(4_000_000); // 20 MB of JSON
  const config = await put(saver(name), at("t"), { big });
  await saver(name).putWrites(config, [["big", big]], "task");
  const tuple = await saver(name).getTuple(at("t"));
  expect(tuple.checkpoint.channel_values.big === big).toBe(true);
  expect(tuple.pendingWrites[0][2] === big).toBe(true);
});

test("two branches that give a version the same number keep their values apart", async () => {
  const one = saver(fresh());
  const root = await put(one, at("t"), { n: 0 }, { n: 1 });
  const left = await put(one, root, { n: "left" }, { n: 2 });
  const right = await put(one, root, { n: "right" }, { n: 2 });
  const under = await one.put(left, { ...emptyCheckpoint(), id: uuid6(3), channel_versions: { n: 2 } }, meta, {});
  expect(await values(one, left)).toEqual({ n: "left" });
  expect(await values(one, right)).toEqual({ n: "right" });
  expect(await values(one, under)).toEqual({ n: "left" });
});

test("writes: an error gives way to the next one, another write stays, and the order is LangGraph's", async () => {
  const one = saver(fresh());
  const config = await put(one, at("t"), {});
  await one.putWrites(config, [["b", 1], ["__error__", "first"]], "task-2", "~2");
  await one.putWrites(config, [["b", 2], ["__error__", "second"]], "task-2", "~2");
  await one.putWrites(config, [["a", 3]], "task-1", "~3");
  const { pendingWrites } = await one.getTuple(config);
  expect(pendingWrites).toEqual([["task-2", "__error__", "second"], ["task-2", "b", 1], ["task-1", "a", 3]]);
});

test("deleted threads are gone for all, and their names can be used again", async () => {
  const name = fresh();
  const [one, other] = [saver(name), saver(name)];
  await put(one, at("t"), { n: 1 });
  expect(await values(other, at("t"))).toEqual({ n: 1 });
  await one.deleteThread("t");
  expect(await other.getTuple(at("t"))).toBeUndefined();
  expect(await all(other, {})).toEqual([]);
  await one.deleteThread("t");
  await one.deleteThread("never");
  await put(other, at("t"), { n: 2 });
  expect(await values(one, at("t"))).toEqual({ n: 2 });
  expect((await all(one, at("t"))).length).toBe(1);
});

test("a stream that was removed by other means is begun anew, also for who had it open", async () => {
  const name = fresh();
  const [one, other] = [saver(name), saver(name)];
  await put(one, at("t"), { n: 1 });
  await put(one, at("t"), { n: 2 });
  expect(await values(other, at("t"))).toEqual({ n: 2 });
  expect((await fetch(`${url}/v1/stream/${name}_t/main`, { method: "DELETE" })).ok).toBe(true);
  expect(await one.getTuple(at("t"))).toBeUndefined();
  await Promise.all([put(one, at("t", "a"), { n: 3 }), put(other, at("t", "b"), { n: 4 })]);
  for (const of of [one, other, saver(name)]) {
    expect((await all(of, {})).map(({ checkpoint }) => checkpoint.channel_values.n).sort()).toEqual([3, 4]);
  }
});

test("a copy shares what was, goes on alone, and outlives its source", async () => {
  const name = fresh();
  const one = saver(name);
  const first = await put(one, at("from"), { n: 1 });
  await one.putWrites(first, [["n", 2]], "task");
  await one.copyThread("from", "to");
  await put(one, first, { n: "from" });
  await put(one, (await one.getTuple(at("to"))).config, { n: "to" });
  expect(await values(saver(name), at("from"))).toEqual({ n: "from" });
  expect(await values(saver(name), at("to"))).toEqual({ n: "to" });
  await expect(one.copyThread("from", "to")).rejects.toThrow("there already");
  await expect(one.copyThread("none", "other")).rejects.toThrow("no thread");
  await one.deleteThread("from");
  const kept = await all(saver(name), at("to"));
  expect(kept.map(({ checkpoint }) => checkpoint.channel_values.n)).toEqual(["to", 1]);
  expect(kept[1].pendingWrites).toEqual([["task", "n", 2]]);
  await put(one, at("from"), { n: "anew" });
  expect(await values(saver(name), at("from"))).toEqual({ n: "anew" });
});

test("prune keeps the latest checkpoints, and what their delta channels are made of", async () => {
  const name = fresh();
  const one = saver(name);
  let config = await put(one, at("t"), { messages: new DeltaSnapshot(["old"]), n: 0 }, { messages: 1, n: 1 });
  await one.putWrites(config, [["messages", ["before"]]], "task");
  config = await put(one, config, { messages: new DeltaSnapshot([0]), n: 1 }, { messages: 2, n: 2 });
  await one.putWrites(config, [["messages", [1]], ["n", 9]], "task");
  for (let i = 2; i < 6; i++) {
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(3), channel_values: { n: i }, channel_versions: { messages: i + 1, n: i + 1 } };
    config = await one.put(config, checkpoint, meta, { messages: i + 1, n: i + 1 });
    await one.putWrites(config, [["messages", [i]], ["n", 9]], `task-${i}`);
  }
  await put(one, at("t", "child"), { inner: 1 });
  const before = { tuple: await one.getTuple(at("t")), history: await one.getDeltaChannelHistory({ config, channels: ["messages"] }) };
  const [open, late] = [saver(name), saver(name)];
  await open.getTuple(at("t"));
  await late.getTuple(at("t"));

  await Promise.all([one.prune(["t"]), saver(name).prune(["t", "none"]), saver(name).prune(["t"])]);
  for (const of of [one, open, saver(name)]) {
    expect(await of.getTuple(at("t"))).toEqual(before.tuple);
    expect(await of.getDeltaChannelHistory({ config, channels: ["messages"] })).toEqual(before.history);
    expect((await all(of, at("t", ""))).length).toBe(1);
    expect((await all(of, { configurable: { thread_id: "t" } })).length).toBe(2);
  }
  await put(late, config, { n: "on" });
  expect((await all(saver(name), at("t", ""))).map(({ checkpoint }) => checkpoint.channel_values.n)).toEqual(["on", 5]);
  await one.prune(["t"], { strategy: "delete" });
  expect(await all(late, {})).toEqual([]);
  await expect(one.prune(["t"], { strategy: "some" })).rejects.toThrow("strategy");
});

test("a prune that was interrupted is done by whoever comes next", async () => {
  const name = fresh();
  const one = saver(name);
  const first = await put(one, at("t"), { n: 1 });
  await put(one, first, { n: 2 });
  const answer = await fetch(`${url}/v1/stream/${name}_t/main`, {
    method: "POST", headers: { "Content-Type": "application/json", "Stream-Closed": "true" }, body: '[{"prune":"latest"}]',
  });
  expect(answer.ok).toBe(true);
  const [reader, writer] = [saver(name), saver(name)];
  await Promise.all([reader.getTuple(at("t")), put(writer, at("t", "x"), { m: 1 })]);
  expect((await all(one, at("t", ""))).map(({ checkpoint }) => checkpoint.channel_values.n)).toEqual([2]);
  expect(await values(one, at("t", "x"))).toEqual({ m: 1 });
});

test("many writers at a time", async () => {
  const name = fresh();
  const savers = Array.from({ length: 8 }, () => saver(name, { cacheBytes: 1 }));
  const config = await put(savers[0], at("t"), {});
  const ten = Array.from({ length: 10 }, (_, j) => j);
  await Promise.all(savers.flatMap((of, i) => ten.map((j) => of.putWrites(config, [["n", i * 10 + j]], `task-${i}-${j}`))));
  const { pendingWrites } = await savers[7].getTuple(config);
  expect(pendingWrites.map(([, , n]) => n).sort((a, b) => a - b)).toEqual(Array.from({ length: 80 }, (_, i) => i));
});

test("a program that is killed goes on where it was", { timeout: 60_000 }, async () => {
  const name = fresh();
  const run = (until) =>
    new Promise((resolve, reject) => {
      const env = { ...process.env, NAME: name };
      const program = spawn(process.execPath, ["example.js"], { env, stdio: ["ignore", "pipe", "inherit"] });
      const said = [];
      createInterface(program.stdout).on("line", (line) => {
        said.push(line);
        if (line === until) program.kill("SIGKILL");
      });
      program.on("error", reject).on("close", (code) => resolve({ said, code }));
    });
  const killed = await run("step 3");
  expect(killed.code).toBe(null);
  const { said, code } = await run();
  expect(code).toBe(0);
  expect(said.at(-1)).toBe("total 1,2,3,4,5,6");
  const steps = said.filter((line) => line.startsWith("step")).map((line) => Number(line.slice(5)));
  expect(steps[0]).toBeGreaterThan(2); // of what was done before, only the step that the death cut off
});
