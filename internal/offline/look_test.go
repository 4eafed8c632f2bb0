package offline

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

func TestLook(t *testing.T) {
	dir, began := t.TempDir(), time.Now().Add(-time.Minute)
	dead := open(t, Config{Dir: dir, Segment: 600})
	if all := must.Get(Look(dir))(t); len(all) != 0 {
		t.Errorf("Look finds %+v in a queue that holds nothing", all)
	}
	many := event("p", 10, 10)
	many.More = []events.Entry{{Seq: 11}, {Seq: 12}}
	for seq := range uint64(9) {
		must.Do(t, dead.Append([]*events.Event{event("p", seq+1, 300)}))
	}
	must.Do(t, dead.Append([]*events.Event{many, event("other", 1, 10)}))
	_ = dead.lock.Close()
	long := began.Add(-time.Hour).Truncate(time.Second)
	must.Do(t, os.Chtimes(filepath.Join(dead.dir(), "00000001.log"), long, long))
	live := left(t, dir, "q", 2)
	must.Do(t, os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600)) // somebody else's
	all := must.Get(Look(dir))(t)
	if len(all) != 2 || all[0].Queue != dead.dir() || all[1].Queue != live.dir() {
		t.Fatalf("Look finds %+v, want two queues", all)
	}
	a, b := all[0], all[1]
	if a.State != Ended || a.Entries != 13 || !slices.Equal(a.Producers, []string{"other", "p"}) ||
		!slices.Equal(a.Threads, []string{"s/main"}) {
		t.Errorf("Look says %+v of a dead process's", a)
	}
	if a.Bytes != dead.used || a.Segments != 9 || a.Last.Before(began) || !a.Oldest.Equal(long) {
		t.Errorf("Look says %+v, want %d bytes in nine segments, of %v until a moment ago", a, dead.used, long)
	}
	if b.State != Live || b.Entries != 2 {
		t.Errorf("Look says %+v of a living process's", b)
	}
	must.Is(t, must.Err(Look(filepath.Join(dir, "none"))), os.ErrNotExist, "Look of no directory")
}

// A process that sends what a dead one left sends it, however many look meanwhile.
func TestDrainBesideWhoLooks(t *testing.T) {
	dir, stop := t.TempDir(), make(chan struct{})
	var beside sync.WaitGroup
	defer beside.Wait()
	defer close(stop)
	for range 2 {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = Look(dir)
				}
			}
		})
	}
	s := &sink{}
	for range 100 {
		_ = left(t, dir, "p", 1).lock.Close()
		q := open(t, Config{Dir: dir})
		s.got = nil
		must.Do(t, q.Drain(t.Context(), s.send))
		must.Same(t, len(s.got), 1, "a drain sends %d events, want %d")
		must.Do(t, q.Close())
	}
}

// What a server refused for good is sent again when somebody asks for it, in its order, and stays for as long as it is refused.
func TestSendRefused(t *testing.T) {
	q, s := open(t, Config{Dir: t.TempDir()}), &sink{fail: record.ErrRefused}
	for seq := range uint64(20) {
		must.Do(t, q.Append([]*events.Event{event("p", seq+1, 10)}))
	}
	must.Do(t, q.Drain(t.Context(), s.send))
	refused := func(want int) {
		t.Helper()
		n := 0
		for _, one := range must.Get(Look(q.cfg.Dir))(t) {
			if one.State != Refused {
				t.Errorf("Look finds %+v", one)
			}
			n += one.Entries
		}
		must.Same(t, n, want, "%d events are refused, want %d")
	}
	refused(20)
	must.Do(t, q.SendRefused(t.Context(), s.send))
	refused(20)
	s.fail = record.ErrBusy
	must.Is(t, q.SendRefused(t.Context(), s.send), record.ErrBusy, "SendRefused without a server")
	torn := filepath.Join(q.cfg.Dir, refusedDir, "0.event") // of a crash in the middle of a write
	must.Do(t, os.WriteFile(torn, []byte(magic), 0o600))
	s.fail = nil
	must.Do(t, q.SendRefused(t.Context(), s.send))
	refused(0)
	if !slices.Equal(s.got, ids("p", 1, 20)) {
		t.Errorf("sent %v", s.got)
	}
}
