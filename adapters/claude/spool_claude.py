"""A session store of the Claude Agent SDK that keeps sessions in Spool, over HTTP. It needs nothing but Python 3.11."""

from __future__ import annotations

import asyncio
import json
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import quote
from urllib.request import Request, urlopen
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from claude_agent_sdk import SessionKey, SessionStoreEntry, SessionSummaryEntry
Fold = Callable[..., Any] | None  # claude_agent_sdk.fold_session_summary


def _path(project_key: str, session_id: str | None = None, subpath: str | None = None) -> str:
    """Names as segments of a path; clients take "." and ".." out of paths."""
    names = (name for name in (project_key, session_id, subpath or None) if name is not None)
    return "".join("/" + quote("=" * (name in (".", "..") or name[:1] == "=") + name, safe="") for name in names)


def _line(entry: Any) -> bytes:
    """As JavaScript writes it, half a character too, so that it is the line of the file."""
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def _send(sent: Request) -> tuple[bytes, str]:
    with urlopen(sent, timeout=30) as answer:
        return answer.read(), answer.headers.get("ETag", "")


class SpoolSessionStore:
    """patience: for how many seconds a request is tried again; fold_session_summary: the SDK's own, so that lists read no transcripts."""

    def __init__(self, url: str = "http://127.0.0.1:7717", token: str = "", patience: float = 40, fold_session_summary: Fold = None):
        self._base, self._token, self._patience, self._fold = url.rstrip("/") + "/v1/claude", token, patience, fold_session_summary
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # an append comes behind the one before

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        async with self._locks.setdefault(path := _path(**key), asyncio.Lock()):
            body = b"".join(_line(entry) + b"\n" for entry in entries)
            added = json.loads((await self._ask("POST", path, body, "application/x-ndjson"))[0])
            if self._fold and entries and not key.get("subpath"):
                await self._summarize(key, path, entries, added["entries"], added.get("total"))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        body = (await self._ask("GET", _path(**key), none=(404,)))[0]
        return None if body is None else [json.loads(line) for line in body.split(b"\n") if line]

    async def list_sessions(self, project_key: str) -> list[Any]:
        listed = json.loads((await self._ask("GET", _path(project_key)))[0])["sessions"]
        return [{"session_id": one["session"], "mtime": one["mtime"]} for one in listed]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        if not self._fold:
            raise NotImplementedError  # the SDK reads transcripts then
        return [{"session_id": one["session"], "mtime": one["summary_mtime"], "data": one["summary"]["python"]}
                for one in json.loads((await self._ask("GET", _path(project_key)))[0])["sessions"] if "python" in one.get("summary", ())]

    async def list_subkeys(self, key: Any) -> list[str]:
        return json.loads((await self._ask("GET", _path(key["project_key"], key["session_id"]) + "?subkeys"))[0])["subkeys"]

    async def delete(self, key: SessionKey) -> None:
        await self._ask("DELETE", _path(**key))

    async def _summarize(self, key: Any, path: str, entries: list[Any], fresh: int, total: int | None) -> None:
        """Folds entries into the summary, until nobody else did. It is of n: where some are missing, or JavaScript made it, of all."""
        while True:
            had, tag = await self._ask("GET", path + "?summary", none=(404,))
            of = json.loads(had) if had else {}
            n, data = (of["n"], of["python"]) if "python" in of else (0, None)
            if total and n >= total:
                return
            following = n + fresh == total and fresh == len(entries)
            every = entries if following else await self.load(key) or []
            prev = {"session_id": key["session_id"], "mtime": 0, "data": data} if following and data else None
            body = {"n": total if following else len(every), "python": self._fold(prev, key, every)["data"]}
            if (await self._ask("PUT", path + "?summary", _line(body), "application/json", tag, none=(412,)))[0] is not None:
                return

    async def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = "", tag: str = "", none: Any = ()) -> Any:
        """The body of an answer and its ETag, asked for again while the server is busy or away. None: its status is one of none."""
        headers = {"Authorization": self._token and "Bearer " + self._token, "Content-Type": kind, "If-Match": tag}
        sent = Request(self._base + path, body, {name: of for name, of in headers.items() if of}, method=method)
        until, wait = time.monotonic() + self._patience, 0.05
        while True:
            try:
                return await asyncio.to_thread(_send, sent)
            except (OSError, HTTPException) as error:  # HTTPError has a status
                status = getattr(error, "code", 0)
                if status in none:
                    return None, ""
                if 400 <= status < 500 and status != 429 or time.monotonic() + wait > until:
                    why = error.read().decode(errors="replace").strip() if status else error
                    raise RuntimeError(f"Spool, {method} {path}: {status or 'no answer'}: {why}") from error
            await asyncio.sleep(wait := min(2 * wait, 2))
