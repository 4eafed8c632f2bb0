"""What can go wrong: one family, by what a program decides on."""

from __future__ import annotations

from typing import Any, Mapping


class SpoolError(Exception):
    """The parent of them all. status is that of HTTP, 0 where no answer came; quota and limit say which quota it is about."""

    def __init__(self, message: str, status: int = 0, body: Mapping[str, Any] | None = None):
        super().__init__(message)
        body = body or {}
        self.status = status
        self.quota: str | None = body.get("quota")
        self.limit: int | None = body.get("limit")


class BadRequest(SpoolError):
    """The request is wrong, or too large: sending it again does not help."""


class NotPermitted(SpoolError):
    """No token, or one that is not for this."""


class NotFound(SpoolError):
    """There is nothing of that name, or it was collected."""


class Conflict(SpoolError):
    """What is there forbids it: the thread has ended, the name is taken, the prompt is answered, the entry was refused."""


class Unavailable(SpoolError):
    """Busy, full or away for longer than the client's patience. The same again is safe: a Publisher keeps its sequences for it.
    retry_after is in seconds, where the server said so."""

    def __init__(self, message: str, status: int = 0, body: Mapping[str, Any] | None = None, retry_after: float | None = None):
        super().__init__(message, status, body)
        self.retry_after = retry_after


def error_of(status: int, message: str, body: Mapping[str, Any]) -> SpoolError:
    """The error that a status means."""
    kinds: dict[int, type[SpoolError]] = {401: NotPermitted, 403: NotPermitted, 404: NotFound, 410: NotFound, 409: Conflict, 412: Conflict,
                                          429: Unavailable}
    kind = kinds.get(status, Unavailable if status >= 500 else BadRequest)
    return kind(message, status, body)
