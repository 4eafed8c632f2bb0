package persist_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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
				if err := pub.Publish(t.Context(), client.Entry{Thread: at, Dialect: "omp", Body: secretBody(fmt.Sprintf("e%07d", i), size), Seq: uint64(i + 1)}); err != nil {
					t.Fatal(err)
				}
			}
			for i, size := range []int{0, 9 << 20} {
				body := strings.Repeat("x ", size/2) + leaked + "\n"
				if err := pub.Publish(t.Context(), client.Entry{Thread: text, Dialect: "raw", Body: []byte(body), Seq: uint64(i + 11)}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := r.Output(t.Context(), at, client.OutputConfig{Tool: "sh", Keep: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(out, "key: %s\n", leaked); err != nil {
				t.Fatal(err)
			}
			if err := out.Close(client.OutputEnd{}); err != nil {
				t.Fatal(err)
			}
			// Behind the output's end, in the same session.
			if err := pub.Publish(t.Context(), client.Entry{Thread: at, Dialect: "omp", Body: secretBody("last", 0), Seq: 13}); err != nil {
				t.Fatal(err)
			}
			var stored bytes.Buffer
			for th, seq := range map[events.Thread]uint64{at: 13, text: 12} {
				if err := r.Await(t.Context(), th, "p", 0, seq); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Export(t.Context(), th, &stored); err != nil {
					t.Fatal(err)
				}
				items, err := r.Past(t.Context(), th, 1, 100)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					fmt.Fprintf(&stored, "%+v", item)
				}
			}
			list, err := r.Artifacts(t.Context(), at.Session)
			if err != nil || len(list) == 0 {
				t.Fatalf("artifacts = %v, %v, want the output", list, err)
			}
			for _, a := range list {
				rc, _, err := r.OpenArtifact(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := stored.ReadFrom(rc); err != nil {
					t.Fatal(err)
				}
				_ = rc.Close()
			}
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
