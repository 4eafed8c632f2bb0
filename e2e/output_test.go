package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// outputWorld is a NATS server and a lean persister, each a process of its own.
type outputWorld struct {
	*world
	natsd, persister *proc.Process
	conn             *natsio.Conn
	*client.Client
}

func newOutputWorld(t *testing.T) *outputWorld {
	w := &outputWorld{world: newWorld(t)}
	w.natsd = w.start(w.command("natsd", "-listen", w.nats, "-data", filepath.Join(w.home, "data")))
	w.natsd.Await("ready")
	w.begin()
	w.conn = w.dial()
	w.Client = client.New(w.conn)
	return w
}

func (w *outputWorld) begin() {
	cmd := w.command("persister")
	cmd.Env = append(cmd.Env, "GOMEMLIMIT=128MiB")
	w.persister = w.start(cmd)
	w.persister.Await("persister runs")
}

// replace kills the persister and starts another one, to which the server gives the partitions at once, not after the time
// in which the first could come back.
func (w *outputWorld) replace(ctx context.Context) {
	w.t.Helper()
	w.persister.Kill()
	s := must.Get(w.conn.JetStream().Stream(ctx, events.EventsStream))(w.t)
	for p := range events.Partitions {
		_ = s.UnpinConsumer(ctx, events.PartitionConsumer(p), events.PersisterGroup) // fails where nobody is pinned
	}
	w.begin()
}

// build prints what a build prints: numbered lines of many lengths, no two alike, that need sanitizing. It writes the raw
// bytes, in pieces that cut escape sequences and characters anywhere, and hashes what they are when they are sanitized.
type build struct {
	random     *rand.Rand
	raw, clean bytes.Buffer
	sum        hash.Hash
	size       int64 // of the clean text
	lines      int64
}

func newBuild(seed uint64) *build {
	return &build{random: rand.New(rand.NewPCG(seed, 0)), sum: sha256.New()}
}

var words9 = []string{"compile", "連結", "ok", "warning", "🍊🍊", "main.go:17", "é", "…", "cached"}

// piece is the next bytes, at most 64 KiB.
func (b *build) piece() []byte {
	for b.raw.Len() < 128<<10 {
		b.line()
	}
	return b.raw.Next(1 + b.random.IntN(64<<10))
}

func (b *build) line() {
	b.clean.Reset()
	fmt.Fprintf(&b.clean, "%d ", b.lines)
	b.raw.WriteString("\x1b[1;32m")
	b.raw.Write(b.clean.Bytes())
	b.raw.WriteString("\x1b[0m\x1b]0;title\x07")
	for range b.random.IntN(120) {
		word := words9[b.random.IntN(len(words9))]
		b.raw.WriteString(word + "\x07 ")
		b.clean.WriteString(word + " ")
	}
	b.raw.WriteString("\r\n")
	b.clean.WriteString("\n")
	b.sum.Write(b.clean.Bytes())
	b.size += int64(b.clean.Len())
	b.lines++
}

// rest is what piece has left over.
func (b *build) rest() []byte { return b.raw.Next(b.raw.Len()) }

// applied waits until that many bytes of the open output o of a session are in its record.
func (w *outputWorld) applied(ctx context.Context, session string, bytes int64) {
	w.t.Helper()
	for {
		rs, err := w.conn.Records().Records(ctx, events.OutputKey(session, "o"))
		must.Do(w.t, err)
		var open record.Output
		if rs[0].Exists() {
			if open, err = record.DecodeOutput(rs[0].Value); err != nil {
				w.t.Fatal(err)
			}
		}
		if open.Total >= bytes {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%d bytes of an output of %s are applied, want %d", open.Total, session, bytes)
		case <-time.After(3 * time.Millisecond):
		}
	}
}

func (w *outputWorld) wantArtifact(ctx context.Context, session string, b *build) {
	w.t.Helper()
	rs, err := w.Session(session).Artifacts(ctx)
	if err != nil || len(rs) != 1 {
		w.t.Fatalf("Artifacts = %v, %v, want one", rs, err)
	}
	body, n := must.Two(w.Artifacts().Open(ctx, rs[0]))(w.t)
	defer body.Close()
	sum := sha256.New()
	if got, err := io.Copy(sum, body); err != nil || got != n || n != b.size || !bytes.Equal(sum.Sum(nil), b.sum.Sum(nil)) {
		w.t.Errorf("artifact of %d bytes, read %d, %v, SHA-256 %x, want %d bytes and %x", n, got, err, sum.Sum(nil), b.size, b.sum.Sum(nil))
	}
}

// TestOutputKilled: the persister is killed again and again while an output streams through it, and its artifact is what was
// printed, to the byte (SPEC O7). With SPOOL_TEST_GIANT=1 a gigabyte under 200 kills, else 64 MB under 15.
func TestOutputKilled(t *testing.T) {
	size, kills := int64(64_000_000), 15
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		size, kills = 1_000_000_000, 200
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newOutputWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	o := must.Get(w.Thread(events.Thread{Session: "s", Name: "main"}).Output(ctx, client.OutputConfig{ID: "o", Head: 4000}))(t)
	begun, b := time.Now(), newBuild(seed)
	moment := rand.New(rand.NewPCG(seed, 1))
	sent := make(chan error, 1)
	go func() {
		for b.size < size {
			if _, err := o.Write(b.piece()); err != nil {
				sent <- err
				return
			}
		}
		_, err := o.Write(b.rest())
		sent <- err
	}()
	var peak int64
	for kill := range kills {
		w.applied(ctx, "s", size*int64(kill+1)/int64(kills+1))
		time.Sleep(time.Duration(moment.IntN(30_000)) * time.Microsecond) // the moment of the kill is the test's input
		peak = max(peak, w.persister.Peak())
		w.replace(ctx)
	}
	must.Do(t, <-sent)
	must.Do(t, o.Close(client.OutputEnd{}))
	must.Do(t, o.Wait(ctx))
	t.Logf("%d bytes with %d kills in %v; peak of a persister %d MiB", b.size, kills,
		time.Since(begun).Round(time.Millisecond), max(peak, w.persister.Peak())>>20)
	w.wantArtifact(ctx, "s", b)
	checkPeak(t, w.persister, leanPersister)
	w.checkNoDead(w.conn)
}

// leanPersister is the memory that a persister with GOMEMLIMIT=128MiB may have, whatever streams through it.
const leanPersister = 224 << 20

func checkPeak(t *testing.T, p *proc.Process, limit int64) {
	t.Helper()
	peak := p.Peak()
	t.Logf("peak of the persister: %d MiB", peak>>20)
	if peak > limit {
		t.Errorf("the persister had %d bytes in memory, want at most %d", peak, limit)
	}
}

// TestOutputOfAnySize: what a command prints goes through spool exec and a persister in bounded memory, in lines or in one that
// never ends, and its artifact has all of it (SPEC O7). With SPOOL_TEST_GIANT=1 that are 10 GB and a line of 300 MB, else 31
// and 30 MB.
func TestOutputOfAnySize(t *testing.T) {
	last, line := 4_000_000, 30_000_000
	if os.Getenv("SPOOL_TEST_GIANT") != "" {
		last, line = 1_010_000_000, 300_000_000
	}
	w := newOutputWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	for _, c := range []struct {
		session, command string
		print            func(io.Writer)
	}{
		{"line", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", line), func(to io.Writer) {
			_, _ = io.Copy(to, io.LimitReader(&cycle{block: bytes.Repeat([]byte("x"), 64<<10)}, int64(line)))
		}},
		{"lines", fmt.Sprintf("seq 1 %d", last), func(to io.Writer) {
			var b []byte
			for i := range last {
				if b = append(strconv.AppendInt(b, int64(i+1), 10), '\n'); len(b) > 64<<10 || i == last-1 {
					_, _ = to.Write(b)
					b = b[:0]
				}
			}
		}},
	} {
		begun := time.Now()
		cmd := w.command("spool", "exec", "--session", c.session, "--head", "1000", "--", "sh", "-c", c.command)
		cmd.Env = append(cmd.Env, "GOMEMLIMIT=64MiB")
		runWithin(t, cmd, 128<<20)
		awaitEntries(ctx, t, w.Client, events.Thread{Session: c.session, Name: "main"}, 2)
		b := &build{sum: sha256.New()}
		c.print(io.MultiWriter(b.sum, (*length)(&b.size)))
		t.Logf("%s: %d bytes in %v", c.session, b.size, time.Since(begun).Round(time.Millisecond))
		w.wantArtifact(ctx, c.session, b)
	}
	checkPeak(t, w.persister, leanPersister)
	w.checkNoDead(w.conn)
}

// length counts what is written.
type length int64

func (n *length) Write(b []byte) (int, error) {
	*n += length(len(b))
	return len(b), nil
}
