// The suite of LangGraph's authors, and their tests of channels that are put together from writes, which it leaves out unless asked.
import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { SpoolSaver } from "./index.js";

let made = 0;
const initializer = {
  checkpointerName: "spool-langgraph",
  createCheckpointer: () => new SpoolSaver({ url: process.env.SPOOL_HTTP, name: `suite-${process.pid}-${++made}` }),
};
validate(initializer);
deltaChannelHistoryTests(initializer);
