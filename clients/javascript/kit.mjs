// What pkg/spooltest holds this client to: publishes a line of stdin after the other, or prints the first items of a thread.
//
//	kit.mjs publish SESSION THREAD < entries
//	kit.mjs follow SESSION THREAD COUNT
import { text } from "node:stream/consumers";
import { Client } from "./index.js";

const [command, session, name, count] = process.argv.slice(2);
const thread = new Client().thread(session, name);
if (command === "publish") {
  await thread.publish((await text(process.stdin)).split("\n").filter(Boolean));
} else {
  let n = 0;
  for await (const it of thread.live({ from: 1 })) {
    console.log(JSON.stringify(it.item));
    if (++n === Number(count)) break;
  }
}
