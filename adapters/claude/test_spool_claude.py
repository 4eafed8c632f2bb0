"""What the SDK's Protocol asks of a session store, held against a real spool up."""

import asyncio
import inspect
import os
import unittest
import uuid
from typing import Any, NotRequired, Protocol, TypedDict, runtime_checkable

from spool_claude import SpoolSessionStore


class SessionKey(TypedDict):
    project_key: str
    session_id: str
    subpath: NotRequired[str]


@runtime_checkable
class SessionStore(Protocol):  # as the package claude-agent-sdk has it
    async def append(self, key: SessionKey, entries: list[Any]) -> None: ...
    async def load(self, key: SessionKey) -> list[Any] | None: ...
    async def list_sessions(self, project_key: str) -> list[Any]: ...
    async def list_session_summaries(self, project_key: str) -> list[Any]: ...
    async def delete(self, key: SessionKey) -> None: ...
    async def list_subkeys(self, key: Any) -> list[str]: ...


def fold(prev: Any, key: Any, entries: list[Any], **_: Any) -> Any:
    data = dict(prev["data"]) if prev else {"n": 0}
    data["n"] += len(entries)
    return {"session_id": key["session_id"], "mtime": 0, "data": data}


def make(**more: Any) -> SpoolSessionStore:
    return SpoolSessionStore(os.environ["SPOOL_HTTP"], fold_session_summary=fold, **more)


def fresh(**more: str) -> Any:
    return {"project_key": f"-p-{uuid.uuid4()}", "session_id": str(uuid.uuid4())} | more


def entry(text: Any) -> Any:
    return {"type": "user", "uuid": str(uuid.uuid4()), "message": {"role": "user", "content": str(text)}}


class Contract(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.store = make()

    async def test_protocol(self) -> None:
        self.assertIsInstance(self.store, SessionStore)
        for name, of in inspect.getmembers(SessionStore, inspect.iscoroutinefunction):
            self.assertEqual(list(inspect.signature(of).parameters), list(inspect.signature(getattr(SpoolSessionStore, name)).parameters))

    async def test_load_is_what_was_appended(self) -> None:
        key = fresh()
        entries = [entry("ü😀\u2028"), {"type": "tag", "deep": {"z": [1, None, 0.1, -1.5, 1e21]}}, entry("\ud800")]
        self.assertIsNone(await self.store.load(key))
        await self.store.append(key, [])
        self.assertIsNone(await self.store.load(key))
        await self.store.append(key, entries)
        self.assertEqual(await make().load(key), entries)

    async def test_order_of_calls(self) -> None:
        key, entries = fresh(), [entry(n) for n in range(30)]
        await asyncio.gather(*(self.store.append(key, [one]) for one in entries))
        self.assertEqual(await self.store.load(key), entries)

    async def test_replays(self) -> None:
        key, entries = fresh(), [entry("a"), {"type": "tag"}, entry("b")]
        await asyncio.gather(*(make().append(key, entries) for _ in range(3)))
        self.assertEqual(await self.store.load(key), entries)
        await self.store.append(key, [{"type": "tag"}])
        await self.store.append(key, [{"type": "tag"}])
        self.assertEqual(len(await self.store.load(key) or []), 5)

    async def test_subpaths_and_deletes(self) -> None:
        key = fresh()
        subpaths = ["subagents/agent-1", "subagents/x/agent-1", "..", "=", "ü" * 300]
        for sub in subpaths:
            await self.store.append(key | {"subpath": sub}, [entry(sub)])
        self.assertEqual(await self.store.list_sessions(key["project_key"]), [])
        await self.store.append(key, [entry("main")])
        self.assertEqual(sorted(await self.store.list_subkeys(key)), sorted(subpaths))
        for sub in subpaths:
            loaded = await self.store.load(key | {"subpath": sub})
            self.assertEqual([one["message"]["content"] for one in loaded or []], [sub])
        await self.store.delete(key | {"subpath": ".."})
        self.assertIsNone(await self.store.load(key | {"subpath": ".."}))
        await self.store.delete(key)
        await self.store.delete(key)
        self.assertIsNone(await self.store.load(key))
        self.assertEqual(await self.store.list_subkeys(key), [])

    async def test_lists_and_summaries(self) -> None:
        key = fresh()
        stores = [make(), make(), SpoolSessionStore(os.environ["SPOOL_HTTP"])]
        await asyncio.gather(*(stores[n % 3].append(key, [entry(n)]) for n in range(9)))
        await self.store.append(key, [entry("last")])
        [one] = await self.store.list_sessions(key["project_key"])
        [summary] = await self.store.list_session_summaries(key["project_key"])
        self.assertEqual(summary["data"], {"n": 10})
        self.assertGreaterEqual(summary["mtime"], one["mtime"])
        self.assertIsInstance(one["mtime"], int)
        with self.assertRaises(NotImplementedError):
            await stores[2].list_session_summaries(key["project_key"])

    async def test_away(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "Spool, POST"):
            await SpoolSessionStore("http://127.0.0.1:1", patience=0.2).append(fresh(), [entry("x")])


if __name__ == "__main__":
    unittest.main()
