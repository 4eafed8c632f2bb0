package persist_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
)

// meter counts the bytes of outputs' records.
type meter struct {
	bucket
	bytes, commits atomic.Int64
}

func (m *meter) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	m.commits.Add(1)
	for _, p := range puts {
		if strings.HasPrefix(p.Key, "output") {
			m.bytes.Add(int64(len(p.Value)))
		}
	}
	return m.bucket.Commit(ctx, f, puts)
}

// TestOutputWritesWhatIsNew: a tool that prints a little at a time, each bit in a commit of its own, costs a share of what is
// shown of it with every bit, not all of it (ADR 8).
func TestOutputWritesWhatIsNew(t *testing.T) {
	const (
		pieces = 120
		size   = 100
		most   = 150 // bytes written a byte printed; with all of its state in every commit they were 1,745
	)
	r := newRig(t)
	m := &meter{bucket: r.conn}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = m })
	o := r.begin(thread(0), client.OutputConfig{ID: "o", Head: 20_000})
	long, want := lines(8_000)
	_, _ = o.Write(long)
	r.printed(o, int64(len(want)))
	before := m.bytes.Load()
	for i := range pieces {
		line := fmt.Sprintf("%*d\n", size-1, i)
		want = append(want, line...)
		_, _ = o.Write([]byte(line))
		r.printed(o, int64(len(want)))
	}
	each := (m.bytes.Load() - before) / (pieces * size)
	t.Logf("%d bytes of records a byte printed, in %d commits", each, m.commits.Load())
	if each > most {
		t.Errorf("%d bytes of records a byte printed, want at most %d", each, most)
	}
	r.finish(o, client.OutputEnd{})
	r.artifact(r.result(thread(0), 1).Metadata.Artifact.ID, want)
	for _, keys := range []string{"output.>", "outputbase.>"} {
		if left, err := r.conn.List(t.Context(), keys); err != nil || len(left) != 0 {
			t.Errorf("List(%s) after the end = %v, %v, want none", keys, left, err)
		}
	}
}

// printed waits until that many bytes of an output are in its record.
func (r *rig) printed(o *client.Output, bytes int64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for {
		rs, err := r.conn.Records(ctx, "output.s0."+o.ID())
		if err != nil {
			r.t.Fatal(err)
		}
		if rec, err := record.DecodeOutput(rs[0].Value); rs[0].Exists() && err == nil && rec.Total >= bytes {
			return
		}
	}
}

// TestOutputAnyChunking: the same bytes make the same result and the same artifact, whatever pieces they come in and whoever
// applies them: escape sequences and characters may be cut anywhere (SPEC O1), and each piece may be applied by another
// persister, from the records alone.
func TestOutputAnyChunking(t *testing.T) {
	raw, clean := hostileLines(1_600)
	r := newRig(t)
	var want string
	for n, cut := range []func(i int) int{
		func(int) int { return len(raw) },
		func(i int) int { return 1 + i%7 },
		func(i int) int { return 1 + (i*i*31)%4_099 },
		func(i int) int { return 12_345 },
	} {
		o := r.begin(thread(n), client.OutputConfig{ID: "o", Tool: "t", Invocation: "tu", Head: 5_000})
		p := r.start(func(d *persist.Deps, c *persist.Config) { c.OutputBytes = 1 + n%2*1_000_000 })
		at, half := 0, false
		for i := 0; at < len(raw); i++ {
			k := min(cut(i), len(raw)-at)
			_, _ = o.Write(raw[at : at+k])
			if at += k; n > 0 && !half && at > len(raw)/2 {
				half = true
				if err := p.stop(); err != nil {
					t.Fatal(err)
				}
				p = r.start(nil)
			}
		}
		r.finish(o, client.OutputEnd{})
		m := r.result(thread(n), 1).Metadata
		if m.Artifact == nil || m.Output.TotalBytes != int64(len(clean)) {
			t.Fatalf("chunking %d: result = %+v, want an artifact of %d bytes", n, m.Output, len(clean))
		}
		r.artifact(m.Artifact.ID, clean)
		if want == "" {
			want = m.Tool.Output
		}
		if m.Tool.Output != want {
			t.Errorf("chunking %d shows %d bytes, not the %d that one piece shows", n, len(m.Tool.Output), len(want))
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(want, string(clean[:4_000])) || !strings.HasSuffix(want, string(clean[len(clean)-20_000:])) {
		t.Error("what is shown is not the head and the tail")
	}
}

// hostileLines needs every kind of sanitizing, with sequences that are long, open or torn by a newline.
func hostileLines(n int) (raw, clean []byte) {
	var r, c bytes.Buffer
	for i := range n {
		fmt.Fprintf(&r, "\x1b[38;2;1;2;3m%d\x1b[0m\x1b]8;;https://example.org/%d\x1b\\漢字\x1b]8;;\x07 🍊\u200d🍊\x00\x08\x7f\u0085\xff é\t|\r\n", i, i)
		fmt.Fprintf(&c, "%d漢字 🍊\u200d🍊\ufffd é\t|\n", i)
		if i%3 == 0 {
			r.WriteString("50%\r100%\r\r\n")
			c.WriteString("50%\n100%\n\n")
		}
	}
	return r.Bytes(), c.Bytes()
}
