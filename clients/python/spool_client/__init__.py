"""Spool over HTTP, with the standard library alone.

    with Client() as spool:
        thread = spool.thread("build-42")
        thread.publish(item("tests pass", "text")).applied()
        for it in thread.live(from_=1):
            print(it["n"], it["item"])
"""

from .client import Artifacts, Client, Output, Run, Session, Thread
from .errors import BadRequest, Conflict, NotFound, NotPermitted, SpoolError, Unavailable
from .publish import Ack, Entry, Publisher, item
from .types import Artifact, Item, OutputResult, Prompt, Resolution, RunInfo, SessionInfo, ThreadInfo
from .wire import Event, Stream

__all__ = [
    "Ack", "Artifact", "Artifacts", "BadRequest", "Client", "Conflict", "Entry", "Event", "Item", "NotFound", "NotPermitted", "Output",
    "OutputResult", "Prompt", "Publisher", "Resolution", "Run", "RunInfo", "Session", "SessionInfo", "SpoolError", "Stream", "Thread",
    "ThreadInfo", "Unavailable", "item",
]
