#!/usr/bin/env python3
"""Spool over plain NATS, with the standard library alone (docs/protocol.md).

    spool.py publish SESSION THREAD < entries     an entry of the dialect item a line; prints a line when it is durable
    spool.py follow SESSION THREAD COUNT          prints that many items, from the first one

The server is NATS_URL, else nats://127.0.0.1:4222.
"""
import json, os, random, re, socket, sys, time, urllib.parse, uuid


class Nats:
    """What a client of the NATS protocol needs at least: publish, subscribe, request."""

    def __init__(self, url):
        at = urllib.parse.urlparse(url)
        self.sock = socket.create_connection((at.hostname, at.port or 4222), timeout=30)
        self.read, self.early = self.sock.makefile("rb"), []
        self.read.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "lang": "python", "version": "1", "protocol": 1}
        if at.username:
            options |= {"user": at.username, "pass": at.password}
        self.inbox, self.sid = "_INBOX." + uuid.uuid4().hex, 0
        self.send(b"CONNECT " + json.dumps(options).encode() + b"\r\n")

    def send(self, line):
        self.sock.sendall(line)

    def subscribe(self, subject):
        self.sid += 1
        self.send(f"SUB {subject} {self.sid}\r\n".encode())

    def publish(self, subject, payload, reply="", headers=None):
        head = b"NATS/1.0\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in (headers or {}).items()) + b"\r\n"
        self.send(f"HPUB {subject} {reply} {len(head)} {len(head) + len(payload)}\r\n".encode() + head + payload + b"\r\n")

    def next(self):
        """The next message: its subject, its headers as they came, its payload."""
        return self.early.pop(0) if self.early else self.receive()

    def receive(self):
        while True:
            words = self.read.readline().split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise ConnectionError(b" ".join(words[1:]).decode())
            elif words[0] in (b"MSG", b"HMSG"):
                size, head = int(words[-1]), int(words[-2]) if words[0] == b"HMSG" else 0
                data = self.read.read(size + 2)[:-2]
                return words[1].decode(), data[:head], data[head:]

    def request(self, subject, payload, headers=None):
        """The JSON that answers a request; an error of the server is an answer too."""
        reply = f"{self.inbox}.{uuid.uuid4().hex}"
        self.subscribe(reply)
        self.publish(subject, payload, reply, headers)
        while True:
            message = self.receive()
            if message[0] == reply:
                return {"error": {"code": 503}} if message[1].startswith(b"NATS/1.0 503") else json.loads(message[2])
            self.early.append(message)  # of a subscription: it came before the answer


class Spool:
    def __init__(self, url):
        self.nats, self.producer, self.seq = Nats(url), "~" + uuid.uuid4().hex, 0

    def publish(self, session, thread, body, dialect="item"):
        """Appends an entry; returns when it is durable. One publish is under way at a time, so nothing comes out of order."""
        self.seq += 1
        event = {"producer": self.producer, "seq": self.seq, "dialect": dialect, "body": body}
        for attempt in range(60):
            answer = self.nats.request(f"spool.v1.event.{session}.{thread}.entry", json.dumps(event).encode(),
                                       {"Content-Type": "application/json"})
            error = answer.get("error")
            if not error:
                return answer["seq"]
            if error["code"] not in (429, 503) and error.get("err_code") != 10077:
                raise RuntimeError(error["description"])
            time.sleep(min(2, 0.01 * 2**attempt) * random.uniform(0.5, 1))  # busy or full: the same event again
        raise TimeoutError("the server takes nothing")

    def items(self, session, thread, not_user=None):
        """The items of a thread, from the first one that is kept, each once; without those of the user not_user."""
        deliver, last = f"{self.nats.inbox}.items", {}
        self.nats.subscribe(deliver)
        config = {"deliver_subject": deliver, "filter_subject": f"spool.v1.item.{session}.{thread}.>",
                  "deliver_policy": "all", "ack_policy": "none"}
        made = self.nats.request("$JS.API.CONSUMER.CREATE.SPOOL_ITEMS", json.dumps({"stream_name": "SPOOL_ITEMS", "config": config}).encode())
        if "error" in made:
            raise RuntimeError(made["error"]["description"])
        while True:
            subject, head, data = self.nats.next()
            if subject.startswith("spool.v1.item."):
                item, life = json.loads(data), re.search(rb"Spool-Life: (\d+)", head)
                life = life and life[1]  # another thread of the name has items from 1 on
                if item["n"] > last.get(life, 0):  # after a crash of a persister an item can be stored twice
                    last[life] = item["n"]
                    if not_user is None or item.get("user_id") != not_user:  # who posts and reads would read itself
                        yield item


def main(command, session, thread, count="0"):
    spool = Spool(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    if command == "publish":
        for line in sys.stdin:
            print(spool.publish(session, thread, json.loads(line)), flush=True)
    elif command == "follow":
        for n, item in enumerate(spool.items(session, thread), 1):
            print(json.dumps(item, ensure_ascii=False), flush=True)
            if n == int(count):
                return
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, RuntimeError, ValueError) as why:
        sys.exit(f"spool.py: {why}")
