// A graph that adds a number at each of six steps. Killed, and started again, it goes on behind the last step that was done.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { SpoolSaver } from "./index.js";

const State = Annotation.Root({ done: Annotation({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const graph = new StateGraph(State)
  .addNode("step", async ({ done }) => {
    const n = done.length + 1;
    console.log(`step ${n}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    return { done: [n] };
  })
  .addEdge(START, "step")
  .addConditionalEdges("step", ({ done }) => (done.length < 6 ? "step" : END))
  .compile({ checkpointer: new SpoolSaver({ url: process.env.SPOOL_HTTP, name: process.env.NAME }) });

const config = { configurable: { thread_id: "sum" }, durability: "sync" };
const begun = (await graph.getState(config)).values.done !== undefined;
const { done } = await graph.invoke(begun ? null : { done: [] }, config);
console.log(`total ${done}`);
