// A graph takes the checkpointer as its own: checked by tsc, not run.
import { Annotation, StateGraph } from "@langchain/langgraph";
import { SpoolSaver } from "spool-langgraph";

export const graph = new StateGraph(Annotation.Root({ text: Annotation<string> }))
  .addNode("node", async () => ({ text: "" }))
  .addEdge("__start__", "node")
  .compile({ checkpointer: new SpoolSaver({ url: "http://127.0.0.1:7717", token: "" }) });
