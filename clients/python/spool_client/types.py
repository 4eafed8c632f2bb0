"""What answers hold. More members may come; docs/http.md and /v1/openapi.json say what each one means."""

from __future__ import annotations

from typing import Any, TypedDict


class Item(TypedDict, total=False):
    """An item of a thread, and where it is."""

    n: int
    session: str
    thread: str
    hash: str
    subject: str
    time: str
    item: dict[str, Any]


class ThreadName(TypedDict):
    """Which thread it is: every answer says so."""

    session: str
    thread: str


class ThreadInfo(ThreadName, total=False):
    """A thread, as its head says."""

    state: str
    status: str
    failure: str
    head: str
    n: int
    entries: int
    messages: int
    dialect: str
    start: dict[str, Any]
    fork_of: dict[str, Any]
    parents: list[Any]
    tool_call: str
    created: str
    modified: str
    ended: str
    bytes: int
    turns: int
    tokens: dict[str, int]
    damage: str


class SessionInfo(TypedDict, total=False):
    """A session, as a listing shows it; thread_list is of one that was asked for alone."""

    id: str
    name: str
    title: str
    summary: str
    first_prompt: str
    cwd: str
    host: str
    file: str
    harness: str
    dialect: str
    model: str
    parent: str
    status: str
    state: str
    running_by: str
    created: str
    modified: str
    threads: int
    entries: int
    messages: int
    turns: int
    tokens: dict[str, int]
    bytes: int
    prompts: int
    answered: bool
    thread_list: list[ThreadInfo]


class Resolution(TypedDict, total=False):
    """How a prompt was settled."""

    outcome: str
    by: str
    at: str
    answer: Any


class Prompt(TypedDict, total=False):
    """A question to a person."""

    session: str
    thread: str
    id: str
    kind: str
    text: str
    n: int
    asked_at: str
    deadline: str
    overdue: bool
    answerable: bool
    life: int
    prompt: dict[str, Any]
    resolution: Resolution


class RunInfo(TypedDict, total=False):
    """A run of an agent."""

    session: str
    thread: str
    run: str
    agent: str
    state: str
    expired: bool
    summary: str
    begun_at: str
    touched_at: str
    lease_left_ms: int


class Artifact(TypedDict, total=False):
    """An artifact's record."""

    artifact_id: str
    session: str
    seq: str
    filename: str
    size: int
    mime_type: str
    category: str
    summary: str
    created_at: str
    writer: str
    agent: str
    run: str
    node: str
    tool_call: str
    forked_from: str
    object: str


class OutputResult(TypedDict, total=False):
    """Where the result of an output is."""

    output: str
    bytes: int
    n: int
    node: str
    artifact_id: str
