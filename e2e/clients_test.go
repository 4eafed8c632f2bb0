package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// language is one that a package of clients/ is for. Its program publishes 600 entries, alone and by tens, and follows them from another
// client: each once, and in their order, or it fails.
type language struct {
	command, fence, program string
	args                    []string
}

var languages = map[string]language{
	"python": {command: "python3", fence: "python", program: `
import threading
from spool_client import Client, item

seen = []
def follow():
    for it in Client().thread("killed").live(from_=1):
        seen.append(it["item"]["content"][0]["text"])
        if len(seen) == 600:
            return
reader = threading.Thread(target=follow)
thread, n = Client(patience=120).thread("killed"), 0
while n < 600:
    size = 1 if n % 20 < 10 else 10
    ack = thread.publish(*[item(f"entry {n + i}") for i in range(size)])
    n += size
    print(f"at {n}.", flush=True)
    if n == 1:
        reader.start()
ack.applied()
reader.join()
assert seen == [f"entry {i}" for i in range(600)], seen
`, args: []string{"-c"}},
	"javascript": {command: "node", fence: "js", program: `
import assert from "node:assert/strict";
const { Client, item } = await import(process.env.SPOOL_CLIENT);

const seen = [];
async function follow() {
  for await (const it of new Client().thread("killed").live({ from: 1 })) if (seen.push(it.item.content[0].text) === 600) return;
}
const thread = new Client({ patience: 120 }).thread("killed");
let ack, reading;
for (let n = 0; n < 600;) {
  const size = n % 20 < 10 ? 1 : 10;
  ack = await thread.publish(Array.from({ length: size }, (_, i) => item("entry " + (n + i))));
  n += size;
  console.log("at " + n + ".");
  reading ??= follow();
}
await ack.applied();
await reading;
assert.deepEqual(seen, Array.from({ length: 600 }, (_, i) => "entry " + i));
`, args: []string{"--input-type=module", "-e"}},
}

// in gives a command that runs a program of the language at the server of a world.
func (l language) in(w *world, program string) *exec.Cmd {
	w.t.Helper()
	if _, err := exec.LookPath(l.command); err != nil {
		w.t.Skip("NOT RUN: no", l.command)
	}
	root := must.Get(filepath.Abs("../clients"))(w.t)
	cmd := exec.Command(l.command, append(l.args, program)...)
	cmd.Env = append(os.Environ(), "SPOOL_HTTP=http://"+w.http, "SPOOL_TOKEN=", "PYTHONPATH="+root+"/python", "PYTHONDONTWRITEBYTECODE=1",
		"SPOOL_CLIENT="+root+"/javascript/index.js")
	return cmd
}

// TestClientsOutliveKills kills spool up in the middle of what the packages of clients/ publish and follow: no entry is lost, and none is
// there twice.
func TestClientsOutliveKills(t *testing.T) {
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.up().Kill()
			client := w.start(l.in(w, l.program)) // no server is there yet
			up := w.up()
			for _, at := range []int{100, 250, 400, 550} {
				client.Await(fmt.Sprintf("at %d.", at))
				time.Sleep(time.Duration(rand.Int64N(int64(20 * time.Millisecond)))) // the moment of the kill is the test's input
				up.Kill()
				up = w.up()
			}
			w.checkPublished(client)
		})
	}
}

// TestClientsOutliveCuts cuts every connection of the packages of clients/ after some bytes of either direction: requests arrive in part, and
// answers are lost.
func TestClientsOutliveCuts(t *testing.T) {
	for name, l := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.up()
			cmd := l.in(w, l.program)
			cmd.Env = append(cmd.Env, "SPOOL_HTTP=http://"+cuts(t, w.http))
			w.checkPublished(w.start(cmd))
		})
	}
}

// cuts is the address of a proxy before another one, which ends each connection after 200 to 5,000 bytes.
func cuts(t *testing.T, to string) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = here.Close()
				continue
			}
			var left atomic.Int64
			left.Store(200 + rand.Int64N(4800))
			pass := func(from, to net.Conn) {
				defer from.Close()
				defer to.Close()
				for buf := make([]byte, 4096); ; {
					n, err := from.Read(buf)
					may := left.Add(int64(-n))
					if _, failed := to.Write(buf[:max(0, min(int64(n), int64(n)+may))]); err != nil || failed != nil || may < 0 {
						return
					}
				}
			}
			go pass(here, there)
			go pass(there, here)
		}
	}()
	return l.Addr().String()
}

// checkPublished waits for a language's program, and holds the thread to what it published.
func (w *world) checkPublished(client *proc.Process) {
	w.t.Helper()
	t := w.t
	if code := client.Wait(); code != 0 {
		t.Fatalf("the client ends with %d:\n%s", code, client.Log())
	}
	res := must.Get(http.Get("http://" + w.http + "/v1/sessions/killed/threads/main/items?from=1&limit=1000"))(t)
	defer res.Body.Close()
	var page struct {
		Items []struct {
			Item struct{ Content []struct{ Text string } }
		}
	}
	must.Do(t, json.NewDecoder(res.Body).Decode(&page))
	must.Same(t, len(page.Items), 600, "%d items, want %d")
	for i, it := range page.Items {
		must.Same(t, it.Item.Content[0].Text, fmt.Sprint("entry ", i), "item says %q, want %q")
	}
	w.checkNoDead(w.dial())
}

// TestClientSnippets runs the programs that the packages of clients/, README.md and docs/guide.md show, each in a system of its own.
func TestClientSnippets(t *testing.T) {
	for name, l := range languages {
		for _, file := range []string{"clients/" + name + "/README.md", "README.md", "docs/guide.md"} {
			t.Run(name+" of "+file, func(t *testing.T) {
				t.Parallel()
				_, text, ok := strings.Cut(string(must.Get(os.ReadFile("../"+file))(t)), "\n```"+l.fence+"\n")
				if !ok {
					t.Fatalf("%s shows no program in %s", file, l.fence)
				}
				text, _, _ = strings.Cut(text, "\n```\n")
				w := newWorld(t)
				w.up()
				cmd := l.in(w, strings.ReplaceAll(text, `"spool-client"`, `"`+must.Get(filepath.Abs("../clients/javascript/index.js"))(t)+`"`))
				out, errs, code := proc.Run(t, cmd, must.Patience)
				words := []string{"1 run the tests", "2 tests pass"}
				if strings.Contains(text, "Conflict") {
					words = append(words, "the thread has ended")
				}
				for _, want := range words {
					if code != 0 || !strings.Contains(string(out), want) {
						t.Errorf("exit code %d, and it prints %q, without %q\n%s", code, out, want, errs)
					}
				}
			})
		}
	}
}
