package persist_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/redact"
	"spool/pkg/client"
	"spool/pkg/events"
)

// leaked is nobody's.
const leaked = "AKIA" + "Q3EGRZ7MXL2TVB5D"

// secretBody is an entry with a secret in it, of at least so many bytes.
func secretBody(id string, size int) []byte {
	b, err := json.Marshal(map[string]any{"type": "message", "id": id, "message": map[string]any{
		"role": "user", "content": strings.Repeat("word\n", size/10) + leaked + strings.Repeat("\nword", size/10)}})
	if err != nil {
		panic(err)
	}
	return b
}

// TestSecretsAreNeverStored: not in a thread, its raw bytes, an item, a blob or an artifact, whatever the size and the dialect of
// the entry; and that they were found is counted.
func TestSecretsAreNeverStored(t *testing.T) {
	for _, mask := range []bool{true, false} {
		t.Run(fmt.Sprintf("mask=%v", mask), func(t *testing.T) {
			r := newRig(t)
			run := r.start(func(d *persist.Deps, c *persist.Config) {
				d.Secrets = redact.New(redact.Default(), mask)
				c.StreamBytes = 2 << 20
			})
			at, text := thread(0), thread(1)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			for i, size := range []int{0, 1 << 20, 3 << 20} { // small, cut, a giant
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: at, Dialect: "omp",
					Body: secretBody(fmt.Sprintf("e%07d", i), size), Seq: uint64(i + 1)}))(t)
			}
			for i, size := range []int{0, 9 << 20} {
				body := strings.Repeat("x ", size/2) + leaked + "\n"
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: text, Dialect: "raw", Body: []byte(body), Seq: uint64(i + 11)}))(t)
			}
			out := must.Get(r.Thread(at).Output(t.Context(), client.OutputConfig{Tool: "sh", Keep: true}))(t)
			must.Get(fmt.Fprintf(out, "key: %s\n", leaked))(t)
			must.Do(t, out.Close(client.OutputEnd{}))
			// Behind the output's end, in the same session.
			must.Get(pub.Publish(t.Context(), client.Entry{Thread: at, Dialect: "omp", Body: secretBody("last", 0), Seq: 13}))(t)
			var stored bytes.Buffer
			for th, seq := range map[events.Thread]uint64{at: 13, text: 12} {
				must.Do(t, r.Thread(th).Await(t.Context(), "p", 0, seq))
				must.Get(r.Thread(th).Export(t.Context(), &stored))(t)
				items := must.Get(r.Past(t.Context(), th, 1, 100))(t)
				for _, item := range items {
					fmt.Fprintf(&stored, "%+v", item)
				}
			}
			r.readArtifacts(&stored, at.Session)
			if got := bytes.Contains(stored.Bytes(), []byte(leaked)); got == mask {
				t.Errorf("the secret is stored: %v, want %v", got, !mask)
			}
			if n := bytes.Count(stored.Bytes(), []byte("[redacted:aws-access-key]")); mask && n < 5 {
				t.Errorf("%d masks in what is stored, want one an entry at least", n)
			}
			if n := run.Stats().Secrets; n < 7 {
				t.Errorf("%d secrets counted, want the 7 that were published", n)
			}
		})
	}
}

// hidden are texts with a secret, nobody's, in the ways in which one does not lie open; and what of it must be nowhere.
func hidden() map[string]struct{ body, core string } {
	type way = struct{ body, core string }
	drawn := "k3J9x2M4" + "Zr4Tn6Vy" + "1Kp8Md3H"
	b64 := base64.StdEncoding.EncodeToString([]byte(drawn))
	entry := func(text string) string {
		b, err := json.Marshal(map[string]any{"type": "message", "id": "h", "message": map[string]any{"role": "user", "content": text}})
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	inner, err := json.Marshal(map[string]string{"db_password": drawn})
	if err != nil {
		panic(err)
	}
	return map[string]way{
		"an escape":            {`{"type":"message","id":"h","message":{"role":"user","content":"\u0041` + leaked[1:] + `"}}`, leaked[1:]},
		"a Secret in base64":   {entry("kind: Secret\ndata:\n  x: " + b64 + "\n"), b64},
		"JSON in JSON":         {entry(string(inner)), drawn},
		"JSON in JSON in JSON": {entry(entry(string(inner))), drawn},
		"a line of .env":       {entry("A=1\nDB_PASSWORD=" + drawn + "\nB=2"), drawn},
	}
}

// TestHiddenSecretsAreNowhere: of a secret that is escaped, encoded, cut over pieces of an output, or in what becomes a
// dead letter, nothing is in threads, items, artifacts, dead letters or the log.
func TestHiddenSecretsAreNowhere(t *testing.T) {
	r := newRig(t)
	var log natstest.Log
	r.start(func(d *persist.Deps, c *persist.Config) {
		d.Secrets = redact.New(redact.Default(), true)
		d.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	at := thread(0)
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	var cores []string
	seq := uint64(0)
	publish := func(dialect, body string) {
		seq++
		must.Get(pub.Publish(t.Context(), client.Entry{Thread: at, Dialect: dialect, Body: []byte(body), Seq: seq}))(t)
	}
	for _, way := range hidden() {
		publish("omp", way.body)
		publish("raw", way.body)
		publish("no-such-dialect", way.body) // a dead letter
		publish("omp", way.body+"}")         // no JSON: another one, whose reason may quote it
		cores = append(cores, way.core)
	}
	cores = append(cores, leaked, leaked[4:12], leaked[12:])
	const piece = 9 // bytes: what is not durable yet fills the window, so that each write is an event
	out := must.Get(r.Thread(at).Output(t.Context(), client.OutputConfig{Tool: "sh", Keep: true, Window: piece}))(t)
	text := "key: " + leaked + "\nfine\nagain " + leaked
	for i := 0; i < len(text); i += piece {
		for _, w := range []io.Writer{out, out.Stderr()} {
			must.Get(io.WriteString(w, text[i:min(len(text), i+piece)]))(t)
		}
	}
	must.Do(t, out.Close(client.OutputEnd{}))
	publish("omp", string(secretBody("last", 0)))
	must.Do(t, r.Thread(at).Await(t.Context(), "p", 0, seq))
	must.Do(t, r.Thread(at).Settled(t.Context())) // a dead letter is told behind the commit
	stored := everything(t, r, at)
	stored += log.String()
	for _, core := range cores {
		if i := strings.Index(stored, core); i >= 0 {
			t.Errorf("%q is stored: …%.300q", core, stored[max(0, i-150):])
		}
	}
	if n := strings.Count(stored, strings.Repeat("*", len(leaked))); n < 4 {
		t.Errorf("%d blanks in what is stored, want those of both streams of the output", n)
	}
}

// everything is what can be read of a thread, of its session's artifacts, and of all dead letters.
func everything(t *testing.T, r *rig, at events.Thread) string {
	t.Helper()
	var stored bytes.Buffer
	must.Get(r.Thread(at).Export(t.Context(), &stored))(t)
	items := must.Get(r.Past(t.Context(), at, 1, 1000))(t)
	for _, item := range items {
		fmt.Fprintf(&stored, "%+v", item)
		must.Do(t, json.NewEncoder(&stored).Encode(item))
	}
	r.readArtifacts(&stored, at.Session)
	letters, err := r.Session(at.Session).DeadLetters(t.Context())
	if err != nil || len(letters) < 5 {
		t.Fatalf("%d dead letters, %v, want one of each way at least", len(letters), err)
	}
	for _, letter := range letters {
		body := must.Get(r.Admin().OpenDeadLetter(t.Context(), letter))(t)
		must.Get(stored.ReadFrom(body))(t)
		fmt.Fprintf(&stored, "%+v", letter)
	}
	return stored.String()
}

// readArtifacts adds the bytes of a session's artifacts, of which there is one at least.
func (r *rig) readArtifacts(to *bytes.Buffer, session string) {
	r.t.Helper()
	list, err := r.Session(session).Artifacts(r.t.Context())
	if err != nil || len(list) == 0 {
		r.t.Fatalf("artifacts = %v, %v, want the output", list, err)
	}
	for _, a := range list {
		rc, _, err := r.Artifacts().Open(r.t.Context(), a)
		must.Do(r.t, err)
		must.Get(to.ReadFrom(rc))(r.t)
		_ = rc.Close()
	}
}
