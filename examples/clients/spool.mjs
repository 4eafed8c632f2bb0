#!/usr/bin/env node
// Spool over NATS from JavaScript or TypeScript (docs/protocol.md). Needs @nats-io/transport-node and @nats-io/jetstream.
//
//	spool.mjs publish SESSION THREAD < entries     an entry of the dialect item a line; prints a line when it is durable
//	spool.mjs follow SESSION THREAD COUNT          prints that many items, from the first one
//
// The server is NATS_URL, else nats://127.0.0.1:4222.
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { connect, headers } from "@nats-io/transport-node";
import { jetstream, JetStreamApiError } from "@nats-io/jetstream";

const json = headers();
json.set("Content-Type", "application/json");

/** Whether publishing the same event again can help: the server is busy, away, or SPOOL_EVENTS is full. */
function passing(error) {
  if (!(error instanceof JetStreamApiError)) return true;
  return error.code === 10077 || error.status === 429 || error.status === 503;
}

export class Spool {
  #js;
  #producer = "~" + randomUUID();
  #seq = 0;
  #last = Promise.resolve();

  constructor(connection) {
    this.#js = jetstream(connection);
  }

  /** Appends an entry; resolves when it is durable. Calls wait for each other: one publish is under way at a time. */
  publish(session, thread, body, dialect = "item") {
    const event = { producer: this.#producer, seq: ++this.#seq, dialect, body };
    const stored = this.#last.then(() => this.#send(`spool.v1.event.${session}.${thread}.entry`, JSON.stringify(event)));
    this.#last = stored.catch(() => {});
    return stored;
  }

  async #send(subject, payload) {
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this.#js.publish(subject, payload, { headers: json })).seq;
      } catch (error) {
        if (!passing(error) || attempt === 60) throw error;
        await pause(Math.min(2000, 10 * 2 ** attempt) * (0.5 + Math.random() / 2)); // the same event again: it is applied once
      }
    }
  }

  /** The items of a thread, from the first one that is kept, each once; without those of the user notUser. */
  async *items(session, thread, notUser) {
    const consumer = await this.#js.consumers.get("SPOOL_ITEMS", { filter_subjects: `spool.v1.item.${session}.${thread}.>` });
    const last = new Map();
    // expires: also how long it waits before it asks again when a server that came back has no answer yet
    for await (const message of await consumer.consume({ expires: 2000 })) {
      const item = message.json();
      const life = message.headers?.get("Spool-Life") ?? ""; // another thread of the name has items from 1 on
      if (item.n <= (last.get(life) ?? 0)) continue; // after a crash of a persister an item can be stored twice
      last.set(life, item.n);
      if (notUser && item.user_id === notUser) continue; // a program that posts and reads would read itself
      yield item;
    }
  }
}

async function main(command, session, thread, count) {
  const { protocol, host, username, password } = new URL(process.env.NATS_URL ?? "nats://127.0.0.1:4222");
  const user = username && { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
  const again = { maxReconnectAttempts: -1, reconnectTimeWait: 500 }; // a follower outlives its server, however long that is away
  const connection = await connect({ servers: `${protocol}//${host}`, ...again, ...user });
  const spool = new Spool(connection);
  if (command === "publish") {
    for await (const line of createInterface({ input: process.stdin })) {
      console.log(await spool.publish(session, thread, JSON.parse(line)));
    }
  } else {
    let n = 0;
    for await (const item of spool.items(session, thread)) {
      console.log(JSON.stringify(item));
      if (++n === Number(count)) break;
    }
  }
  await connection.close();
}

if (import.meta.url === `file://${process.argv[1]}`) {
  const words = process.argv.slice(2);
  if (!["publish", "follow"].includes(words[0]) || words.length < 3) {
    console.error("usage: spool.mjs publish|follow SESSION THREAD [COUNT]");
    process.exit(2);
  }
  main(...words).catch((error) => {
    console.error(`spool.mjs: ${error.message}`);
    process.exit(1);
  });
}
