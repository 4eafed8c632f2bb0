/**
 * @param {number} ms
 * @param {AbortSignal[]} signals that end it, by their reason
 * @returns {Promise<void>}
 */
export function pause(ms: number, signals: AbortSignal[]): Promise<void>;
/**
 * The lines of an answer, each with its newline; the last one has none when it was cut off.
 * @param {Response} response
 * @param {() => void} [heard] is called for all that comes
 */
export function lines(response: Response, heard?: () => void): AsyncGenerator<string, void, unknown>;
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/**
 * What a request sends. again: it may be sent once more though the first one may have been done.
 * @typedef {object} Sent
 * @property {Query} [query]
 * @property {BodyInit | null} [body]
 * @property {Record<string, string>} [headers]
 * @property {boolean} [again]
 * @property {AbortSignal} [signal]
 */
/**
 * An event of a stream. id says all that its reader has: a stream that begins with it as lastId goes on behind it.
 * @typedef {{name: string, id: string, data: any}} Event
 */
/** Requests to one server. */
export class Wire {
    /**
     * @param {string} url
     * @param {{token?: string, timeout: number, patience: number, signal?: AbortSignal, fetch: typeof fetch}} config
     */
    constructor(url: string, config: {
        token?: string;
        timeout: number;
        patience: number;
        signal?: AbortSignal;
        fetch: typeof fetch;
    });
    base: string;
    config: {
        token?: string;
        timeout: number;
        patience: number;
        signal?: AbortSignal;
        fetch: typeof fetch;
    };
    /**
     * One try. What the server refuses is thrown as a SpoolError.
     * @param {string} method
     * @param {string} path
     * @param {Sent} sent
     * @param {AbortSignal} [until] ends it, beside the signals of its caller
     * @returns {Promise<Response>}
     */
    once(method: string, path: string, { query, body, headers, signal }: Sent, until?: AbortSignal): Promise<Response>;
    /**
     * A request and its whole answer, tried again for as long as the patience lasts.
     * @param {string} method
     * @param {string} path
     * @param {Sent} [sent]
     * @returns {Promise<{bytes: Uint8Array<ArrayBuffer>, headers: Headers}>}
     */
    call(method: string, path: string, sent?: Sent): Promise<{
        bytes: Uint8Array<ArrayBuffer>;
        headers: Headers;
    }>;
    /**
     * A call whose body and answer are JSON.
     * @param {string} method
     * @param {string} path
     * @param {Query} [query]
     * @param {unknown} [value]
     * @param {Sent} [how]
     * @returns {Promise<any>}
     */
    json(method: string, path: string, query?: Query, value?: unknown, how?: Sent): Promise<any>;
    /** @param {AbortSignal} [signal] */
    signals(signal?: AbortSignal): AbortSignal[];
    /** @param {AbortSignal} [signal] */
    ended(signal?: AbortSignal): void;
}
/** When to try again: waits double from 50 ms to 2 s, or are what the server says, and end with the patience. */
export class Tries {
    /** @param {number} patience in seconds */
    constructor(patience: number);
    until: number;
    wait: number;
    /**
     * Waits, and tells whether there is time for another try.
     * @param {number | undefined} after in seconds
     * @param {AbortSignal[]} signals
     */
    rest(after: number | undefined, signals: AbortSignal[]): Promise<boolean>;
}
/**
 * An event stream that goes on where it was cut, until it is closed or the server says that it ends. While the server is away it waits;
 * what the server refuses is thrown. lastId is that of the event before: keep it to go on in another process.
 * @implements {AsyncIterable<Event>}
 */
export class Stream implements AsyncIterable<Event> {
    /**
     * @param {Wire} wire
     * @param {string} path
     * @param {Query} query
     * @param {{lastId?: string, signal?: AbortSignal}} [how]
     */
    constructor(wire: Wire, path: string, query: Query, { lastId, signal }?: {
        lastId?: string;
        signal?: AbortSignal;
    });
    wire: Wire;
    path: string;
    query: Query;
    /** @type {string | undefined} */
    lastId: string | undefined;
    signal: AbortSignal | undefined;
    /** Ends it. */
    close(): void;
    /** @returns {AsyncGenerator<Event, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<Event, void, void>;
    #private;
}
export type Query = Record<string, string | number | boolean | null | undefined>;
/**
 * What a request sends. again: it may be sent once more though the first one may have been done.
 */
export type Sent = {
    query?: Query | undefined;
    body?: BodyInit | null | undefined;
    headers?: Record<string, string> | undefined;
    again?: boolean | undefined;
    signal?: AbortSignal | undefined;
};
/**
 * An event of a stream. id says all that its reader has: a stream that begins with it as lastId goes on behind it.
 */
export type Event = {
    name: string;
    id: string;
    data: any;
};
