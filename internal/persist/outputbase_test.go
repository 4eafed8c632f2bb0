package persist_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
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
	m := &meter{bucket: r.conn.Records()}
	r.start(func(d *persist.Deps, _ *persist.Config) { d.Records = m })
	o := r.begin(thread(0), client.OutputConfig{ID: "o", Head: 20_000})
	long, want := lines(8_000)
	_, _ = o.Write(long)
	r.printed("s0", int64(len(want)))
	before := m.bytes.Load()
	for i := range pieces {
		line := fmt.Sprintf("%*d\n", size-1, i)
		want = append(want, line...)
		_, _ = o.Write([]byte(line))
		r.printed("s0", int64(len(want)))
	}
	each := (m.bytes.Load() - before) / (pieces * size)
	t.Logf("%d bytes of records a byte printed, in %d commits", each, m.commits.Load())
	if each > most {
		t.Errorf("%d bytes of records a byte printed, want at most %d", each, most)
	}
	r.finish(o, client.OutputEnd{})
	r.artifact(r.result(thread(0), 1).Metadata.Artifact.ID, want)
	for _, keys := range []string{"output.>", "outputbase.>"} {
		if left, err := r.conn.Records().List(t.Context(), keys); err != nil || len(left) != 0 {
			t.Errorf("List(%s) after the end = %v, %v, want none", keys, left, err)
		}
	}
}

// printed waits until that many bytes of the output o of a session are in its record.
func (r *rig) printed(session string, bytes int64) {
	r.t.Helper()
	ctx := brief(r.t)
	for {
		rs := must.Get(r.conn.Records().Records(ctx, events.OutputKey(session, "o")))(r.t)
		if rec, err := record.DecodeOutput(rs[0].Value); rs[0].Exists() && err == nil && rec.Total >= bytes {
			return
		}
	}
}

// TestOutputAnyChunking: the same bytes make the same result and the same artifact, whatever pieces they come in: escape
// sequences and characters may be cut anywhere (SPEC O1), and whoever takes over reads what is open from the records.
func TestOutputAnyChunking(t *testing.T) {
	raw, clean := hostileLines(1_800)
	r := newRig(t)
	var want string
	for n, size := range []func(i int) int{
		func(int) int { return 40_000 },
		func(i int) int { return 1 + i%7 },
		func(i int) int { return 1 + (i*i*31)%4_099 },
		func(int) int { return 3 },
	} {
		p := r.start(func(_ *persist.Deps, c *persist.Config) { c.OutputBytes = 1 + n%2*1_000_000 })
		pieces := cutAs(raw, size)
		r.chunks(thread(n), pieces[:len(pieces)/2], nil)
		r.printed("s"+fmt.Sprint(n), 1)
		must.Do(t, p.stop())
		p = r.start(nil)
		r.chunks(thread(n), pieces[len(pieces)/2:], pieces)
		m := r.result(thread(n), 1).Metadata
		if m.Artifact == nil || m.Output.TotalBytes != int64(len(clean)) {
			t.Fatalf("chunking %d: result = %+v, want an artifact of %d bytes", n, m.Output, len(clean))
		}
		r.artifact(m.Artifact.ID, clean)
		want = cmp.Or(want, m.Tool.Output)
		if m.Tool.Output != want {
			t.Errorf("chunking %d shows %d bytes, not the %d that the first shows", n, len(m.Tool.Output), len(want))
		}
		must.Do(t, p.stop())
	}
	if !strings.HasPrefix(want, string(clean[:4_000])) || !strings.HasSuffix(want, string(clean[len(clean)-20_000:])) {
		t.Error("what is shown is not the head and the tail")
	}
}

// cutAs cuts bytes into pieces of those sizes.
func cutAs(b []byte, size func(i int) int) (pieces [][]byte) {
	for i := 0; len(b) > 0; i++ {
		k := min(size(i), len(b))
		pieces, b = append(pieces, b[:k]), b[k:]
	}
	return pieces
}

// chunks publishes pieces of the output o, each an event of its own: the first of them behind its start or, as the last of all,
// before its end.
func (r *rig) chunks(t events.Thread, pieces, all [][]byte) {
	r.t.Helper()
	seq := uint64(len(all) - len(pieces))
	var evs []*events.Event
	add := func(c events.Chunk, at uint64) {
		c.Output = "o"
		evs = append(evs, &events.Event{Producer: "p", Seq: at, Kind: events.KindChunk, Thread: t, Time: 1_000, Body: c.Encode()})
	}
	if all == nil {
		seq = 0
		add(events.Chunk{Op: events.ChunkStart, Start: events.OutputStart{Tool: "t", Invocation: "tu", Head: 5_000}}, 1)
	}
	for _, b := range pieces {
		seq++
		add(events.Chunk{Op: events.ChunkData, Seq: seq, Stream: events.Stdout, Data: b}, seq+1)
	}
	if all != nil {
		add(events.Chunk{Op: events.ChunkEnd, Seq: seq + 1}, seq+2)
	}
	for len(evs) > 0 {
		n := min(len(evs), 500)
		must.Do(r.t, r.conn.Events().PublishEvents(r.t.Context(), evs[:n]))
		evs = evs[n:]
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
