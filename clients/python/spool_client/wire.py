"""Requests, what is tried again, and event streams."""

from __future__ import annotations

import http.client
import io
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from typing import Any, Iterator, Mapping, NamedTuple

from .errors import SpoolError, Unavailable, error_of

FAILED = (OSError, http.client.HTTPException)
IDLE = 60.0  # seconds after which a connection is not used again: the server closes it after 120
SILENCE = 45.0  # seconds without a byte after which an event stream is dead: a comment comes every 15


class Event(NamedTuple):
    """An event of a stream. id says all that its reader has: a stream that begins with it as last_id goes on behind it."""

    name: str
    id: str
    data: Any


_OWN: weakref.WeakSet[Any] = weakref.WeakSet()


def renew_in_child(owner: Any) -> None:
    """Has owner.renew called in a process that is forked from this one. Two that write to one connection, or go on with the sequences of
    one producer, lose what they were told is stored."""
    _OWN.add(owner)


def _renew() -> None:
    for owner in list(_OWN):
        owner.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class _Lines(io.BufferedReader):
    """A connection whose end within a line, or instead of one, is an error. The standard library takes it for the end of the headers, and
    an answer whose length was cut off with them for an empty one."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if size != 0 and not line.endswith(b"\n") and (size is None or size < 0 or len(line) < size):
            raise http.client.RemoteDisconnected("the answer was cut off")
        return line


class _Response(http.client.HTTPResponse):
    fp: io.BufferedReader

    def __init__(self, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self.fp = _Lines(self.fp.detach())


class Answer:
    """The answer to a request; read it to its end, or close it."""

    def __init__(self, wire: Wire, conn: http.client.HTTPConnection, sock: socket.socket, response: http.client.HTTPResponse):
        self._wire, self._conn, self._sock, self.response = wire, conn, sock, response

    def read(self) -> bytes:
        try:
            body = self.response.read()
        except FAILED:
            self._conn.close()
            raise
        if self.response.will_close:
            self._conn.close()
        else:
            self._wire.put_back(self._conn)
        return body

    def close(self) -> None:
        """Ends it, also for another thread that reads it."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended
        self._conn.close()
        self.response.close()  # a connection that its server closes is the answer's own


class Wire:
    """Connections to one server. Safe for use by several threads."""

    def __init__(self, url: str, token: str | None, timeout: float, patience: float, tls: ssl.SSLContext | None):
        at = urllib.parse.urlsplit(url)
        if at.scheme not in ("http", "https") or not at.hostname:
            raise ValueError(f"{url!r} is no address: use http://HOST:PORT")
        self._url = url.rstrip("/")
        self._host, self._port, self._base = at.hostname, at.port, at.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if at.scheme == "https" else None
        self._token, self._timeout, self.patience = token, timeout, patience
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        renew_in_child(self)

    def renew(self) -> None:
        """Leaves the connections to the process that this one was forked from."""
        self._lock = threading.Lock()
        self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, conn in idle:
            conn.close()

    def put_back(self, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.append((time.monotonic(), conn))

    def connect(self, timeout: float | None = None) -> http.client.HTTPConnection:
        wait = timeout or self._timeout
        conn: http.client.HTTPConnection
        if self._tls:
            conn = http.client.HTTPSConnection(self._host, self._port, timeout=wait, context=self._tls)
        else:
            conn = http.client.HTTPConnection(self._host, self._port, timeout=wait)
        conn.response_class = _Response
        conn.auto_open = 0  # what was cut off does not go on in another connection
        conn.connect()
        return conn

    def _take(self) -> http.client.HTTPConnection | None:
        with self._lock:
            while self._idle:
                since, conn = self._idle.pop()
                if time.monotonic() - since < IDLE:
                    return conn
                conn.close()
        return None

    def head(self, path: str, query: Mapping[str, Any] | None, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """The target and the headers of a request."""
        given = {k: "1" if v is True else str(v) for k, v in (query or {}).items() if v is not None and v is not False}
        target = self._base + path + ("?" + urllib.parse.urlencode(given) if given else "")
        auth = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return target, {**auth, **{k: v for k, v in headers.items() if v}}

    def once(self, conn: http.client.HTTPConnection, method: str, path: str, query: Mapping[str, Any] | None = None,
             body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        """One try. What the server refuses is a SpoolError."""
        try:
            target, all_headers = self.head(path, query, headers or {})
            conn.request(method, target, body, all_headers)
            sock = conn.sock
            answer = Answer(self, conn, sock, conn.getresponse())
            if answer.response.status >= 300:
                raise refused(method, path, answer.response, answer.read())
            return answer
        except FAILED:
            conn.close()
            raise

    def call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: bytes | None = None,
             headers: Mapping[str, str] | None = None, *, again: bool | None = None) -> tuple[bytes, http.client.HTTPResponse]:
        """A request and its whole answer, tried again for as long as the patience lasts. again: it may be sent once more though the first
        one may have been done; reads may, and what names a producer."""
        again = method in ("GET", "HEAD") if again is None else again
        tries = Tries(self.patience)
        while True:
            sent = False
            try:
                conn = (again and self._take()) or self.connect()
                sent = True
                answer = self.once(conn, method, path, query, body, headers)
                return answer.read(), answer.response
            except Unavailable as why:
                if not (again or why.status in (429, 503)) or not tries.rest(why.retry_after):
                    raise
            except FAILED as why:
                if sent and not again:
                    raise Unavailable(f"{method} {path}: no answer came, and it may have been done: {why}") from why
                if not tries.rest(None):
                    raise Unavailable(f"{method} {self._url}{path}: {why}: is Spool there? The URL, or SPOOL_HTTP, names another") from why

    def json(self, method: str, path: str, query: Mapping[str, Any] | None = None, value: Any = None, **how: Any) -> Any:
        """A call whose body and answer are JSON."""
        headers = {"Accept": "application/json"}
        body = None
        if method not in ("GET", "DELETE"):
            body, headers["Content-Type"] = encode({} if value is None else value), "application/json"
        return json.loads(self.call(method, path, query, body, headers, **how)[0])


class Tries:
    """When to try again: waits double from 50 ms to 2 s, or are what the server says, and end with the patience."""

    def __init__(self, patience: float):
        self._until, self._wait = time.monotonic() + patience, 0.05

    def rest(self, after: float | None, stop: threading.Event | None = None) -> bool:
        """Waits, and tells whether there is time for another try."""
        wait = max(after or 0.0, self._wait * random.uniform(0.5, 1))
        self._wait = min(2.0, 2 * self._wait)
        if time.monotonic() + wait > self._until:
            return False
        return not stop.wait(wait) if stop else time.sleep(wait) is None


def refused(method: str, path: str, response: http.client.HTTPResponse, body: bytes) -> SpoolError:
    try:
        told = json.loads(body)
    except ValueError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    error = error_of(response.status, f"{method} {path}: {told.get('error') or response.reason}", told)
    if isinstance(error, Unavailable):
        after = response.getheader("Retry-After") or told.get("retry_after") or ""
        error.retry_after = float(after) if str(after).isdigit() else None
    return error


def segment(name: str) -> str:
    """A name as a piece of a path."""
    return urllib.parse.quote(name, safe="")


def encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a pair of surrogates: JSON can say it, UTF-8 can not
        return json.dumps(value, separators=(",", ":")).encode()


class Stream(Iterator[Event]):
    """An event stream that goes on where it was cut, until it is closed or the server says that it ends. While the server is away it waits;
    what the server refuses is raised. last_id is that of the event before: keep it to go on in another process."""

    def __init__(self, wire: Wire, path: str, query: Mapping[str, Any], last_id: str | None = None):
        self._wire, self._path, self._query, self.last_id = wire, path, dict(query), last_id
        self._closed = threading.Event()
        self._answer: Answer | None = None
        self._events = self._all()

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, also from another thread."""
        self._closed.set()
        if self._answer:
            self._answer.close()

    def _all(self) -> Iterator[Event]:
        tries = Tries(float("inf"))
        while not self._closed.is_set():
            after = None
            try:
                headers = {"Accept": "text/event-stream", "Last-Event-ID": self.last_id or ""}
                query = {k: v for k, v in self._query.items() if not (self.last_id and k in ("from", "since", "current"))}
                self._answer = self._wire.once(self._wire.connect(SILENCE), "GET", self._path, query, None, headers)
                for event in parse(self._answer.response) if not self._closed.is_set() else ():
                    if self._closed.is_set():
                        return
                    tries = Tries(float("inf"))
                    if event.name == "failed":
                        break
                    self.last_id = event.id or self.last_id
                    yield event
                    if event.name == "reset" and event.data.get("reason") in ("removed", "renamed"):
                        self.close()
                        return
            except Unavailable as why:
                after = why.retry_after
            except (*FAILED, ValueError, AttributeError):  # ValueError, AttributeError: it was closed while it was read
                pass
            finally:
                if self._answer:
                    self._answer.close()
            tries.rest(after, self._closed)


def parse(lines: Any) -> Iterator[Event]:
    """The events of a body, as the standard of server-sent events has them. One that is cut off is none."""
    name, last, data = "", "", []
    for raw in lines:
        line = raw.decode().rstrip("\r\n")
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not raw.endswith(b"\n"):
            return
        if not line:
            if data:
                yield Event(name or "message", last, json.loads("\n".join(data)))
            name, data = "", []
        elif field == "event":
            name = value
        elif field == "id":
            last = value
        elif field == "data":
            data.append(value)
