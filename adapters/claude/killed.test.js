// The server is killed again and again while sessions are appended to: what an append returned for is there, once and in order.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { SpoolSessionStore } from "./index.js";

const port = await new Promise((done) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => done(port));
  });
});
const data = mkdtempSync(join(tmpdir(), "killed-"));
const command = ["up", "--data", data, "--listen", "127.0.0.1:0", "--http", `127.0.0.1:${port}`];
const up = () => spawn(process.env.SPOOL, command, { stdio: "ignore" });
const ended = (child) => new Promise((done) => child.once("exit", done));

test("kill -9 of the server", async () => {
  let server = up(), going = true;
  const store = new SpoolSessionStore({ url: `http://127.0.0.1:${port}` });
  const writers = Array.from({ length: 4 }, async () => {
    const key = { projectKey: "-p", sessionId: randomUUID() }, entries = [];
    while (going) {
      const next = [1, 2, 3].map((n) => (n === 2 ? { type: "mode", mode: `${entries.length}` } : { type: "user", uuid: randomUUID(), n }));
      await store.append(key, next);
      entries.push(...next);
    }
    return [key, entries];
  });
  for (let kills = 0; kills < 3; kills++) {
    await pause(1200);
    const dead = ended(server);
    server.kill("SIGKILL");
    await dead;
    server = up();
  }
  await pause(1500);
  going = false;
  try {
    for (const [key, entries] of await Promise.all(writers)) {
      assert.ok(entries.length > 50, `${entries.length} entries`);
      assert.deepEqual(await store.load(key), entries);
    }
  } finally {
    const dead = ended(server);
    server.kill("SIGTERM");
    await dead;
  }
});
