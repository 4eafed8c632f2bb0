package persist_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// giantEntry is an omp entry that every size rule applies to: a long text, images that are large, small, and there twice.
func giantEntry(id string, seed byte) string {
	random := rand.NewChaCha8([32]byte{seed})
	image := func(size int) string {
		b := make([]byte, size)
		_, _ = random.Read(b)
		return base64.StdEncoding.EncodeToString(b)
	}
	block := func(data string) string { return `{"type":"image","mimeType":"image/png","data":"` + data + `"}` }
	large, small := image(700_001), image(3_000)
	return `{"type":"message","id":"` + id + `","partialJson":"{","message":{"role":"user","content":[` + strings.Join([]string{
		block(large), `{"type":"text","text":"` + strings.Repeat("much ", 300_000) + `"}`, block(small), block(large), block(image(400_000)),
	}, ",") + `],"image_url":"data:image/png;base64,` + small + `"}}`
}

// streaming makes a persister take everything of more than 64 KiB as a stream.
func streaming(_ *persist.Deps, c *persist.Config) { c.Lane, c.StreamBytes = lane, 64<<10 }

// blobChunks counts the chunks in the blobs' bucket by object; an upload that was dropped has none.
func (r *rig) blobChunks() map[string]uint64 {
	r.t.Helper()
	s := must.Get(r.conn.JetStream().Stream(r.t.Context(), events.ObjectStream(events.BlobsBucket)))(r.t)
	info := must.Get(s.Info(r.t.Context(), jetstream.WithSubjectFilter("$O."+events.BlobsBucket+".C.>")))(r.t)
	return info.State.Subjects
}

// checkGiant: the thread holds these lines, all of its blobs are there, and nothing else is in the bucket beside up to
// orphans uploads.
func (r *rig) checkGiant(t events.Thread, orphans int, lines ...string) {
	r.t.Helper()
	if got, want := r.export(t), strings.Join(lines, "\n")+"\n"; got != want {
		r.t.Errorf("export of %s = %d bytes, want the %d that were published", t, len(got), len(want))
	}
	r.verify(t)
	records := must.Get(r.conn.Records().List(r.t.Context(), events.BlobKey("*")))(r.t)
	must.Eventually(r.t, "uploads that nobody names are dropped behind the commit", func() error {
		if got := len(r.blobChunks()); got < len(records) || got > len(records)+orphans {
			return fmt.Errorf("%d objects are in the bucket for %d blobs, want at most %d more", got, len(records), orphans)
		}
		return nil
	})
}

// TestGiantAsAStreamAndInMemory make the same nodes (DESIGN 13.5), and the second finds its blobs there.
func TestGiantAsAStreamAndInMemory(t *testing.T) {
	r := newRig(t)
	lines := []string{node("a", ""), giantEntry("b", 1), giantEntry("c", 1), node("d", "b"),
		strings.Replace(giantEntry("e", 2), "much ", "mor ", 299_999)}
	p := r.start(streaming)
	one := r.say(thread(0), "omp", lines...)
	must.Do(t, p.stop())
	r.checkGiant(thread(0), 0, lines...)
	if one.Truncated != 3 || one.Externalized != 15 {
		t.Errorf("head: %d truncated, %d externalized, want 3, 15", one.Truncated, one.Externalized)
	}
	p = r.start(func(_ *persist.Deps, c *persist.Config) { c.StreamBytes = 1 << 40 })
	two := r.say(thread(1), "omp", lines...)
	must.Do(t, p.stop())
	if one.Head().Ref != two.Head().Ref || one.BytesIn != two.BytesIn || one.N != two.N {
		t.Errorf("as a stream: head %s, %d bytes, %d items; in memory: %s, %d, %d", one.Head().Ref, one.BytesIn, one.N,
			two.Head().Ref, two.BytesIn, two.N)
	}
	r.start(streaming)
	r.say(thread(2), "omp", lines...)
	r.say(thread(3), "omp", lines...) // and with the events before it, the uploads are dropped
	r.checkGiant(thread(2), 0, lines...)
}

// blobs is a bulk store whose uploads end in other ways than they should.
type blobs struct {
	persist.Bulk
	write func() error // before each piece
}

func (b blobs) NewBlob(ctx context.Context) record.Upload {
	return upload{b.Bulk.NewBlob(ctx), b.write}
}

type upload struct {
	record.Upload
	write func() error
}

func (u upload) Write(p []byte) (int, error) {
	if err := u.write(); err != nil {
		return 0, err
	}
	return u.Upload.Write(p)
}

// TestGiantWhateverDies kills the persister at each durable step and in the middle of an upload, and starts another one.
func TestGiantWhateverDies(t *testing.T) {
	lines := []string{node("a", ""), giantEntry("b", 1), node("c", "b"), giantEntry("d", 2)}
	for _, step := range []persist.Step{"in the middle", persist.StepUpload, persist.StepFence, persist.StepBulk,
		persist.StepCommit, persist.StepItems, persist.StepAck} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			pub := r.Publisher(client.PublisherConfig{Producer: "p"})
			for i, line := range lines {
				must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: []byte(line), Seq: uint64(i + 1)}))(t)
			}
			var hits atomic.Int64
			p := r.start(func(d *persist.Deps, c *persist.Config) {
				streaming(d, c)
				c.BatchEvents = 1
				die := func(s persist.Step, after int64) error {
					if s == step && hits.Add(1) > after {
						return errKilled
					}
					return nil
				}
				d.At = func(s persist.Step) error { return die(s, 1) }
				d.Bulk = blobs{d.Bulk, func() error { return die("in the middle", 40) }}
			})
			p.killed(t)
			r.start(streaming)
			if head := r.await(thread(0), "p", 4); head.Entries != 4 || head.N != 4 {
				t.Errorf("%d entries, %d items, want 4 of each", head.Entries, head.N)
			}
			r.items(thread(0), 4)
			r.checkGiant(thread(0), 8, lines...)
		})
	}
}

// TestGiantWithARestlessServer: an upload that fails for a passing reason is made again, and what there was of it is dropped.
func TestGiantWithARestlessServer(t *testing.T) {
	r := newRig(t)
	var n atomic.Int64
	p := r.start(func(d *persist.Deps, c *persist.Config) {
		streaming(d, c)
		d.Bulk = blobs{d.Bulk, func() error {
			if i := n.Add(1); i == 1 || i == 20 || i == 60 {
				return fmt.Errorf("%w: now", record.ErrBusy)
			}
			return nil
		}}
	})
	line := giantEntry("a", 1)
	r.say(thread(0), "omp", line)
	r.checkGiant(thread(0), 0, line)
	if s := p.Stats(); s.Dead != 0 || n.Load() < 60 {
		t.Errorf("stats = %+v after %d writes, want no dead letters and more than 60", s, n.Load())
	}
}

// TestGiantWhileACollectorStarts: what was uploaded before the collector moved the fence may be garbage to it, so it is
// uploaded again and the records name the second upload (DESIGN 8, step 0).
func TestGiantWhileACollectorStarts(t *testing.T) {
	for step, orphans := range map[persist.Step]int{
		persist.StepFence: 0,
		persist.StepBulk:  5, // a commit was refused that named them: they are the collector's
	} {
		t.Run(string(step), func(t *testing.T) {
			r := newRig(t)
			var moved atomic.Uint64 // the last sequence in the bucket when a collector started
			var uploads atomic.Int64
			r.start(func(d *persist.Deps, c *persist.Config) {
				streaming(d, c)
				d.At = func(s persist.Step) error {
					if s == persist.StepUpload {
						uploads.Add(1)
					}
					if s == step && uploads.Load() == 1 && moved.Load() == 0 {
						moved.Store(r.lastBlobSeq())
						r.moveFence()
					}
					return nil
				}
			})
			line := giantEntry("a", 1)
			r.say(thread(0), "omp", line)
			r.checkGiant(thread(0), orphans, line)
			if uploads.Load() != 2 || moved.Load() == 0 {
				t.Errorf("%d uploads, collector at %d, want 2 uploads", uploads.Load(), moved.Load())
			}
			rs := must.Get(r.conn.Records().List(t.Context(), events.BlobKey("*")))(t)
			for _, rec := range rs {
				if b, err := record.DecodeBlob(rec.Value); err != nil || b.Object.First <= moved.Load() {
					t.Errorf("%s: its bytes begin at %d, %v, want them above %d", rec.Key, b.Object.First, err, moved.Load())
				}
			}
		})
	}
}

func (r *rig) lastBlobSeq() uint64 {
	s, err := r.conn.JetStream().Stream(context.Background(), events.ObjectStream(events.BlobsBucket))
	if err != nil {
		r.t.Error(err)
		return 0
	}
	return s.CachedInfo().State.LastSeq
}

// TestGiantPoison goes to the dead letters with the reason, leaves no upload, and stops nothing (SPEC B1).
func TestGiantPoison(t *testing.T) {
	r := newRig(t)
	good := giantEntry("a", 1)
	ref := must.Get(r.conn.Inbox().CheckIn(t.Context(), strings.NewReader(good)))(t)
	claim := func(size int64, sum [32]byte) *events.BodyRef {
		return &events.BodyRef{Object: ref.Object, Size: size, Sum: sum}
	}
	var many strings.Builder // strings that are each within the limit
	for range 60 {
		fmt.Fprintf(&many, `,"%s"`, strings.Repeat("x", 400_000))
	}
	r.start(func(d *persist.Deps, c *persist.Config) { streaming(d, c); c.MaxEntry = 16 << 20 })
	pub := r.Publisher(client.PublisherConfig{Producer: "p"})
	for i, c := range []struct {
		body   string
		ref    *events.BodyRef
		reason string
	}{
		{body: good[:len(good)-1], reason: "not JSON"},
		{body: good + "x", reason: "not JSON"},
		{body: strings.Repeat("[", 1<<20), reason: "256"},
		{body: `[0` + many.String() + `]`, reason: "at most 16777216"},
		{ref: claim(ref.Size-1, ref.Sum), reason: "more than"},
		{ref: claim(ref.Size+1, ref.Sum), reason: fmt.Sprintf("has %d bytes", ref.Size)},
		{ref: claim(ref.Size, sha256.Sum256(nil)), reason: "another hash"},
		{ref: &events.BodyRef{Object: "nowhere", Size: 1 << 40}, reason: "not there"},
	} {
		e := &events.Event{Producer: "p", Seq: uint64(i + 1), Kind: events.KindEntry, Dialect: "omp", Thread: thread(0),
			Body: []byte(c.body), Ref: c.ref}
		must.Do(t, r.conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
		r.await(thread(0), pub.Producer(), e.Seq)
		var got string
		n := 0
		for m := range must.All(t, r.letters()) {
			got = m.Header.Get(natsio.HeaderReason)
			if n++; n > i {
				break
			}
		}
		if !strings.Contains(got, c.reason) {
			t.Errorf("letter %d: reason = %q, want it to say %q", i+1, got, c.reason)
		}
	}
	r.say(thread(0), "omp", good)
	r.checkGiant(thread(0), 0, good)
}

// TestGiantOfAnyBytes: raw bytes have no strings to cut; many of them are kept as a blob, and come back.
func TestGiantOfAnyBytes(t *testing.T) {
	r := newRig(t)
	lines := make([]string, 3)
	for i, size := range []int{8 << 20, 8<<20 + 1, 20 << 20} {
		lines[i] = strings.Repeat("no JSON\xff é ", size/12+1)[:size]
	}
	p := r.start(streaming)
	one := r.say(thread(0), "raw", lines...)
	must.Do(t, p.stop())
	r.start(func(_ *persist.Deps, c *persist.Config) { c.StreamBytes = 1 << 40 })
	two := r.say(thread(1), "raw", lines...)
	if one.Head().Ref != two.Head().Ref || one.Truncated != 2 {
		t.Errorf("as a stream: head %s, %d truncated, want %s, 2", one.Head().Ref, one.Truncated, two.Head().Ref)
	}
	r.checkGiant(thread(0), 0, lines...)
	r.checkGiant(thread(1), 0, lines...)
}

// TestPublishFromAReader: an entry that is opened, not held, is the same entry.
func TestPublishFromAReader(t *testing.T) {
	r := newRig(t)
	r.start(streaming)
	line := giantEntry("a", 1)
	opened := 0
	pub := r.Publisher(client.PublisherConfig{})
	e := client.Entry{Thread: thread(0), Dialect: "omp", Open: func() (io.ReadCloser, error) {
		opened++
		return io.NopCloser(strings.NewReader(line)), nil
	}}
	must.Get(pub.Publish(t.Context(), e, client.Entry{Thread: thread(0), Dialect: "omp", Body: []byte(node("b", "a"))}))(t)
	r.await(thread(0), pub.Producer(), 2)
	r.checkGiant(thread(0), 0, line, node("b", "a"))
	must.Same(t, opened, 1, "opened %d times, want %d")
	ref := casstore.SumBlob([]byte(line)) // nobody has it
	must.Is(t, must.Err(r.OpenBlob(t.Context(), ref)), casstore.ErrNotFound, "OpenBlob(%s)", ref)
}
