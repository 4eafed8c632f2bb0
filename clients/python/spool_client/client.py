"""The client and its handles. A method is called as in the Go client, and does what docs/http.md says of its route."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
import uuid
from typing import Any, Iterator, cast

from .errors import NotFound, SpoolError, Unavailable
from .publish import Ack, Entry, Publisher
from .types import Artifact, Item, OutputResult, Prompt, Resolution, RunInfo, SessionInfo, ThreadInfo
from .wire import FAILED, Stream, Wire, refused, segment


class Client:
    """A client of one server: SPOOL_HTTP, else http://127.0.0.1:7717; the token is that of SPOOL_TOKEN. Safe for use by several threads.

    timeout: seconds a single answer may take. patience: seconds for which a request is tried again while the server is busy or away.
    user: user_id of what is published, unless the token has a name.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0, patience: float = 60.0,
                 user: str | None = None, tls: ssl.SSLContext | None = None):
        url = url or os.environ.get("SPOOL_HTTP") or "http://127.0.0.1:7717"
        self._wire = Wire(url, token or os.environ.get("SPOOL_TOKEN"), timeout, patience, tls)
        self._user = user
        self._own = self.publisher()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections."""
        self._wire.close()

    def publisher(self, producer: str | None = None, *, epoch: int = 0, seq: int = 0) -> Publisher:
        """A producer of its own; see Publisher."""
        return Publisher(self._wire, producer, epoch, seq, self._user)

    def thread(self, session: str, name: str = "main") -> Thread:
        """The handle of a thread, whether it is there or not: nothing is asked."""
        return Thread(self, session, name)

    def session(self, id: str) -> Session:
        """The handle of a session, whether it is there or not: nothing is asked."""
        return Session(self, id)

    def artifacts(self) -> Artifacts:
        """The handle of artifacts."""
        return Artifacts(self)

    def sessions(self, *, cwd: str | None = None, q: str | None = None, unanswered: bool = False,
                 state: str | None = None) -> Iterator[SessionInfo]:
        """All of them, newest first, read by pages; by state: waiting, running, failed, idle or done."""
        return self._pages("/v1/sessions", "sessions", {"cwd": cwd, "q": q, "unanswered": unanswered, "state": state})

    def find_threads(self, *, session: str | None = None, status: str | None = None, ended_from: str | None = None,
                     ended_to: str | None = None) -> Iterator[ThreadInfo]:
        """Threads of all sessions, by status and by the UTC date of their end."""
        return self._pages("/v1/threads", "threads",
                           {"session": session, "status": status, "ended_from": ended_from, "ended_to": ended_to})

    def find_node(self, hash: str, *, session: str | None = None, thread: str | None = None) -> dict[str, Any]:
        """Where a state is: session, thread and n of its first item."""
        return self._get(f"/v1/nodes/{segment(hash)}", session=session, thread=thread)

    def subscribe(self, *, session: str | None = None, thread: str | None = None, type: str | None = None, detail: str | None = None,
                  since: str | None = None, not_user: str | None = None, last_id: str | None = None) -> Iterator[Item]:
        """Items as they come, of all threads or of those that are named, from now on or from a time ("all", "1h", RFC 3339)."""
        query = {"session": session, "thread": thread, "type": type, "detail": detail, "since": since, "not_user": not_user}
        seen: dict[tuple[Any, ...], None] = {}  # after a crash an item can come again, behind a few others
        with Stream(self._wire, "/v1/live", query, last_id) as stream:
            for event in stream:
                if event.name != "item":
                    continue
                key = tuple(event.data[k] for k in ("session", "thread", "n", "hash"))
                if thread is None and key in seen:
                    continue
                seen[key] = None
                if len(seen) > 4096:
                    del seen[next(iter(seen))]
                yield event.data

    def heads(self, *, session: str | None = None, current: bool = False, last_id: str | None = None) -> Stream:
        """The heads of active threads as they move, with current from where they are. Its events are named head."""
        return Stream(self._wire, "/v1/heads", {"session": session, "current": current}, last_id)

    def put_blob(self, data: bytes) -> str:
        """Stores bytes for the refs of a step that is to come next, and returns the ref."""
        answer, _ = self._wire.call("POST", "/v1/blobs", None, data, {"Content-Type": "application/octet-stream"}, again=True)
        return cast(str, _json(answer)["id"])

    def blob(self, ref: str) -> bytes:
        """The bytes of a ref, as blob:sha256:…"""
        return self._wire.call("GET", f"/v1/blobs/{segment(ref.removeprefix('blob:').removeprefix('sha256:'))}")[0]

    def search(self, q: str, **filters: Any) -> dict[str, Any]:
        """Items of all sessions that have all words; by session, cwd, tool, role, since, until, limit."""
        return self._get("/v1/search", q=q, **filters)

    def stats(self, **filters: Any) -> dict[str, Any]:
        """Sessions, turns, tokens and tool calls, by project, model or day."""
        return self._get("/v1/stats", **filters)

    def history(self, **filters: Any) -> dict[str, Any]:
        """What people asked for; by q, session, cwd, limit."""
        return self._get("/v1/history", **filters)

    def _get(self, path: str, **query: Any) -> Any:
        return self._wire.json("GET", path, query)

    def _pages(self, path: str, name: str, query: dict[str, Any], cursor: str = "after") -> Iterator[Any]:
        while True:
            page = self._get(path, **query)
            yield from page[name]
            if not page.get("next"):
                return
            query = {**query, cursor: page["next"]}


class Thread:
    """A thread, whether it is there or not."""

    def __init__(self, client: Client, session: str, name: str):
        self._client, self._wire, self.session, self.name = client, client._wire, session, name
        self._path = f"/v1/sessions/{segment(session)}/threads/{segment(name)}"

    def publish(self, *entries: Entry, dialect: str = "item") -> Ack:
        """Appends entries by the client's own publisher, in order, and returns when they are durable."""
        return self._client._own.publish(self.session, self.name, *entries, dialect=dialect)

    def head(self) -> ThreadInfo:
        """Where the thread is."""
        return cast(ThreadInfo, self._get(""))

    def items_from(self, n: int = 1) -> Iterator[Item]:
        """Its items from number n to the end, read by pages."""
        return self._client._pages(f"{self._path}/items", "items", {"from": n}, "from")

    def items_back(self, before: int | None = None) -> Iterator[Item]:
        """Its items before number n, or from the end, backwards."""
        query: dict[str, Any] = {"last": 100} if before is None else {"before": before, "limit": 100}
        while before is None or before > 1:
            items = self._get("/items", **query)["items"]
            yield from reversed(items)
            if not items:
                return
            before = items[0]["n"]
            query = {"before": before, "limit": 100}

    def full_item(self, n: int) -> Item:
        """An item as it was before any cut."""
        return cast(Item, self._get(f"/items/{n}", full=True))

    def search(self, q: str) -> Iterator[dict[str, Any]]:
        """Items that hold a text, newest first."""
        return self._client._pages(f"{self._path}/search", "matches", {"q": q}, "before")

    def log(self) -> Iterator[dict[str, Any]]:
        """All of its items as they were before any cut, read whole."""
        for line in self._wire.call("GET", f"{self._path}/logs/thread.log")[0].splitlines():
            yield _json(line)

    def context(self, leaf: str | None = None) -> dict[str, Any]:
        """What the model is sent."""
        return cast("dict[str, Any]", self._get("/context", leaf=leaf))

    def tree(self) -> list[dict[str, Any]]:
        """Its entries with their parents and labels."""
        return cast("list[dict[str, Any]]", self._get("/tree")["entries"])

    def follow(self, from_: int | None = None, *, whole: bool = False, not_user: str | None = None, last_id: str | None = None) -> Stream:
        """All events of the thread, from now on or from item from_: open, item, live (what open outputs print), head, reset."""
        return Stream(self._wire, f"{self._path}/live", {"from": from_, "whole": whole, "not_user": not_user}, last_id)

    def live(self, from_: int | None = None, *, not_user: str | None = None, last_id: str | None = None) -> Iterator[Item]:
        """Its items as they come, from now on or from item from_, each once. It ends when the thread is removed or renamed. NotFound: nothing
        was published to it."""
        with self.follow(from_, not_user=not_user, last_id=last_id) as stream:
            for event in stream:
                if event.name == "item":
                    yield event.data

    def start(self, **given: Any) -> ThreadInfo:
        """Begins it with what its workflow gives it: name, bundle, max_rounds, depth, prompt."""
        return cast(ThreadInfo, self._post("/start", given))

    def fork(self, to: str, **where: Any) -> ThreadInfo:
        """Makes a thread that begins as this one, up to n, index, node, entry or role; or whole=True. to may name another session's."""
        return cast(ThreadInfo, self._post("/fork", {"to": to, **where}))

    def compact(self, summary: str, first_kept: str | None = None) -> ThreadInfo:
        """Puts a summary in the place of what was before first_kept."""
        return cast(ThreadInfo, self._post("/compact", _given(summary=summary, first_kept=first_kept)))

    def end(self, return_code: int = 0, summary: str | None = None) -> ThreadInfo:
        """Completes it: it takes nothing more."""
        return cast(ThreadInfo, self._post("/end", _given(return_code=return_code, summary=summary)))

    def reopen(self) -> ThreadInfo:
        """Takes up a thread that failed."""
        return cast(ThreadInfo, self._post("/reopen", {}))

    def rename(self, to: str) -> ThreadInfo:
        """Gives it another name."""
        return cast(ThreadInfo, self._post("/rename", {"to": to}))

    def branch(self, entry: str) -> ThreadInfo:
        """What comes next goes after that entry."""
        return cast(ThreadInfo, self._post("/branch", {"entry": entry}))

    def reset(self) -> ThreadInfo:
        """What comes next goes after no entry."""
        return cast(ThreadInfo, self._post("/branch", {}))

    def branch_with_summary(self, entry: str, summary: str, details: Any = None) -> ThreadInfo:
        """As branch, with a summary of what is left."""
        return cast(ThreadInfo, self._post("/branch", _given(entry=entry, summary=summary, details=details)))

    def label(self, entry: str, label: str) -> str:
        """Names an entry, and returns the id of that."""
        return cast(str, self._post("/label", {"entry": entry, "label": label})["id"])

    def append(self, entry: dict[str, Any], leaf: str | None = None) -> dict[str, Any]:
        """Puts an entry of the dialect omp under the leaf: its id, and leaf_moved where another writer was first."""
        return cast("dict[str, Any]", self._post("/append", _given(entry=entry, leaf=leaf)))

    def remove(self, *, force: bool = False) -> None:
        """Removes it for good."""
        self._wire.json("DELETE", self._path, {"force": force})

    def outputs(self) -> list[dict[str, Any]]:
        """Its open outputs."""
        return cast("list[dict[str, Any]]", self._get("/outputs")["outputs"])

    def output(self, tool: str, **config: Any) -> Output:
        """Opens an output: what a tool prints, as it prints it. config is id, keep, run and so on, as docs/http.md has them."""
        return Output(self._wire, f"{self._path}/outputs", {"tool": tool, **config})

    def ask(self, text: str, kind: str = "approval", id: str | None = None) -> str:
        """Asks a person, and returns the id of the prompt; await_answer waits for the answer. The same question may be asked again under its
        id."""
        prompt = {"id": id or uuid.uuid4().hex, "kind": kind}
        self.publish({"content": [{"type": "text", "text": text}], "metadata": {"type": "pending_prompt", "prompt": prompt}})
        return prompt["id"]

    def prompt(self, id: str) -> Prompt:
        """A question, and how it was settled."""
        return cast(Prompt, self._get(f"/prompts/{segment(id)}"))

    def await_answer(self, id: str, timeout: float | None = None) -> Resolution:
        """Waits until a prompt is settled. TimeoutError: it is not yet."""
        until, wait = time.monotonic() + (float("inf") if timeout is None else timeout), 0.05
        while True:
            try:
                settled = self.prompt(id).get("resolution")
            except NotFound:
                settled = None  # it is not applied yet
            if settled:
                return settled
            if time.monotonic() + wait > until:
                raise TimeoutError(f"prompt {id} waits for its answer")
            time.sleep(wait)
            wait = min(2.0, 1.5 * wait)

    def answer(self, id: str, answer: Any, *, by: str | None = None, life: int | None = None) -> Resolution:
        """Settles a prompt. Conflict: it was before."""
        return cast(Resolution, self._post(f"/prompts/{segment(id)}/answer", {"answer": answer, **_given(by=by, life=life)})["resolution"])

    def start_run(self, id: str | None = None, *, agent: str | None = None, summary: str | None = None, lease_ms: int = 60_000) -> Run:
        """Begins a run, and gives signs of life until it ends. As a context manager it ends as completed, or as failed by an exception."""
        return Run(self, id or uuid.uuid4().hex, _given(agent=agent, summary=summary, lease_ms=lease_ms))

    def _get(self, path: str, **query: Any) -> Any:
        return self._client._get(self._path + path, **query)

    def _post(self, path: str, value: Any) -> Any:
        return self._wire.json("POST", self._path + path, None, value)


class Session:
    """A session, whether it is there or not."""

    def __init__(self, client: Client, id: str):
        self._client, self._wire, self.id, self._path = client, client._wire, id, f"/v1/sessions/{segment(id)}"

    def thread(self, name: str = "main") -> Thread:
        """The handle of one of its threads."""
        return self._client.thread(self.id, name)

    def new(self, cwd: str, parent: str | None = None) -> None:
        """Begins a session of omp entries."""
        self._post("", _given(cwd=cwd, parent=parent))

    def info(self) -> SessionInfo:
        """What a listing says of it, with its threads."""
        return cast(SessionInfo, self._client._get(self._path))

    def name(self, title: str, *, auto: bool = False) -> None:
        """Gives it a title; auto: a program made it up."""
        self._post("/name", {"title": title, "auto": auto})

    def move(self, cwd: str) -> None:
        """Gives it another working directory."""
        self._post("/move", {"cwd": cwd})

    def delete(self, *, force: bool = False, by: str | None = None) -> dict[str, Any]:
        """Removes it for good, and returns the receipt. Conflict says why not."""
        return cast("dict[str, Any]", self._wire.json("DELETE", self._path, {"force": force, "by": by}))

    def threads(self) -> list[ThreadInfo]:
        return cast("list[ThreadInfo]", self._client._get(f"{self._path}/threads")["threads"])

    def agent_calls(self) -> dict[str, str]:
        """Of its threads that are subagents, the invocation_id of the call that each works for."""
        return {t["thread"]: t["tool_call"] for t in self.info().get("thread_list", []) if "tool_call" in t}

    def graph(self) -> list[dict[str, Any]]:
        """How its threads come from each other."""
        return cast("list[dict[str, Any]]", self._client._get(f"{self._path}/graph")["nodes"])

    def live(self, *, since: str | None = None, not_user: str | None = None, last_id: str | None = None) -> Iterator[Item]:
        """Items of all of its threads as they come."""
        return self._client.subscribe(session=self.id, since=since, not_user=not_user, last_id=last_id)

    def prompts(self) -> list[Prompt]:
        """What waits for a person."""
        return cast("list[Prompt]", self._client._get("/v1/prompts", session=self.id)["prompts"])

    def runs(self) -> list[RunInfo]:
        return cast("list[RunInfo]", self._client._get("/v1/runs", session=self.id)["runs"])

    def end_run(self, run: str, state: str = "completed", summary: str | None = None) -> None:
        """Ends a run: completed, failed, aborted or cancelled."""
        self._post(f"/runs/{segment(run)}/end", _given(state=state, summary=summary))

    def artifacts(self) -> list[Artifact]:
        return cast("list[Artifact]", self._client._get(f"{self._path}/artifacts")["artifacts"])

    def take_number(self, tool: str) -> dict[str, Any]:
        """Takes a number and a file name for an artifact that is put later."""
        return cast("dict[str, Any]", self._post("/artifacts/number", {"tool": tool}))

    def take_agent_id(self, name: str, parent: str | None = None) -> str:
        """Takes the id of the next agent that parent starts."""
        return cast(str, self._post("/agents", _given(name=name, parent=parent))["id"])

    def resolve(self, url: str, *, offset: int | None = None, limit: int | None = None) -> bytes:
        """What an address leads to, as artifact://0, by lines."""
        return self._wire.call("GET", "/v1/read", {"session": self.id, "url": url, "offset": offset, "limit": limit})[0]

    def _post(self, path: str, value: Any) -> Any:
        return self._wire.json("POST", self._path + path, None, value)


class Artifacts:
    """Artifacts of any session."""

    def __init__(self, client: Client):
        self._client, self._wire = client, client._wire

    def put(self, session: str, body: bytes, *, mime: str = "application/octet-stream", **about: Any) -> Artifact:
        """Stores one; about is tool, filename, number, agent, run, tool_call, summary, category."""
        answer, _ = self._wire.call("POST", f"/v1/sessions/{segment(session)}/artifacts", about, body, {"Content-Type": mime})
        return cast(Artifact, _json(answer))

    def register_object(self, session: str, object: str, **about: Any) -> Artifact:
        """Makes an artifact of an object that is in spool_artifacts."""
        path = f"/v1/sessions/{segment(session)}/artifacts/register"
        return cast(Artifact, self._wire.json("POST", path, None, {"object": object, **about}))

    def record(self, id: str) -> dict[str, Any]:
        """Its size, type and digest, without its bytes."""
        _, response = self._wire.call("HEAD", f"/v1/artifacts/{segment(id)}")
        return {"size": int(response.getheader("Content-Length") or 0), "mime_type": response.getheader("Content-Type"),
                "etag": response.getheader("ETag")}

    def open(self, id: str, *, first: int = 0, last: int | None = None) -> bytes:
        """Its bytes, from the first to the last that are named."""
        span = {"Range": f"bytes={first}-{'' if last is None else last}"} if first or last is not None else {}
        return self._wire.call("GET", f"/v1/artifacts/{segment(id)}", None, None, span)[0]

    def delete(self, id: str) -> None:
        """Removes it for good."""
        self._wire.json("DELETE", f"/v1/artifacts/{segment(id)}")

    def cleanup(self, session: str, *, apply: bool = False, **how: Any) -> dict[str, Any]:
        """Which artifacts of debugging would be removed; with apply they are. how is include_all, older_than, max_bytes."""
        return cast("dict[str, Any]", self._wire.json("POST", f"/v1/sessions/{segment(session)}/artifacts/cleanup", None,
                                                      {"apply": apply, **how}))


class Output:
    """An open output. Write to it; close ends it, and result says where it is in the thread. What breaks off closes by its lease."""

    def __init__(self, wire: Wire, path: str, query: dict[str, Any]):
        self._wire, self._path, self.exit_code, self.result, self._closed = wire, path, 0, cast(OutputResult, {}), False
        target, headers = wire.head(path, query, {"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked",
                                                  "Trailer": "Spool-Exit-Code, Spool-Is-Error"})
        try:
            self._conn = wire.connect()
            self._conn.putrequest("POST", target)
            for name, value in headers.items():
                self._conn.putheader(name, value)
            self._conn.endheaders()
        except FAILED as why:
            raise Unavailable(f"POST {path}: {why}") from why

    def write(self, data: bytes | str) -> None:
        """Sends a piece of it: subscribers have it at once."""
        piece = data.encode() if isinstance(data, str) else data
        if piece:
            self._send(b"%x\r\n%s\r\n" % (len(piece), piece))

    def close(self, *, is_error: bool | None = None) -> OutputResult:
        """Ends it, with exit_code, and returns when the result is in the thread. Once it is closed this does nothing."""
        if self._closed:
            return self.result
        self._closed = True
        failed = self.exit_code != 0 if is_error is None else is_error
        try:
            self._send(b"0\r\nSpool-Exit-Code: %d\r\nSpool-Is-Error: %s\r\n\r\n" % (self.exit_code, b"true" if failed else b"false"))
            response = self._conn.getresponse()
            body = response.read()
        except FAILED as why:
            raise Unavailable(f"POST {self._path}: whether all of the output arrived is not known: {why}") from why
        finally:
            self._conn.close()
        if response.status >= 300:
            raise refused("POST", self._path, response, body)
        self.result = cast(OutputResult, _json(body))
        return self.result

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._conn.close()  # it is aborted by its lease, with what arrived

    def _send(self, data: bytes) -> None:
        try:
            self._conn.send(data)
        except FAILED as why:
            try:  # the server may have refused it, and said why
                response = self._conn.getresponse()
                raise refused("POST", self._path, response, response.read()) from why
            except FAILED:
                raise Unavailable(f"POST {self._path}: {why}") from why


class Run:
    """A run that is under way."""

    def __init__(self, thread: Thread, id: str, config: dict[str, Any]):
        self.id, self._thread, self._config, self._ended = id, thread, config, threading.Event()
        self.set()
        threading.Thread(target=self._renew, daemon=True).start()

    def set(self, **said: Any) -> None:
        """A sign of life, with another summary or state."""
        self._config.update(said)
        self._thread._wire.json("POST", f"{self._thread._path}/runs", None, {"run": self.id, **self._config}, again=True)

    def end(self, state: str = "completed", summary: str | None = None) -> None:
        """Ends it: completed, failed, aborted or cancelled."""
        self._ended.set()
        self._thread._client.session(self._thread.session).end_run(self.id, state, summary)

    def _renew(self) -> None:
        while not self._ended.wait(self._config["lease_ms"] / 3000):
            try:
                self.set()
            except SpoolError:
                pass  # the next one may come in time

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.end("completed" if kind is None else "failed")


def _given(**members: Any) -> dict[str, Any]:
    return {k: v for k, v in members.items() if v is not None}


def _json(body: bytes) -> Any:
    return json.loads(body)
