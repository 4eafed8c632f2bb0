// An agent that remembers nothing when it ends, and has no sessions to list or load: spool exec --acp gives it these.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const heard = new Map(); // what each session was asked, by its id

acp
  .agent({ name: "parrot" })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentInfo: { name: "parrot", version: "1" } }))
  .onRequest(acp.methods.agent.session.new, () => {
    const sessionId = crypto.randomUUID();
    heard.set(sessionId, []);
    return { sessionId };
  })
  .onRequest(acp.methods.agent.session.prompt, async ({ params: { sessionId, prompt }, client }) => {
    const update = (update) => client.notify(acp.methods.client.session.update, { sessionId, update });
    heard.get(sessionId).push(prompt.map((block) => block.text).join(""));
    await update({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "What have I heard?" } });
    await update({ sessionUpdate: "tool_call", toolCallId: "1", title: "Listen", kind: "think", rawInput: { to: "the user" } });
    const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "1", title: "Listen" },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    });
    await update({ sessionUpdate: "tool_call_update", toolCallId: "1", status: outcome.optionId === "yes" ? "completed" : "failed" });
    for (const text of ["I have heard: ", heard.get(sessionId).join(" | ")]) {
      await update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
    }
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
