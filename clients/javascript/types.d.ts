// What answers hold. More members may come; docs/http.md and /v1/openapi.json say what each one means.

/** An item of a thread, and where it is. */
export interface Item {
  n: number;
  session: string;
  thread: string;
  hash: string;
  subject?: string;
  time?: string;
  item: Record<string, any>;
}

/** A thread, as its head says. */
export interface ThreadInfo {
  session: string;
  thread: string;
  state: string;
  status: string;
  failure?: string;
  head: string;
  n: number;
  entries: number;
  messages: number;
  dialect?: string;
  start?: Record<string, any>;
  fork_of?: Record<string, any>;
  parents?: unknown[];
  tool_call?: string;
  created?: string;
  modified?: string;
  ended?: string;
  bytes: number;
  turns: number;
  tokens?: Record<string, number>;
  damage?: string;
}

/** A session, as a listing shows it; thread_list is of one that was asked for alone. */
export interface SessionInfo {
  id: string;
  name: string;
  title?: string;
  summary?: string;
  first_prompt?: string;
  cwd?: string;
  host?: string;
  file?: string;
  harness?: string;
  dialect?: string;
  model?: string;
  parent?: string;
  status: string;
  state: string;
  running_by?: string;
  created?: string;
  modified?: string;
  threads: number;
  entries: number;
  messages: number;
  turns: number;
  tokens: Record<string, number>;
  bytes: number;
  prompts: number;
  answered: boolean;
  thread_list?: ThreadInfo[];
}

/** How a prompt was settled. */
export interface Resolution {
  outcome: string;
  by?: string;
  at?: string;
  answer?: unknown;
}

/** A question to a person. */
export interface Prompt {
  session: string;
  thread: string;
  id: string;
  kind: string;
  text: string;
  n?: number;
  asked_at?: string;
  deadline?: string;
  overdue: boolean;
  answerable: boolean;
  life?: number;
  prompt?: Record<string, any>;
  resolution?: Resolution;
}

/** A run of an agent. */
export interface RunInfo {
  session: string;
  thread: string;
  run: string;
  agent?: string;
  state: string;
  expired?: boolean;
  summary?: string;
  begun_at?: string;
  touched_at?: string;
  lease_left_ms?: number;
}

/** An artifact's record. */
export interface Artifact {
  artifact_id: string;
  session: string;
  seq?: string;
  filename: string;
  size?: number;
  mime_type?: string;
  category: string;
  summary?: string;
  created_at: string;
  writer: string;
  agent?: string;
  run?: string;
  node?: string;
  tool_call?: string;
  forked_from?: string;
  object?: string;
}

/** Where the result of an output is. */
export interface OutputResult {
  output: string;
  bytes: number;
  n: number;
  node?: string;
  artifact_id?: string;
}
