export { Stream } from "./wire.js";
/** A client of one server. */
export class Client {
    /**
     * @param {object} [config]
     * @param {string} [config.url] unless given: SPOOL_HTTP, in a page where that came from, else http://127.0.0.1:7717
     * @param {string} [config.token] unless given: SPOOL_TOKEN
     * @param {number} [config.timeout] seconds that one answer may take, 30
     * @param {number} [config.patience] seconds for which a request is tried again while the server is busy or away, 60
     * @param {string} [config.user] user_id of what is published, unless the token has a name
     * @param {AbortSignal} [config.signal] ends all that this client does
     * @param {typeof globalThis.fetch} [config.fetch] in the place of the platform's
     */
    constructor({ url, token, timeout, patience, user, signal, fetch }?: {
        url?: string | undefined;
        token?: string | undefined;
        timeout?: number | undefined;
        patience?: number | undefined;
        user?: string | undefined;
        signal?: AbortSignal | undefined;
        fetch?: typeof globalThis.fetch | undefined;
    });
    /** @internal */
    wire: Wire;
    /**
     * A producer of its own; see Publisher.
     * @param {{producer?: string, epoch?: number, seq?: number}} [config]
     */
    publisher(config?: {
        producer?: string;
        epoch?: number;
        seq?: number;
    }): Publisher;
    /**
     * The handle of a thread, whether it is there or not: nothing is asked.
     * @param {string} session
     * @param {string} [name]
     */
    thread(session: string, name?: string): Thread;
    /**
     * The handle of a session, whether it is there or not: nothing is asked.
     * @param {string} id
     */
    session(id: string): Session;
    /** The handle of artifacts. */
    artifacts(): Artifacts;
    /**
     * Sessions, newest first, read by pages; by state: waiting, running, failed, idle or done.
     * @param {{cwd?: string, q?: string, unanswered?: boolean, state?: string}} [filter]
     * @returns {AsyncGenerator<SessionInfo, void, void>}
     */
    sessions(filter?: {
        cwd?: string;
        q?: string;
        unanswered?: boolean;
        state?: string;
    }): AsyncGenerator<SessionInfo, void, void>;
    /**
     * Threads of all sessions, by status and by the UTC date of their end.
     * @param {{session?: string, status?: string, ended_from?: string, ended_to?: string}} [filter]
     * @returns {AsyncGenerator<ThreadInfo, void, void>}
     */
    findThreads(filter?: {
        session?: string;
        status?: string;
        ended_from?: string;
        ended_to?: string;
    }): AsyncGenerator<ThreadInfo, void, void>;
    /**
     * Where a state is.
     * @param {string} hash
     * @param {{session?: string, thread?: string}} [first] look here first
     * @returns {Promise<{session: string, thread: string, n: number, hash: string}>}
     */
    findNode(hash: string, first?: {
        session?: string;
        thread?: string;
    }): Promise<{
        session: string;
        thread: string;
        n: number;
        hash: string;
    }>;
    /**
     * Items as they come, of all threads or of those that are named, from now on or since a time ("all", "1h", RFC 3339).
     * @param {{session?: string, thread?: string, type?: string, detail?: string, since?: string, not_user?: string} & From} [filter]
     * @returns {AsyncGenerator<Item, void, void>}
     */
    subscribe({ lastId, signal, ...query }?: {
        session?: string;
        thread?: string;
        type?: string;
        detail?: string;
        since?: string;
        not_user?: string;
    } & From): AsyncGenerator<Item, void, void>;
    /**
     * The heads of active threads as they move, with current from where they are. Its events are named head.
     * @param {{session?: string, current?: boolean} & From} [filter]
     * @returns {import("./wire.js").Stream}
     */
    heads({ lastId, signal, ...query }?: {
        session?: string;
        current?: boolean;
    } & From): import("./wire.js").Stream;
    /**
     * Stores bytes for the refs of a step that is to come next, and resolves to the ref.
     * @param {BodyInit} data
     * @returns {Promise<string>}
     */
    putBlob(data: BodyInit): Promise<string>;
    /**
     * The bytes of a ref, as blob:sha256:…
     * @param {string} ref
     */
    blob(ref: string): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * Items of all sessions that have all words; by session, cwd, tool, role, since, until, limit.
     * @param {string} q
     * @param {import("./wire.js").Query} [filter]
     * @returns {Promise<{matches: any[], incomplete?: boolean}>}
     */
    search(q: string, filter?: import("./wire.js").Query): Promise<{
        matches: any[];
        incomplete?: boolean;
    }>;
    /**
     * Sessions, turns, tokens and tool calls, by project, model or day.
     * @param {import("./wire.js").Query} [filter]
     */
    stats(filter?: import("./wire.js").Query): Promise<any>;
    /**
     * What people asked for; by q, session, cwd, limit.
     * @param {import("./wire.js").Query} [filter]
     */
    history(filter?: import("./wire.js").Query): Promise<any>;
    /**
     * @internal
     * @param {string} path
     * @param {string} name
     * @param {import("./wire.js").Query} query
     * @param {string} [cursor]
     * @returns {AsyncGenerator<any, void, void>}
     */
    pages(path: string, name: string, query: import("./wire.js").Query, cursor?: string): AsyncGenerator<any, void, void>;
    #private;
}
/** A thread, whether it is there or not. */
export class Thread {
    /**
     * @param {Client} client
     * @param {Publisher} own
     * @param {string} session
     * @param {string} name
     */
    constructor(client: Client, own: Publisher, session: string, name: string);
    session: string;
    name: string;
    /**
     * Appends entries by the client's own publisher, in order, and resolves when they are durable.
     * @param {Entry | Entry[]} entries
     * @param {{dialect?: string, signal?: AbortSignal}} [how]
     */
    publish(entries: Entry | Entry[], how?: {
        dialect?: string;
        signal?: AbortSignal;
    }): Promise<import("./publish.js").Ack>;
    /** Where the thread is. @returns {Promise<ThreadInfo>} */
    head(): Promise<ThreadInfo>;
    /**
     * Its items from number n to the end, read by pages.
     * @param {number} [n]
     * @returns {AsyncGenerator<Item, void, void>}
     */
    itemsFrom(n?: number): AsyncGenerator<Item, void, void>;
    /**
     * Its items before a number, or from the end, backwards.
     * @param {number} [before]
     * @returns {AsyncGenerator<Item, void, void>}
     */
    itemsBack(before?: number): AsyncGenerator<Item, void, void>;
    /**
     * An item as it was before any cut.
     * @param {number} n
     * @returns {Promise<Item>}
     */
    fullItem(n: number): Promise<Item>;
    /**
     * Items that hold a text, newest first.
     * @param {string} q
     * @returns {AsyncGenerator<any, void, void>}
     */
    search(q: string): AsyncGenerator<any, void, void>;
    /** All of its items as they were before any cut, read whole. @returns {AsyncGenerator<any, void, void>} */
    log(): AsyncGenerator<any, void, void>;
    /**
     * What the model is sent.
     * @param {string} [leaf]
     * @returns {Promise<{messages: any[], prompt?: string, summary?: string}>}
     */
    context(leaf?: string): Promise<{
        messages: any[];
        prompt?: string;
        summary?: string;
    }>;
    /** Its entries with their parents and labels. @returns {Promise<any[]>} */
    tree(): Promise<any[]>;
    /**
     * All events of the thread, from now on or from an item: open, item, live (what open outputs print), head, reset.
     * @param {{from?: number, whole?: boolean, not_user?: string} & From} [filter]
     * @returns {import("./wire.js").Stream}
     */
    follow({ lastId, signal, ...query }?: {
        from?: number;
        whole?: boolean;
        not_user?: string;
    } & From): import("./wire.js").Stream;
    /**
     * Its items as they come, from now on or from an item, each once. It ends when the thread is removed or renamed. NotFound: nothing was
     * published to it.
     * @param {{from?: number, not_user?: string} & From} [filter]
     * @returns {AsyncGenerator<Item, void, void>}
     */
    live(filter?: {
        from?: number;
        not_user?: string;
    } & From): AsyncGenerator<Item, void, void>;
    /**
     * Begins it with what its workflow gives it.
     * @param {{name?: string, bundle?: string, max_rounds?: number, depth?: number, prompt?: string}} given
     * @returns {Promise<ThreadInfo>}
     */
    start(given: {
        name?: string;
        bundle?: string;
        max_rounds?: number;
        depth?: number;
        prompt?: string;
    }): Promise<ThreadInfo>;
    /**
     * Makes a thread that begins as this one, up to n, index, node, entry or role; or whole. to may name another session's.
     * @param {string} to
     * @param {{n?: number, index?: number, node?: string, entry?: string, role?: string, whole?: boolean, path?: boolean}} where
     * @returns {Promise<ThreadInfo>}
     */
    fork(to: string, where: {
        n?: number;
        index?: number;
        node?: string;
        entry?: string;
        role?: string;
        whole?: boolean;
        path?: boolean;
    }): Promise<ThreadInfo>;
    /**
     * Puts a summary in the place of what was before an entry.
     * @param {string} summary
     * @param {string} [firstKept]
     * @returns {Promise<ThreadInfo>}
     */
    compact(summary: string, firstKept?: string): Promise<ThreadInfo>;
    /**
     * Completes it: it takes nothing more.
     * @param {number} [returnCode]
     * @param {string} [summary]
     * @returns {Promise<ThreadInfo>}
     */
    end(returnCode?: number, summary?: string): Promise<ThreadInfo>;
    /** Takes up a thread that failed. @returns {Promise<ThreadInfo>} */
    reopen(): Promise<ThreadInfo>;
    /**
     * Gives it another name.
     * @param {string} to
     * @returns {Promise<ThreadInfo>}
     */
    rename(to: string): Promise<ThreadInfo>;
    /**
     * What comes next goes after that entry.
     * @param {string} entry
     * @returns {Promise<ThreadInfo>}
     */
    branch(entry: string): Promise<ThreadInfo>;
    /** What comes next goes after no entry. @returns {Promise<ThreadInfo>} */
    reset(): Promise<ThreadInfo>;
    /**
     * As branch, with a summary of what is left.
     * @param {string} entry
     * @param {string} summary
     * @param {unknown} [details]
     * @returns {Promise<ThreadInfo>}
     */
    branchWithSummary(entry: string, summary: string, details?: unknown): Promise<ThreadInfo>;
    /**
     * Names an entry, and resolves to the id of that.
     * @param {string} entry
     * @param {string} label
     * @returns {Promise<string>}
     */
    label(entry: string, label: string): Promise<string>;
    /**
     * Puts an entry of the dialect omp under the leaf; leaf_moved says that another writer was first.
     * @param {Record<string, unknown>} entry
     * @param {string} [leaf]
     * @returns {Promise<{id: string, leaf_moved?: boolean, taken?: string}>}
     */
    append(entry: Record<string, unknown>, leaf?: string): Promise<{
        id: string;
        leaf_moved?: boolean;
        taken?: string;
    }>;
    /**
     * Removes it for good.
     * @param {{force?: boolean}} [how]
     * @returns {Promise<void>}
     */
    remove(how?: {
        force?: boolean;
    }): Promise<void>;
    /** Its open outputs. @returns {Promise<any[]>} */
    outputs(): Promise<any[]>;
    /**
     * Stores what a tool printed, or prints: a ReadableStream goes to subscribers as it comes (not in browsers that send no streams).
     * @param {string} tool
     * @param {BodyInit} body
     * @param {import("./wire.js").Query & {exit_code?: number, is_error?: boolean}} [config] as docs/http.md has it: id, keep, run …
     * @returns {Promise<OutputResult>} resolves when the result is in the thread
     */
    output(tool: string, body: BodyInit, { exit_code: code, is_error: failed, ...query }?: import("./wire.js").Query & {
        exit_code?: number;
        is_error?: boolean;
    }): Promise<OutputResult>;
    /**
     * Asks a person, and resolves to the id of the prompt; awaitAnswer waits for the answer. The same question may be asked again under its id.
     * @param {string} text
     * @param {{kind?: string, id?: string}} [how]
     * @returns {Promise<string>}
     */
    ask(text: string, { kind, id }?: {
        kind?: string;
        id?: string;
    }): Promise<string>;
    /**
     * A question, and how it was settled.
     * @param {string} id
     * @returns {Promise<Prompt>}
     */
    prompt(id: string): Promise<Prompt>;
    /**
     * Resolves when a prompt is settled.
     * @param {string} id
     * @param {{signal?: AbortSignal}} [how]
     * @returns {Promise<Resolution>}
     */
    awaitAnswer(id: string, { signal }?: {
        signal?: AbortSignal;
    }): Promise<Resolution>;
    /**
     * Settles a prompt. Conflict: it was before.
     * @param {string} id
     * @param {unknown} answer
     * @param {{by?: string, life?: number}} [how]
     * @returns {Promise<Resolution>}
     */
    answer(id: string, answer: unknown, how?: {
        by?: string;
        life?: number;
    }): Promise<Resolution>;
    /**
     * Begins a run; what it resolves to gives signs of life until it ends.
     * @param {{run?: string, agent?: string, summary?: string, lease_ms?: number}} [config]
     */
    startRun(config?: {
        run?: string;
        agent?: string;
        summary?: string;
        lease_ms?: number;
    }): Promise<Run>;
    #private;
}
/** A session, whether it is there or not. */
export class Session {
    /**
     * @param {Client} client
     * @param {string} id
     */
    constructor(client: Client, id: string);
    id: string;
    /**
     * The handle of one of its threads.
     * @param {string} [name]
     */
    thread(name?: string): Thread;
    /**
     * Begins a session of omp entries.
     * @param {string} cwd
     * @param {string} [parent]
     * @returns {Promise<void>}
     */
    "new"(cwd: string, parent?: string): Promise<void>;
    /** What a listing says of it, with its threads. @returns {Promise<SessionInfo>} */
    info(): Promise<SessionInfo>;
    /**
     * Gives it a title; auto: a program made it up.
     * @param {string} title
     * @param {{auto?: boolean}} [how]
     * @returns {Promise<void>}
     */
    name(title: string, how?: {
        auto?: boolean;
    }): Promise<void>;
    /**
     * Gives it another working directory.
     * @param {string} cwd
     * @returns {Promise<void>}
     */
    move(cwd: string): Promise<void>;
    /**
     * Removes it for good, and resolves to the receipt. Conflict says why not.
     * @param {{force?: boolean, by?: string}} [how]
     * @returns {Promise<any>}
     */
    delete(how?: {
        force?: boolean;
        by?: string;
    }): Promise<any>;
    /** @returns {Promise<ThreadInfo[]>} */
    threads(): Promise<ThreadInfo[]>;
    /** Of its threads that are subagents, the invocation_id of the call that each works for. @returns {Promise<Record<string, string>>} */
    agentCalls(): Promise<Record<string, string>>;
    /** How its threads come from each other. @returns {Promise<any[]>} */
    graph(): Promise<any[]>;
    /**
     * Items of all of its threads as they come.
     * @param {{since?: string, not_user?: string} & From} [filter]
     */
    live(filter?: {
        since?: string;
        not_user?: string;
    } & From): AsyncGenerator<import("./types.js").Item, void, void>;
    /** What waits for a person. @returns {Promise<Prompt[]>} */
    prompts(): Promise<Prompt[]>;
    /** @returns {Promise<RunInfo[]>} */
    runs(): Promise<RunInfo[]>;
    /**
     * Ends a run: completed, failed, aborted or cancelled.
     * @param {string} run
     * @param {string} [state]
     * @param {string} [summary]
     * @returns {Promise<void>}
     */
    endRun(run: string, state?: string, summary?: string): Promise<void>;
    /** @returns {Promise<Artifact[]>} */
    artifacts(): Promise<Artifact[]>;
    /**
     * Takes a number and a file name for an artifact that is put later.
     * @param {string} tool
     * @returns {Promise<{number: string, filename: string}>}
     */
    takeNumber(tool: string): Promise<{
        number: string;
        filename: string;
    }>;
    /**
     * Takes the id of the next agent that parent starts.
     * @param {string} name
     * @param {string} [parent]
     * @returns {Promise<string>}
     */
    takeAgentId(name: string, parent?: string): Promise<string>;
    /**
     * What an address leads to, as artifact://0, by lines.
     * @param {string} url
     * @param {{offset?: number, limit?: number}} [part]
     */
    resolve(url: string, part?: {
        offset?: number;
        limit?: number;
    }): Promise<Uint8Array<ArrayBuffer>>;
    #private;
}
/** Artifacts of any session. */
export class Artifacts {
    /** @param {Client} client */
    constructor(client: Client);
    /**
     * Stores one.
     * @param {string} session
     * @param {BodyInit} body
     * @param {import("./wire.js").Query & {mime?: string}} [about] tool, filename, number, agent, run, tool_call, summary, category
     * @returns {Promise<Artifact>}
     */
    put(session: string, body: BodyInit, { mime, ...query }?: import("./wire.js").Query & {
        mime?: string;
    }): Promise<Artifact>;
    /**
     * Makes an artifact of an object that is in spool_artifacts.
     * @param {string} session
     * @param {string} object
     * @param {Record<string, unknown>} [about]
     * @returns {Promise<Artifact>}
     */
    registerObject(session: string, object: string, about?: Record<string, unknown>): Promise<Artifact>;
    /**
     * Its size, type and digest, without its bytes.
     * @param {string} id
     */
    record(id: string): Promise<{
        size: number;
        mime_type: string | null;
        etag: string | null;
    }>;
    /**
     * Its bytes, from the first to the last that are named.
     * @param {string} id
     * @param {{first?: number, last?: number}} [span]
     */
    open(id: string, { first, last }?: {
        first?: number;
        last?: number;
    }): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * Removes it for good.
     * @param {string} id
     * @returns {Promise<void>}
     */
    delete(id: string): Promise<void>;
    /**
     * Which artifacts of debugging would be removed; with apply they are.
     * @param {string} session
     * @param {{apply?: boolean, include_all?: boolean, older_than?: string, max_bytes?: number}} [how]
     * @returns {Promise<any>}
     */
    cleanup(session: string, how?: {
        apply?: boolean;
        include_all?: boolean;
        older_than?: string;
        max_bytes?: number;
    }): Promise<any>;
    #private;
}
/** A run that is under way. */
export class Run {
    /**
     * @param {{run: string, lease_ms: number}} config
     * @param {(said: object) => Promise<unknown>} say
     * @param {(state: string, summary?: string) => Promise<void>} end
     */
    constructor(config: {
        run: string;
        lease_ms: number;
    }, say: (said: object) => Promise<unknown>, end: (state: string, summary?: string) => Promise<void>);
    id: string;
    /**
     * A sign of life, with another summary or state.
     * @param {{summary?: string, state?: string}} said
     * @returns {Promise<void>}
     */
    set(said: {
        summary?: string;
        state?: string;
    }): Promise<void>;
    /**
     * Ends it: completed, failed, aborted or cancelled.
     * @param {string} [state]
     * @param {string} [summary]
     * @returns {Promise<void>}
     */
    end(state?: string, summary?: string): Promise<void>;
    #private;
}
export type Entry = import("./publish.js").Entry;
export type Event = import("./wire.js").Event;
export type Item = import("./types.js").Item;
export type ThreadInfo = import("./types.js").ThreadInfo;
export type SessionInfo = import("./types.js").SessionInfo;
export type Prompt = import("./types.js").Prompt;
export type Resolution = import("./types.js").Resolution;
export type RunInfo = import("./types.js").RunInfo;
export type Artifact = import("./types.js").Artifact;
export type OutputResult = import("./types.js").OutputResult;
/**
 * Where a stream begins, and what ends it.
 */
export type From = {
    lastId?: string;
    signal?: AbortSignal;
};
import { Wire } from "./wire.js";
import { Publisher } from "./publish.js";
export { BadRequest, Conflict, NotFound, NotPermitted, SpoolError, Unavailable } from "./errors.js";
export { Ack, item, Publisher } from "./publish.js";
