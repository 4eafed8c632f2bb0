// An editor of the protocol's own SDK, and the agent beside it, with spool exec --acp between them: a session is recorded, its agent and
// recorder are killed, and it goes on in new ones.
import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { test } from "node:test";
import * as acp from "@agentclientprotocol/sdk";

const agent = new URL("agent.js", import.meta.url).pathname;
const spool = (...args) => execFileSync(process.env.SPOOL, args, { encoding: "utf8" });

// edit starts the agent and works with it. The process is ended with a kill if use asks for that, or by the end of its input.
async function edit(use, kill = false) {
  const child = spawn(process.env.SPOOL, ["exec", "--acp", "--", "node", agent], { stdio: ["pipe", "pipe", "inherit"] });
  const updates = [];
  let asked = 0;
  await acp
    .client({ name: "editor" })
    .onRequest(acp.methods.client.session.requestPermission, () => {
      asked++;
      return { outcome: { outcome: "selected", optionId: "yes" } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => void updates.push(params))
    .connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (ctx) => {
      const { agentCapabilities } = await ctx.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
      assert.equal(agentCapabilities.loadSession, true);
      await use(ctx, updates);
      if (kill) child.kill("SIGKILL");
    });
  if (!kill) child.stdin.destroy();
  await once(child, "exit");
  return { updates, asked };
}

const prompt = (ctx, sessionId, text) => ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
const said = (updates, kind) => updates.filter((u) => u.update.sessionUpdate === kind).map((u) => u.update.content.text).join("");

test("a session outlives its agent", { timeout: 60_000 }, async () => {
  let sessionId;
  const first = await edit(async (ctx) => {
    ({ sessionId } = await ctx.request(acp.methods.agent.session.new, { cwd: "/orchard", mcpServers: [] }));
    const { stopReason } = await prompt(ctx, sessionId, "apples are ripe");
    assert.equal(stopReason, "end_turn");
  }, true);
  assert.equal(said(first.updates, "agent_message_chunk"), "I have heard: apples are ripe");
  assert.equal(first.asked, 1);

  const name = `acp-parrot-${sessionId}`;
  const shown = spool("show", name);
  for (const want of ["apples are ripe", "What have I heard?", "Listen", "Prompt approved: Yes", "I have heard: apples are ripe"]) {
    assert.ok(shown.includes(want), `spool show has no ${want}:\n${shown}`);
  }
  assert.match(spool("search", "apples"), new RegExp(name));

  const second = await edit(async (ctx, updates) => {
    const { sessions } = await ctx.request(acp.methods.agent.session.list, { cwd: "/orchard" });
    assert.deepEqual(sessions.map((s) => [s.sessionId, s.title]), [[sessionId, "apples are ripe"]]);
    await ctx.request(acp.methods.agent.session.load, { sessionId, cwd: "/orchard", mcpServers: [] });
    assert.deepEqual(updates.map(({ sessionId, update }) => ({ sessionId, update })), [
      { sessionId, update: { sessionUpdate: "user_message_chunk", content: { type: "text", text: "apples are ripe" } } },
      ...first.updates.map(({ sessionId, update }) => ({ sessionId, update })),
    ]);
    updates.length = 0;
    await prompt(ctx, sessionId, "and pears?");
  });
  const answer = said(second.updates, "agent_message_chunk");
  for (const want of ["I have heard:", "apples are ripe", "and pears?"]) {
    assert.ok(answer.includes(want), `the agent answers ${answer}`);
  }
});
