"""Publishing: in order, and each entry once, however often it is sent."""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from typing import Any, Union

from .errors import BadRequest, Conflict, NotPermitted, SpoolError
from .wire import FAILED, Wire, encode, segment

Entry = Union[dict[str, Any], str, bytes]
"""A JSON object, or the text or bytes of an entry as they are."""

LINES, BYTES = 1000, 4 << 20  # the most that goes in one request of lines


def item(text: str, type: str | None = None) -> dict[str, Any]:
    """An entry of the dialect item that says a text. type is who speaks: "text" is the agent, None its user."""
    said: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    return said if type is None else {**said, "metadata": {"type": type}}


def _thread(session: str, thread: str) -> str:
    return f"/v1/sessions/{segment(session)}/threads/{segment(thread)}"


@dataclass(frozen=True)
class Ack:
    """What a publish made durable: under which sequences of its producer."""

    session: str
    thread: str
    producer: str
    epoch: int
    first: int
    last: int
    _wire: Wire

    def applied(self) -> None:
        """Returns when all of it is in its thread. Conflict: one of the entries was refused, and why. Needs a token that may read."""
        query = {"producer": self.producer, "epoch": self.epoch, "first": self.first, "seq": self.last}
        self._wire.json("GET", f"{_thread(self.session, self.thread)}/applied", query)


class Publisher:
    """Publishes as one producer. One publish is under way at a time; safe for use by several threads.

    After an error some of the entries may be stored, or none, or all. Both ways on are safe: publish the same again, all of them or from
    the first on, and nothing is stored twice; or go on with others. After a refusal (BadRequest, Conflict, NotPermitted) "the same" may
    leave the refused one out.

    producer: a name that outlives the process, where seq says how many sequences an earlier one used, or epoch is one that none had.
    """

    def __init__(self, wire: Wire, producer: str | None = None, epoch: int = 0, seq: int = 0, user: str | None = None):
        self.producer, self.epoch, self.seq = producer or "~" + uuid.uuid4().hex, epoch, seq
        self._wire, self._user, self._lock = wire, user, threading.Lock()
        self._doubt: list[tuple[Any, int]] = []  # of the publish that failed: what may be stored, and under which sequence
        self._refused = False  # the first of them was, for good

    def publish(self, session: str, thread: str, *entries: Entry, dialect: str = "item") -> Ack:
        """Appends entries, in order, and returns when they are durable."""
        bodies = [e.encode() if isinstance(e, str) else e if isinstance(e, bytes) else encode(e) for e in entries]
        if not bodies:
            raise ValueError("nothing to publish")
        with self._lock:
            keys = [(session, thread, dialect, b) for b in bodies]
            seqs = self._sequences(keys)
            path, query = f"{_thread(session, thread)}/entries", {"dialect": dialect, "user": self._user}
            done = 0
            try:
                while done < len(bodies):
                    done += self._lines(path, query, seqs[done:], bodies[done:]) or self._one(path, query, seqs[done], bodies[done])
            except BaseException as why:
                self._doubt = [*zip(keys[done:], seqs[done:]), *self._doubt]
                self._refused = isinstance(why, (BadRequest, Conflict, NotPermitted))
                raise
            self._refused = False
            return Ack(session, thread, self.producer, self.epoch, seqs[0], seqs[-1], self._wire)

    def _sequences(self, keys: list[Any]) -> list[int]:
        """Those that the entries had, where a publish of them failed, else new ones."""
        for begin in (0, 1) if self._refused else (0,):
            had = self._doubt[begin:begin + len(keys)]
            if had and [key for key, _ in had] == keys[:len(had)]:
                self._doubt = self._doubt[begin + len(keys):]
                break
        else:
            had, self._doubt = [], []
        new = len(keys) - len(had)
        self.seq += new
        return [seq for _, seq in had] + list(range(self.seq - new + 1, self.seq + 1))

    def _headers(self, seq: int, media: str) -> dict[str, str]:
        return {"Content-Type": media, "Spool-Producer": self.producer, "Spool-Seq": str(seq), "Spool-Epoch": str(self.epoch)}

    def _one(self, path: str, query: dict[str, Any], seq: int, body: bytes) -> int:
        self._wire.call("POST", path, query, body, self._headers(seq, "application/json"), again=True)
        return 1

    def _lines(self, path: str, query: dict[str, Any], seqs: list[int], bodies: list[bytes]) -> int:
        """Sends as many as fit as lines, once, and counts those from the first on that are durable. What stops it is told by sending the
        next one alone."""
        count = size = 0
        for body, seq in zip(bodies[:LINES], seqs):
            size += len(body) + 1
            if size > BYTES or b"\n" in body or not body.strip() or seq != seqs[0] + count:
                break
            count += 1
        if count < 2:
            return 0
        stored = 0
        try:
            answer = self._wire.once(self._wire.connect(), "POST", path, query, b"\n".join(bodies[:count]) + b"\n",
                                     self._headers(seqs[0], "application/x-ndjson"))
            try:
                for line in answer.response:
                    if stored == count or not json.loads(line).get("ok"):
                        break
                    stored += 1
            finally:
                answer.close()
        except (*FAILED, SpoolError, ValueError):
            pass
        return stored
