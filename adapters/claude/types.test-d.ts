import { foldSessionSummary, type Options, type SessionStore } from "@anthropic-ai/claude-agent-sdk";
import { SpoolSessionStore } from "./index.js";

const store: SessionStore = new SpoolSessionStore({ url: "http://127.0.0.1:7717", token: "t", patience: 1, foldSessionSummary });
const options: Options = { sessionStore: store };
// @ts-expect-error a store has no other options
new SpoolSessionStore({ path: "x" });
export { options };
