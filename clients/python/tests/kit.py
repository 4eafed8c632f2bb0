"""What pkg/spooltest holds this client to: publishes a line of stdin after the other, or prints the first items of a thread.

    kit.py publish SESSION THREAD < entries
    kit.py follow SESSION THREAD COUNT
"""

import itertools
import json
import sys

from spool_client import Client

command, session, name = sys.argv[1:4]
with Client() as spool:
    thread = spool.thread(session, name)
    if command == "publish":
        thread.publish(*filter(None, sys.stdin.read().split("\n")))
    else:
        for it in itertools.islice(thread.live(from_=1), int(sys.argv[4])):
            print(json.dumps(it["item"]), flush=True)
