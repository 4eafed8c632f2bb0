package gc_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/embedded"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Readers in flight never fail while what they read is repacked under their eyes, again and again: those that begin with a head
// of now, and those that began with one of long ago and have followed it half-way.
func TestReadersDuringRepacks(t *testing.T) {
	r := newRig(t)
	r.persister(4)
	for i := range 4 {
		r.publish(said{th("drop"), talk(6, fmt.Sprint("drop", i))}, said{th("keep"), talk(6, fmt.Sprint("keep", i))})
		r.await(th("keep"))
	}
	r.say(th("drop"), entry("last", "last"))
	old := must.Get(r.Thread(th("keep")).Head(t.Context()))(t)
	r.remove(th("drop"))

	ctx, stop := context.WithCancel(t.Context())
	var reads atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				now, err := r.Thread(th("keep")).Head(ctx)
				for _, h := range []threads.Head{now, old} {
					if err == nil {
						err = threads.Verify(ctx, threads.Reader{Packs: r.conn.Store(0)}, h) // no cache: every pack is read where it is
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("read: %v", err)
					return
				}
				reads.Add(1)
			}
		})
	}
	// A first repack takes the small neighbours together; later ones take what was written since with the pack that came of it.
	repacked := 0
	for i := range 6 {
		cfg := brave()
		cfg.Merge, cfg.Follow = 2, time.Hour // a reader may take longer than two cycles
		_, d := r.collect(cfg)
		repacked += d.Repacked
		at := reads.Load()
		r.say(th("keep"), talk(3, fmt.Sprint("more", i))...)
		for reads.Load() < at+2 && ctx.Err() == nil && !t.Failed() {
			time.Sleep(time.Millisecond) // until somebody has read all of it anew
		}
	}
	stop()
	wg.Wait()
	if repacked < 12 || reads.Load() < 12 {
		t.Errorf("%d packs repacked, %d readings: it was not tried", repacked, reads.Load())
	}
	r.verify(th("keep"))
}

// However often a pack is repacked, and however many names it had, every name leads to it in a few steps; also when collectors die before
// they have led all names on.
func TestWaysStayShort(t *testing.T) {
	r := newRig(t)
	r.persister(0)
	r.say(th("keep"), talk(3, "first")...)
	h := must.Get(r.Thread(th("keep")).Head(t.Context()))(t)
	names := []casstore.PackID{h.Start.Pack}
	for i := range 600 {
		from := casstore.PackID{1, byte(i >> 8), byte(i)}
		names = append(names, from)
		r.put(events.MovedKey(from.String()), record.Moved{To: h.Start.Pack}.Encode())
	}
	cfg := brave()
	cfg.Merge, cfg.Follow = 2, time.Hour
	repacked := 0
	for i := range 100 {
		r.say(th("keep"), entry(fmt.Sprint("more", i), "a small neighbour"))
		c := r.collector(cfg, func(s gc.Step) error {
			if s == gc.StepFollow && i%3 == 0 {
				return errKilled
			}
			return nil
		})
		p := must.Get(c.Plan(t.Context()))(t)
		if _, err := c.Apply(t.Context(), p); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if at, err := r.conn.Records().FindPack(t.Context(), names[0]); err == nil && at.ID != names[len(names)-1] {
			names = append(names, at.ID)
			repacked++
		}
	}
	if repacked != 100 {
		t.Fatalf("the first pack was repacked %d times, want 100", repacked)
	}
	moved := map[casstore.PackID]casstore.PackID{}
	all := must.Get(r.conn.Records().List(t.Context(), events.MovedKey("*")))(t)
	for _, one := range all {
		id := must.Get(casstore.ParsePackID(one.Key[len(events.MovedKey("")):]))(t)
		if m, err := record.DecodeMoved(one.Value); err == nil {
			moved[id] = m.To
		}
	}
	longest := 0
	for _, name := range names {
		steps, at := 0, name
		for to, ok := moved[at]; ok && steps < 1000; to, ok = moved[at] {
			at, steps = to, steps+1
		}
		longest = max(longest, steps)
		must.Same(t, at, names[len(names)-1], "%s leads to %s, want %s", name)
	}
	if longest > 2 {
		t.Errorf("a name leads to its pack over %d moved records, want 2 at most", longest)
	}
	r.verify(th("keep"))
}

// A repack by itself takes neighbours together and nothing away, garbage neither.
func TestRepackAlone(t *testing.T) {
	r := newRig(t)
	r.persister(4)
	r.say(th("drop"), image("picture", 1))
	r.remove(th("drop"))
	for i := range 4 {
		r.publish(said{th("one"), talk(6, fmt.Sprint("one", i))}, said{th("keep"), talk(6, fmt.Sprint("keep", i))})
		r.await(th("keep"))
	}
	cfg := brave()
	cfg.Merge = 2
	before, err := r.collector(cfg, nil).Plan(t.Context())
	if err != nil || len(before.Condemn) == 0 {
		t.Fatalf("Plan = %+v, %v, want something to condemn", before.Sum(0), err)
	}
	collector := r.collector(cfg, nil)
	plan := must.Get(collector.Plan(t.Context()))(t)
	plan.Bury, plan.Condemn, plan.Reclaim, plan.Forget = nil, nil, nil, nil
	plan.Allow(gc.BrakeShare) // it condemns nothing
	d, err := collector.Apply(t.Context(), plan)
	if err != nil || d.Repacked < 2 || d.Condemned+d.Forgotten+d.Reclaimed > 0 {
		t.Errorf("Repack = %+v, %v, want packs repacked and nothing else", d, err)
	}
	r.verify(th("keep"))
	r.verify(th("one"))
	after, err := r.collector(cfg, nil).Plan(t.Context())
	if err != nil || after.Stock.Packs >= before.Stock.Packs || after.Stock.Blobs != before.Stock.Blobs ||
		len(after.Condemn) != len(before.Condemn) {
		t.Errorf("after a repack %+v, %v, want fewer packs, and the garbage of %+v", after.Stock, err, before.Stock)
	}
}

// What is garbage gives its bytes back, on the disk too: what is reclaimed makes holes in the files of a stream, and each time that
// the server syncs it writes those anew of which less than half is left, but the newest.
func TestDiskShrinks(t *testing.T) {
	dir := t.TempDir()
	server := must.Get(embedded.Start(embedded.Config{Dir: dir, Sync: time.Second}))(t)
	t.Cleanup(server.Stop)
	conn := natstest.Dial(t, server)
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}))
	r := &rig{t: t, conn: conn, Client: client.New(conn)}
	r.producer = r.Publisher(client.PublisherConfig{Producer: "p"})
	r.persister(0)
	const blobs, size = 40, 1 << 20
	for i := range blobs {
		to := th("drop")
		if i%4 == 0 {
			to = th("keep")
		}
		r.say(to, []byte(fmt.Sprintf(`{"type":"message","id":"b%d","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`,
			i, strings.Repeat(fmt.Sprintf("%08d", i), size/6))))
	}
	bucket := events.ObjectStream(events.BlobsBucket)
	before, disk := r.bytes(bucket), diskOf(t, dir, bucket)
	r.remove(th("drop"))
	_, d := r.collect(brave())
	after, left := r.bytes(bucket), diskOf(t, dir, bucket)
	for deadline := time.Now().Add(time.Minute); left > disk*45/100 && time.Now().Before(deadline); left = diskOf(t, dir, bucket) {
		time.Sleep(50 * time.Millisecond) // until the server has synced
	}
	t.Logf("the stream of blobs: %d bytes, then %d; its directory: %d, then %d; reclaimed %d", before, after, disk, left, d.Bytes)
	if want := before * 35 / 100; after > want {
		t.Errorf("the stream holds %d bytes of %d, want a quarter or so", after, before)
	}
	if left > disk*45/100 {
		t.Errorf("its directory holds %d bytes of %d, want less than half", left, disk)
	}
	r.verify(th("keep"))
}

func (r *rig) bytes(stream string) int64 {
	r.t.Helper()
	all := must.Get(natsadmin.New(r.conn).Usage(r.t.Context()))(r.t)
	for _, u := range all {
		if u.Stream == stream {
			return int64(u.Bytes)
		}
	}
	r.t.Fatalf("there is no stream %s", stream)
	return 0
}

// diskOf is what the files of a stream take.
func diskOf(t *testing.T, dir, stream string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if err == nil && d.Type().IsRegular() && strings.Contains(path, string(filepath.Separator)+stream+string(filepath.Separator)) {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("size of %s below %s: %d, %v", stream, dir, n, err)
	}
	return n
}
