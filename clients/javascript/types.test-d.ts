// What a program in TypeScript sees of the types; compiled by clients/run.
import { Client, item, type Item } from "./index.js";

const thread = new Client({ url: "http://127.0.0.1:7717", patience: 3 }).thread("s");
const ack = await thread.publish([item("x"), "{}", new Uint8Array()], { dialect: "item" });
const first: number = ack.first;
await ack.applied();
for await (const it of thread.live({ from: first, signal: AbortSignal.timeout(1) })) {
  const same: Item = it;
  console.log(same.n + 1);
}
for await (const { name, id } of thread.follow()) console.log(name + id);

// @ts-expect-error: no such option
thread.live({ form: 1 });
// @ts-expect-error: a thread is named
new Client().thread(3);
// @ts-expect-error: items have numbers
const text: string = (await thread.fullItem(1)).n;
