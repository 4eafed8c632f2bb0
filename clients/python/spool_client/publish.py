"""Publishing: in order, and each entry once, however often it is sent."""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterator, Union

from .errors import BadRequest, Conflict, NotPermitted, SpoolError
from .wire import FAILED, Wire, encode, renew_in_child, segment

Entry = Union[dict[str, Any], str, bytes]
"""A JSON object, or the text or bytes of an entry as they are."""

LINES, BYTES = 1000, 4 << 20  # the most that goes in one request of lines
DOUBTFUL = 1000  # threads of which it is known at a time what failed


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


@dataclass
class _Place:
    """A thread, as a publisher knows it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    doubt: list[tuple[Any, int]] = field(default_factory=list)  # of the publish that failed: what may be stored, and under which sequence
    refused: bool = False  # the first of them was, for good


class Publisher:
    """Publishes as one producer. To a thread one publish is under way at a time, and none waits for those to other threads; safe for use by
    several threads of a program.

    After an error some of the entries may be stored, or none, or all. Both ways on are safe: publish the same again, all of them or from
    the first on, before others to that thread, and nothing is stored twice; or go on with others. After a refusal (BadRequest, Conflict,
    NotPermitted) "the same" may leave the refused one out. A process that is forked has a producer of its own, unless that has a name.

    producer: a name that outlives the process, where seq says how many sequences an earlier one used, or epoch is one that none had.
    """

    def __init__(self, wire: Wire, producer: str | None = None, epoch: int = 0, seq: int = 0, user: str | None = None):
        self.producer, self.epoch, self.seq = producer or "~" + uuid.uuid4().hex, epoch, seq
        self._wire, self._user, self._named = wire, user, bool(producer)
        self._lock, self._places = threading.Lock(), dict[tuple[str, str], _Place]()
        renew_in_child(self)

    def renew(self) -> None:
        """Makes it one of a process that was forked: that of its parent goes on with the sequences."""
        self._lock, self._places = threading.Lock(), {}
        if not self._named:
            self.producer, self.seq = "~" + uuid.uuid4().hex, 0

    def publish(self, session: str, thread: str, *entries: Entry, dialect: str = "item") -> Ack:
        """Appends entries, in order, and returns when they are durable."""
        bodies = [e.encode() if isinstance(e, str) else e if isinstance(e, bytes) else encode(e) for e in entries]
        if not bodies:
            raise ValueError("nothing to publish")
        with self._place((session, thread)) as place:
            keys = [(dialect, b) for b in bodies]
            seqs = self._sequences(place, keys)
            path, query = f"{_thread(session, thread)}/entries", {"dialect": dialect, "user": self._user}
            done = 0
            try:
                while done < len(bodies):
                    done += self._lines(path, query, seqs[done:], bodies[done:]) or self._one(path, query, seqs[done], bodies[done])
            except BaseException as why:
                place.doubt = [*zip(keys[done:], seqs[done:]), *place.doubt]
                place.refused = isinstance(why, (BadRequest, Conflict, NotPermitted))
                raise
            place.refused = False
            return Ack(session, thread, self.producer, self.epoch, seqs[0], seqs[-1], self._wire)

    @contextmanager
    def _place(self, at: tuple[str, str]) -> Iterator[_Place]:
        """The thread that is published to, for one at a time. It is forgotten once nothing of it is in doubt."""
        with self._lock:
            place = self._places[at] = self._places.pop(at, None) or _Place()
            place.users += 1
        try:
            with place.lock:
                yield place
        finally:
            with self._lock:
                place.users -= 1
                if not place.users and not place.doubt:
                    del self._places[at]
                elif len(self._places) > DOUBTFUL:
                    oldest = next((at for at, p in self._places.items() if not p.users), at)
                    if not self._places[oldest].users:
                        del self._places[oldest]

    def _sequences(self, place: _Place, keys: list[Any]) -> list[int]:
        """Those that the entries had, where a publish of them failed, else new ones."""
        for begin in (0, 1) if place.refused else (0,):
            had = place.doubt[begin:begin + len(keys)]
            if had and [key for key, _ in had] == keys[:len(had)]:
                place.doubt = place.doubt[begin + len(keys):]
                break
        else:
            had, place.doubt = [], []
        new = len(keys) - len(had)
        with self._lock:
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
