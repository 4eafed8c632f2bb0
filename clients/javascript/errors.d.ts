/**
 * The error that a refusal means.
 * @param {string} what
 * @param {Response} response
 * @returns {Promise<SpoolError>}
 */
export function errorOf(what: string, response: Response): Promise<SpoolError>;
/**
 * The parent of all that can go wrong. status is that of HTTP, 0 where no answer came; quota and limit say which quota it is about.
 */
export class SpoolError extends Error {
    /**
     * @param {string} message
     * @param {number} [status]
     * @param {{quota?: string, limit?: number}} [body]
     * @param {ErrorOptions} [options]
     */
    constructor(message: string, status?: number, body?: {
        quota?: string;
        limit?: number;
    }, options?: ErrorOptions);
    status: number;
    quota: string | undefined;
    limit: number | undefined;
}
/** The request is wrong, or too large: sending it again does not help. */
export class BadRequest extends SpoolError {
}
/** No token, or one that is not for this. */
export class NotPermitted extends SpoolError {
}
/** There is nothing of that name, or it was collected. */
export class NotFound extends SpoolError {
}
/** What is there forbids it: the thread has ended, the name is taken, the prompt is answered, the entry was refused. */
export class Conflict extends SpoolError {
}
/** Busy, full or away for longer than the client's patience. The same again is safe: a Publisher keeps its sequences for it. */
export class Unavailable extends SpoolError {
    /** In seconds, where the server said so.
     * @type {number | undefined} */
    retryAfter: number | undefined;
}
