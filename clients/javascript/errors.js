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
  constructor(message, status = 0, body = {}, options) {
    super(message, options);
    this.name = new.target.name;
    this.status = status;
    this.quota = body.quota;
    this.limit = body.limit;
  }
}

/** The request is wrong, or too large: sending it again does not help. */
export class BadRequest extends SpoolError {}
/** No token, or one that is not for this. */
export class NotPermitted extends SpoolError {}
/** There is nothing of that name, or it was collected. */
export class NotFound extends SpoolError {}
/** What is there forbids it: the thread has ended, the name is taken, the prompt is answered, the entry was refused. */
export class Conflict extends SpoolError {}
/** Busy, full or away for longer than the client's patience. The same again is safe: a Publisher keeps its sequences for it. */
export class Unavailable extends SpoolError {
  /** In seconds, where the server said so.
   * @type {number | undefined} */
  retryAfter;
}

/**
 * The error that a refusal means.
 * @param {string} what
 * @param {Response} response
 * @returns {Promise<SpoolError>}
 */
export async function errorOf(what, response) {
  /** @type {{error?: string, quota?: string, limit?: number, retry_after?: number}} */
  const body = await response.json().catch(() => ({}));
  const { status } = response;
  const kinds = { 401: NotPermitted, 403: NotPermitted, 404: NotFound, 410: NotFound, 409: Conflict, 412: Conflict, 429: Unavailable };
  const Kind = kinds[/** @type {keyof kinds} */ (status)] ?? (status >= 500 ? Unavailable : BadRequest);
  const error = new Kind(`${what}: ${body?.error ?? response.statusText}`, status, body ?? {});
  if (error instanceof Unavailable) {
    const after = response.headers.get("Retry-After") ?? body?.retry_after;
    error.retryAfter = after == null || Number.isNaN(Number(after)) ? undefined : Number(after);
  }
  return error;
}
