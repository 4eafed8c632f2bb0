"""The client against a server that does what each test says, request by request: python3 -m unittest discover -s clients/python/tests"""

import http.server
import json
import os
import pathlib
import socket
import sys
import threading
import time
import typing
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import spool_client
from spool_client import BadRequest, Client, Conflict, NotFound, NotPermitted, SpoolError, Unavailable, item

CUT = object()  # an answer that does not come: the connection ends


class Server:
    """Answers each request with the next of its answers: a status, headers and a body; bytes as they are, and the connection ends; or CUT."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests.append((self.command, self.path, dict(self.headers), body))
                answer = outer.answers.pop(0) if outer.answers else (500, {}, b'{"error":"not expected"}')
                if answer is CUT or isinstance(answer, bytes):
                    self.close_connection = True
                    self.wfile.write(b"" if answer is CUT else answer)
                    return
                status, headers, text = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Connection" not in headers:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_HEAD = do_POST = do_DELETE = do

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def identities(self):
        return [(r[2].get("Spool-Producer"), int(r[2]["Spool-Seq"]), r[3]) for r in self.requests]


def ok(value, status=200, **headers):
    return status, headers, json.dumps(value).encode()


def stream(*events):
    """An event stream that ends behind these."""
    text = "".join(f"event: {name}\nid: {at}\ndata: {json.dumps(data)}\n\n" for name, at, data in events)
    return 200, {"Content-Type": "text/event-stream", "Connection": "close"}, text.encode()


class Publishing(unittest.TestCase):
    def test_busy(self):
        """The same entry is sent again, under the same sequence, not before the server said."""
        with Server(ok({"error": "busy"}, 503, **{"Retry-After": "1"}), CUT, ok({"ok": True, "seq": 1}, 202)) as s, Client(s.url) as c:
            begun = time.monotonic()
            ack = c.thread("s").publish(item("x"))
            self.assertGreaterEqual(time.monotonic() - begun, 1)
            self.assertEqual((ack.first, ack.last), (1, 1))
            self.assertEqual(len(set(s.identities())), 1)
            self.assertEqual(len(s.requests), 3)

    def test_bounded(self):
        """Patience ends; the same entries keep their sequences, others get those above."""
        answers = [ok({"error": "full"}, 503, **{"Retry-After": "60"})] * 2 + [ok({"ok": True, "seq": 1}, 202)] * 2
        with Server(*answers) as s, Client(s.url, patience=2) as c:
            thread = c.thread("s")
            for _ in range(2):
                with self.assertRaises(Unavailable) as caught:
                    thread.publish(item("x"))
                self.assertEqual((caught.exception.retry_after, caught.exception.status), (60, 503))
            thread.publish(item("x"))
            thread.publish(item("x"))
            self.assertEqual([seq for _, seq, _ in s.identities()], [1, 1, 1, 2])

    def test_of_several_threads(self):
        """What failed in a thread keeps its sequences whatever is published to others meanwhile, and those do not wait for it."""
        answers = ok({"error": "full"}, 503, **{"Retry-After": "60"}), *[ok({"ok": True, "seq": 1}, 202)] * 3
        with Server(*answers) as s, Client(s.url, patience=1) as c:
            with self.assertRaises(Unavailable):
                c.thread("a").publish(item("x"))
            c.thread("b").publish(item("y"))
            c.thread("a").publish(item("x"), item("z"))
            self.assertEqual([(r[1].split("/")[3], seq) for r, (_, seq, _) in zip(s.requests, s.identities())],
                             [("a", 1), ("b", 2), ("a", 1), ("a", 3)])
        busy = ok({"error": "quota"}, 429, **{"Retry-After": "3"})
        with Server(busy, *[ok({"ok": True, "seq": 1}, 202)] * 2) as s, Client(s.url) as c:
            waits = threading.Thread(target=c.thread("a").publish, args=(item("x"),))
            waits.start()
            while not s.requests:
                time.sleep(0.01)
            begun = time.monotonic()
            c.thread("b").publish(item("y"))
            self.assertLess(time.monotonic() - begun, 2)
            waits.join()
            self.assertEqual([seq for _, seq, _ in s.identities()], [1, 2, 1])

    def test_doubts_are_bounded(self):
        with unittest.mock.patch("spool_client.publish.DOUBTFUL", 2), Server() as s, Client(s.url, patience=0) as c:
            for session in "abcbd":
                with self.assertRaises(Unavailable):
                    c.thread(session).publish(item("x"))
            self.assertEqual([session for session, _ in c._own._places], ["b", "d"])

    def test_forked(self):
        """A process that is forked speaks by connections, and as a producer, of its own: nobody else's entry has its sequence."""
        with Server(*[ok({"ok": True, "seq": 1}, 202)] * 6) as s, Client(s.url) as c:
            named = c.publisher("ci-3")
            c.thread("s").publish(item("x"))
            named.publish("s", "main", item("x"))
            with c._own._lock, c._wire._lock:
                child = os.fork()
            if child == 0:
                try:
                    c.thread("s").publish(item("child"))
                    named.publish("s", "main", item("child"))
                finally:
                    os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(len(c._wire._idle), 1)
            c.thread("s").publish(item("parent"))
            own, told, of_child, told_by_child, again = [(producer, seq) for producer, seq, _ in s.identities()]
            self.assertEqual((own[1], of_child[1], again), (1, 1, (own[0], 2)))
            self.assertNotEqual(own[0], of_child[0])
            self.assertEqual((told, told_by_child), (("ci-3", 1), ("ci-3", 2)))

    def test_others_after_an_error(self):
        answers = ok({"error": "full"}, 503, **{"Retry-After": "60"}), *[ok({"ok": True, "seq": 1}, 202)] * 2
        with Server(*answers) as s, Client(s.url, patience=2) as c:
            with self.assertRaises(Unavailable):
                c.thread("s").publish(item("x"))
            c.thread("s").publish(item("y"))
            c.thread("s").publish(item("x"))
            self.assertEqual([seq for _, seq, _ in s.identities()], [1, 2, 3])

    def test_lines(self):
        """Of lines that were cut off, those without a result are sent again as they were."""
        lines = b'{"line":1,"ok":true,"seq":1}\n{"line":2,"ok":fal'
        end = b'{"line":1,"ok":true,"seq":3}\n{"line":2,"ok":true,"seq":4}\n'
        with Server((200, {"Connection": "close"}, lines), CUT, ok({"ok": True, "seq": 2}, 202), (200, {}, end)) as s, Client(s.url) as c:
            ack = c.thread("s").publish(*"1234")
            self.assertEqual((ack.first, ack.last), (1, 4))
            self.assertEqual([(seq, body) for _, seq, body in s.identities()],
                             [(1, b"1\n2\n3\n4\n"), (2, b"2\n3\n4\n"), (2, b"2"), (3, b"3\n4\n")])

    def test_refused(self):
        """What is refused for good is raised, once; the rest goes on with or without it under its sequences."""
        bad, b = ok({"error": "no"}, 400), b'{"line":1,"ok":false}\n{"line":2,"ok":true}\n'
        for rest, answers in {"bc": [(200, {}, b), bad], "c": [ok({"ok": True, "seq": 3}, 202)]}.items():
            abc = b'{"line":1,"ok":true}\n{"line":2,"ok":false}\n{"line":3,"ok":true}\n'
            with Server((200, {}, abc), (200, {}, b), bad, *answers) as s, Client(s.url) as c:
                with self.assertRaises(BadRequest):
                    c.thread("s").publish("a", "b", "c")
                try:
                    c.thread("s").publish(*rest)
                except BadRequest:
                    self.assertEqual(rest, "bc")
                self.assertEqual(s.identities()[3][1:], (2, b"b\nc\n") if rest == "bc" else (3, b"c"))

    def test_large(self):
        """Entries with newlines, and large ones, go alone."""
        with Server(*[ok({"ok": True, "seq": 1}, 202)] * 3) as s, Client(s.url) as c:
            c.thread("s").publish("[1,\n2]", "x" * (5 << 20), b"3", dialect="raw")
            self.assertEqual([(seq, len(body)) for _, seq, body in s.identities()], [(1, 6), (2, 5 << 20), (3, 1)])

    def test_applied(self):
        with Server(ok({"ok": True, "seq": 1}, 202), ok({"error": "late"}, 503, **{"Retry-After": "0"}), ok({"ok": True}),
                    ok({"error": "a dead letter"}, 409)) as s, Client(s.url) as c:
            ack = c.publisher("ci-3", epoch=2, seq=6).publish("s", "main", item("x"))
            ack.applied()
            with self.assertRaises(Conflict):
                ack.applied()
            self.assertEqual(s.requests[-1][1], "/v1/sessions/s/threads/main/applied?producer=ci-3&epoch=2&first=7&seq=7")


class Requests(unittest.TestCase):
    def test_errors(self):
        kinds = {400: BadRequest, 401: NotPermitted, 403: NotPermitted, 404: NotFound, 409: Conflict, 410: NotFound, 413: BadRequest,
                 429: Unavailable, 500: Unavailable, 503: Unavailable}
        for status, kind in kinds.items():
            with Server(ok({"error": "why", "quota": "q", "limit": 3}, status)) as s, Client(s.url, patience=0) as c:
                with self.assertRaises(kind) as caught:
                    c.thread("s").head()
                e = caught.exception
                self.assertIsInstance(e, SpoolError)
                self.assertEqual((e.status, e.quota, e.limit, "why" in str(e)), (status, "q", 3, True))

    def test_change_without_answer(self):
        """A change that may have been done is not sent twice; one that was not taken is."""
        with Server(CUT) as s, Client(s.url) as c:
            with self.assertRaises(Unavailable):
                c.thread("s").end()
            self.assertEqual(len(s.requests), 1)
        with Server(ok({"error": "busy"}, 429, **{"Retry-After": "0"}), ok({"thread": "main"})) as s, Client(s.url, token="t") as c:
            c.thread("s").end()
            self.assertEqual(s.requests[1][2]["Authorization"], "Bearer t")

    def test_cut_anywhere(self):
        """An answer that is cut at any byte is none: the request is sent again."""
        whole = b"HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 12\r\nContent-Type: text/plain\r\n\r\n"
        no_sleep = unittest.mock.patch("time.sleep", lambda _: None)
        answers = [answer for cut in range(len(whole)) for answer in (whole[:cut], whole + b"twelve bytes", whole[:cut], whole)]
        with Server(*answers) as at, no_sleep, Client(at.url) as spool:
            for cut in range(len(whole)):
                self.assertEqual(spool.blob("blob:sha256:00"), b"twelve bytes", whole[:cut])
                self.assertEqual(spool.artifacts().record("a"), {"size": 12, "mime_type": "text/plain", "etag": '"x"'}, whole[:cut])

    def test_pages(self):
        with Server(ok({"items": [{"n": 1}], "next": 2}), ok({"items": [{"n": 2}]})) as s, Client(s.url) as c:
            self.assertEqual([it["n"] for it in c.thread("s").items_from()], [1, 2])
            self.assertIn("from=2", s.requests[1][1])

    def test_no_time_to_wait(self):
        with Server(*[ok({"id": "q"})] * 9) as s, Client(s.url) as c, self.assertRaises(TimeoutError):
            c.thread("s").await_answer("q", timeout=0)

    def test_nobody(self):
        begun = time.monotonic()
        with self.assertRaisesRegex(Unavailable, "GET http://127.0.0.1:1/v1/.*SPOOL_HTTP"):
            Client("http://127.0.0.1:1", patience=0.3).thread("s").head()
        self.assertLess(time.monotonic() - begun, 2)
        with self.assertRaises(ValueError):
            Client("127.0.0.1:7717")

    def test_any_text(self):
        with Server(*[ok({"ok": True, "seq": 1}, 202)] * 2) as s, Client(s.url) as c:
            c.thread("s").publish(item("木\ud800"))
            self.assertEqual(json.loads(s.requests[0][3])["content"][0]["text"], "木\ud800")


class Following(unittest.TestCase):
    def test_resumes(self):
        """Cut anywhere, a reader comes back with the last id that it has; an event that is cut off is none."""
        one, two, three = (("item", f"{n};~A", {"n": n, "item": {}}) for n in (1, 2, 3))
        status, headers, text = stream(("open", "0;~A", {"n": 0}), one, two)
        with Server((status, headers, text[:-1]), ok({"error": "busy"}, 503), CUT, stream(two, ("failed", "", {"error": "away"})),
                    stream(three, ("reset", "3;~A", {"reason": "removed"}))) as s, Client(s.url) as c:
            self.assertEqual([it["n"] for it in c.thread("s").live(from_=1)], [1, 2, 3])
            self.assertEqual([r[2].get("Last-Event-ID") for r in s.requests], [None, "1;~A", "1;~A", "1;~A", "2;~A"])
            self.assertIn("from=1", s.requests[0][1])
            self.assertNotIn("from", s.requests[1][1])

    def test_refused(self):
        with Server(ok({"error": "not with this token"}, 403)) as s, Client(s.url) as c, self.assertRaises(NotPermitted):
            next(c.thread("s").live())

    def test_twice(self):
        """Of many sessions an item can come twice after a crash."""
        at = {"session": "s", "thread": "main", "n": 1, "hash": "h"}
        with Server(stream(("item", "1", at), ("item", "2", at), ("item", "3", {**at, "n": 2}))) as s, Client(s.url) as c:
            items = c.subscribe(since="all")
            self.assertEqual([next(items)["n"], next(items)["n"]], [1, 2])
            items.close()

    def test_close(self):
        """A stream is closed from another thread, also while it waits for a server that is away."""
        follower = Client("http://127.0.0.1:1").thread("s").follow()
        threading.Timer(0.2, follower.close).start()
        self.assertEqual(list(follower), [])


    def test_close_while_read(self):
        """A stream that is read by another thread ends when it is closed: by whatever header it is cut, and also while it begins."""
        for header in ("Connection: close", "Transfer-Encoding: chunked"):
            with socket.create_server(("127.0.0.1", 0)) as s:
                follower = Client(f"http://127.0.0.1:{s.getsockname()[1]}").thread("s").follow()
                reader = threading.Thread(target=list, args=(follower,), daemon=True)
                reader.start()
                with s.accept()[0] as conn:
                    conn.sendall(f"HTTP/1.1 200 OK\r\n{header}\r\n\r\n".encode())
                    while not follower._answer:
                        time.sleep(0.01)
                    follower.close()
                    reader.join(5)
                    self.assertFalse(reader.is_alive(), header)
        with Server(stream(("item", "1", {"n": 1}))) as s, Client(s.url) as c:
            follower, once = c.thread("s").follow(), c._wire.once

            def answered(*request):
                answer = once(*request)
                follower.close()
                return answer

            c._wire.once = answered
            self.assertEqual(list(follower), [])


class Outputs(unittest.TestCase):
    def test_nobody(self):
        with self.assertRaises(Unavailable):
            Client("http://127.0.0.1:1").thread("s").output("make")

    def test_closed_twice(self):
        """What is closed stays so: nothing of it goes to another connection."""
        with Server(ok({"n": 1})) as s, Client(s.url) as c:
            with c.thread("s").output("make") as out:
                out.write("42")
                out.close()
                with self.assertRaises(Unavailable):
                    out.write("43")
            self.assertEqual((out.result, len(s.requests)), ({"n": 1}, 1))


class Types(unittest.TestCase):
    def test_members(self):
        """What the types name is in the document of the API."""
        file = pathlib.Path(__file__).parents[3] / "internal/httpapi/schemas.json"
        if not file.exists():
            self.skipTest("outside of the repository")
        schemas = json.loads(file.read_text())
        names = {"Item": "item", "ThreadInfo": "thread", "SessionInfo": "session", "Resolution": "resolution", "Prompt": "prompt",
                 "RunInfo": "run", "Artifact": "artifact", "OutputResult": "output"}
        for name, schema in names.items():
            self.assertLessEqual(set(getattr(spool_client, name).__annotations__), set(schemas[schema]["properties"]), name)

    def test_hints(self):
        """All that is public has hints that can be resolved."""
        for name in spool_client.__all__:
            kind = getattr(spool_client, name)
            for method in vars(kind).values() if isinstance(kind, type) else [kind]:
                if callable(method) and hasattr(method, "__annotations__") and not isinstance(method, type):
                    hinted = method.__name__.startswith("_") or "return" in typing.get_type_hints(method)
                    self.assertTrue(hinted, f"{name}.{method.__name__}")


if __name__ == "__main__":
    unittest.main()
