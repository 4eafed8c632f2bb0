// The SDK's own functions give the same answers over Spool as over the directory of Claude Code, and over the SDK's store in memory.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tmpdir } from "node:os";
import { test } from "node:test";

const home = realpathSync(mkdtempSync(join(tmpdir(), "sdk-")));
process.env.CLAUDE_CONFIG_DIR = join(home, ".claude");
const sdk = await import("@anthropic-ai/claude-agent-sdk");
const { SpoolSessionStore } = await import("./index.js");

const dir = join(home, "work");
const projectKey = dir.replace(/[^a-zA-Z0-9]/g, "-");
const id = randomUUID();
const line = (type, parentUuid, message, more) => ({
  parentUuid, isSidechain: false, userType: "external", cwd: dir, sessionId: id, version: "2.1.330", gitBranch: "main", type, message,
  uuid: randomUUID(), timestamp: new Date(1_763_632_800_000).toISOString(), ...more,
});
const asked = line("user", null, { role: "user", content: "Plant a plum" });
const said = line("assistant", asked.uuid, { id: "m1", role: "assistant", model: "m", content: [{ type: "text", text: "Planted" }] });
const more = line("user", said.uuid, { role: "user", content: "And a pear" });
const agent = { isSidechain: true, agentId: "a1" };
const task = line("user", null, { role: "user", content: "Dig" }, agent);
const dug = line("assistant", task.uuid, { id: "m2", role: "assistant", model: "m", content: [{ type: "text", text: "Dug" }] }, agent);

mkdirSync(dir);
const project = join(home, ".claude", "projects", projectKey);
mkdirSync(join(project, id, "subagents"), { recursive: true });
const write = (name, lines) => writeFileSync(join(project, name), lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
write(`${id}.jsonl`, [asked, said, more]);
write(`${id}/subagents/agent-a1.jsonl`, [task, dug]);
writeFileSync(join(project, id, "subagents", "agent-a1.meta.json"), JSON.stringify({ agentType: "gardener", toolUseId: "t1" }));

/** Without what each place says of itself: times, sizes, ids that are made anew. */
const own = ["lastModified", "fileSize", "parent_tool_use_id"];
const plain = (value) => JSON.parse(JSON.stringify(value, (name, of) => (own.includes(name) ? undefined : of)));

for (const fold of [undefined, sdk.foldSessionSummary]) {
  test(`the SDK's functions, ${fold ? "with" : "without"} summaries`, async () => {
    const url = process.env.SPOOL_HTTP;
    const spool = new SpoolSessionStore({ url, foldSessionSummary: fold });
    const memory = new sdk.InMemorySessionStore();
    await spool.delete({ projectKey, sessionId: id });
    for (const sessionStore of [spool, memory]) await sdk.importSessionToStore(id, sessionStore, { dir });
    await sdk.importSessionToStore(id, spool, { dir }); // again: adds nothing but what has no uuid
    const [mine, theirs, files] = [{ dir, sessionStore: spool }, { dir, sessionStore: memory }, { dir }];
    const same = async (what, also, ...args) => {
      const got = plain(await sdk[what](...args, mine));
      assert.deepEqual(got, plain(await sdk[what](...args, theirs)), what);
      if (also) assert.deepEqual(got, plain(await sdk[what](...args, files)), `${what}, of files`);
      return got;
    };
    assert.equal((await same("getSessionMessages", true, id)).length, 3);
    assert.equal((await same("listSessions", true)).length, 1);
    await same("getSessionInfo", true, id);
    assert.deepEqual(await same("listSubagents", true, id), ["a1"]);
    assert.equal((await same("getSubagentMessages", true, id, "a1")).length, 2);
    const [dig] = await sdk.getSubagentMessages(id, "a1", mine);
    assert.equal(dig.parent_tool_use_id, "t1"); // what lay beside the transcript came, too
    for (const options of [mine, theirs]) {
      await sdk.renameSession(id, "Orchard", options);
      await sdk.tagSession(id, "trees", options);
    }
    const info = await same("getSessionInfo", false, id);
    assert.equal(info.customTitle, "Orchard");
    const forks = [await sdk.forkSession(id, mine), await sdk.forkSession(id, theirs)].map((one) => one.sessionId);
    const texts = async (fork, options) => (await sdk.getSessionMessages(fork, options)).map((one) => one.message.content);
    assert.deepEqual(await texts(forks[0], mine), await texts(forks[1], theirs));
    await sdk.deleteSession(id, mine);
    await sdk.deleteSession(id, theirs);
    assert.deepEqual(await same("getSessionMessages", false, id), []);
    assert.deepEqual((await sdk.listSessions(mine)).map((one) => one.sessionId), [forks[0]]);
    await sdk.deleteSession(forks[0], mine);
  });
}
