import type { RunnableConfig } from "@langchain/core/runnables";
import type {
  ChannelVersions, Checkpoint, CheckpointListOptions, CheckpointMetadata, CheckpointTuple, PendingWrite, SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

export interface SpoolSaverOptions {
  /** Where spool up, or ingest, answers HTTP: "http://127.0.0.1:7717" unless given. */
  url?: string;
  /** A token that may write and read sessions whose names begin with `name`. */
  token?: string;
  /** What the sessions' names begin with: 1 to 32 letters, digits and "-"; "langgraph" unless given. */
  name?: string;
  /** How many characters of streams are kept in memory, so that they are not read again: 64 MiB unless given. */
  cacheBytes?: number;
  /** For how many milliseconds a request is tried again while the server is busy or away: 30,000 unless given. */
  patience?: number;
  serde?: SerializerProtocol;
}

export declare class SpoolSaver extends BaseCheckpointSaver {
  constructor(options?: SpoolSaverOptions);
  getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined>;
  list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple>;
  put(config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, newVersions: ChannelVersions): Promise<RunnableConfig>;
  putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void>;
  deleteThread(threadId: string): Promise<void>;
  getNextVersion(current: number | undefined): number;
  /** Makes the thread `to` a fork of `from`, which copies nothing. Throws where `from` is not there, or `to` is. */
  copyThread(from: string, to: string): Promise<void>;
  /** Leaves of each thread the latest checkpoint of each namespace, with all that its delta channels need; or nothing. */
  prune(threads: string[], options?: { strategy?: "keep_latest" | "delete" }): Promise<void>;
}
