import type { SessionKey, SessionStore, SessionStoreEntry, SessionSummaryEntry, foldSessionSummary } from "@anthropic-ai/claude-agent-sdk";

export interface SpoolSessionStoreOptions {
  /** Where spool up, serve or ingest answers HTTP: "http://127.0.0.1:7717" unless given. */
  url?: string;
  /** A token that may read and write; to delete sessions one with the scope admin. */
  token?: string;
  /** For how many milliseconds a request is tried again while the server is away: 40,000 unless given. The SDK waits for 60,000. */
  patience?: number;
  /** The SDK's own. With it lists of sessions read no transcripts, and each append of a session has two requests more. */
  foldSessionSummary?: typeof foldSessionSummary;
}

export declare class SpoolSessionStore implements SessionStore {
  constructor(options?: SpoolSessionStoreOptions);
  append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void>;
  load(key: SessionKey): Promise<SessionStoreEntry[] | null>;
  listSessions(projectKey: string): Promise<Array<{ sessionId: string; mtime: number }>>;
  /** Only with foldSessionSummary. */
  listSessionSummaries?(projectKey: string): Promise<SessionSummaryEntry[]>;
  listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]>;
  delete(key: SessionKey): Promise<void>;
}
