"""A ledger of acks: what was acknowledged over HTTP, against what an export has. Reads SPOOL_INGEST_TOKEN.

ledger.py load SECONDS FILE    eight writers to 127.0.0.1:7717 for so long; their acks go to FILE, which may have those of before
ledger.py check FILE DIR       every ack of FILE stands once in DIR, as spool export --all made it; the exit code is 1 if not
"""

import json
import os
import pathlib
import sys
import threading
import time
import urllib.request

WRITERS = 8


def write(session, until, acked, failed):
    """Appends numbers to a session; one without an answer is not written again."""
    n = 0
    while time.time() < until:
        n += 1
        request = urllib.request.Request(
            f"http://127.0.0.1:7717/v1/sessions/{session}/threads/main/entries?dialect=raw",
            data=json.dumps({"n": n, "pad": "x" * 400}).encode(),
            headers={"Authorization": "Bearer " + os.environ["SPOOL_INGEST_TOKEN"], "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                if json.load(answer).get("ok"):
                    acked.append((n, time.time()))
        except (OSError, ValueError) as error:
            failed.append(str(error)[:60])
            time.sleep(0.2)


def load(seconds, file):
    book = json.loads(file.read_text()) if file.exists() else {}
    tag, until, failed = f"load-{time.time_ns()}", time.time() + seconds, []
    acks = {f"{tag}-{w}": [] for w in range(WRITERS)}
    began = time.time()
    threads = [threading.Thread(target=write, args=(session, until, acked, failed)) for session, acked in acks.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    book.update({session: [n for n, _ in acked] for session, acked in acks.items()})
    file.write_text(json.dumps(book))
    times = sorted([began] + [at for acked in acks.values() for _, at in acked])
    gap = max((b - a for a, b in zip(times, times[1:])), default=seconds)
    print(f"acked {len(times) - 1}, without an ack {len(failed)}, longest gap {gap:.1f} s", flush=True)
    return len(times) > 1


def check(file, export):
    acked = json.loads(file.read_text())
    stored = missing = repeated = 0
    for session, numbers in acked.items():
        path = export / session / "main.jsonl"
        found = [json.loads(line)["n"] for line in path.read_text().splitlines()] if path.exists() else []
        stored += len(found)
        repeated += len(found) - len(set(found))
        missing += len(set(numbers) - set(found))
    total = sum(map(len, acked.values()))
    print(f"acked {total}, stored {stored}, acked and missing {missing}, stored twice {repeated}", flush=True)
    return total > 0 and missing == 0 and repeated == 0


if __name__ == "__main__":
    command, first, second = sys.argv[1:]
    good = load(float(first), pathlib.Path(second)) if command == "load" else check(pathlib.Path(first), pathlib.Path(second))
    sys.exit(0 if good else 1)
