/**
 * An entry of the dialect item that says a text.
 * @param {string} text
 * @param {string} [type] who speaks: "text" is the agent; without one it is its user
 * @returns {Record<string, unknown>}
 */
export function item(text: string, type?: string): Record<string, unknown>;
export function fresh(): string;
export function threadPath(session: string, thread: string): string;
/** What a publish made durable: under which sequences of its producer. */
export class Ack {
    /**
     * @param {import("./wire.js").Wire} wire
     * @param {{session: string, thread: string, producer: string, epoch: number, first: number, last: number}} of
     */
    constructor(wire: import("./wire.js").Wire, of: {
        session: string;
        thread: string;
        producer: string;
        epoch: number;
        first: number;
        last: number;
    });
    session: string;
    thread: string;
    producer: string;
    epoch: number;
    first: number;
    last: number;
    /**
     * Resolves when all of it is in its thread. Conflict: one of the entries was refused, and why. Needs a token that may read.
     * @param {{signal?: AbortSignal}} [how]
     * @returns {Promise<void>}
     */
    applied(how?: {
        signal?: AbortSignal;
    }): Promise<void>;
    #private;
}
/**
 * A thread, as a publisher knows it. doubt is what may be stored of the publish that failed, and under which sequence; refused: the first of
 * them was, for good.
 * @typedef {{last: Promise<unknown>, users: number, doubt: {placed: Placed, seq: number}[], refused: boolean}} Place
 */
/**
 * Publishes as one producer. To a thread one publish is under way at a time, and none waits for those to other threads.
 *
 * After an error some of the entries may be stored, or none, or all. Both ways on are safe: publish the same again, all of them or from
 * the first on, before others to that thread, and nothing is stored twice; or go on with others. After a refusal (BadRequest, Conflict,
 * NotPermitted) "the same" may leave the refused one out.
 */
export class Publisher {
    /**
     * @param {import("./wire.js").Wire} wire
     * @param {{producer?: string, epoch?: number, seq?: number, user?: string}} [config] producer is a name that outlives the process, where
     *   seq says how many sequences an earlier one used, or epoch is one that none had
     */
    constructor(wire: import("./wire.js").Wire, { producer, epoch, seq, user }?: {
        producer?: string;
        epoch?: number;
        seq?: number;
        user?: string;
    });
    producer: string;
    epoch: number;
    seq: number;
    /**
     * Appends entries, in order, and resolves when they are durable.
     * @param {string} session
     * @param {string} thread
     * @param {Entry | Entry[]} entries
     * @param {{dialect?: string, signal?: AbortSignal}} [how]
     * @returns {Promise<Ack>}
     */
    publish(session: string, thread: string, entries: Entry | Entry[], how?: {
        dialect?: string;
        signal?: AbortSignal;
    }): Promise<Ack>;
    #private;
}
/**
 * A JSON object, or the text or bytes of an entry as they are.
 */
export type Entry = Record<string, unknown> | string | Uint8Array<ArrayBuffer>;
export type Body = string | Uint8Array<ArrayBuffer>;
export type Placed = {
    session: string;
    thread: string;
    dialect: string;
    body: Body;
};
