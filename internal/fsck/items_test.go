package fsck_test

import (
	"slices"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// found gives what a check says of a record.
func (w *world) found(key string) (out []fsck.Finding) {
	w.Helper()
	for _, f := range w.check().Findings {
		if f.Record == key {
			out = append(out, f)
		}
	}
	return out
}

// dropItems deletes items of a thread by their numbers, as a disk that lost them.
func (w *world) dropItems(id events.Thread, drop func(n int64) bool) {
	w.Helper()
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.ItemsStream))(w)
	var seqs []uint64
	n := int64(0)
	must.Do(w, natsadmin.New(w.conn).Messages(w.Context(), events.ItemsStream, 1, func(seq uint64, subject string, _ []byte) error {
		if t, ok := events.ParseItemSubject(subject); ok && t == id {
			if n++; drop(n) { // each step makes one item
				seqs = append(seqs, seq)
			}
		}
		return nil
	}))
	for _, seq := range seqs {
		must.Do(w, s.DeleteMsg(w.Context(), seq))
	}
}

// Items that are missing, at the end of a thread or in it, and items that are others than their nodes make, are found; the
// missing ones are published again.
func TestItemsAgainstHeads(t *testing.T) {
	for name, c := range map[string]struct {
		drop func(n int64) bool
		want string
	}{
		"the newest":    {func(n int64) bool { return n > 16 }, "up to 16, it counts 20"},
		"in the middle": {func(n int64) bool { return n == 7 || n == 8 }, "but for 2 of them, the first 7"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := events.Thread{Session: "s", Name: "main"}
			w.steps(id, 1, 21)
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			w.stop()
			if rep := w.wantClean(); rep.Items != 20 {
				t.Errorf("%d items, want 20", rep.Items)
			}
			w.dropItems(id, c.drop)
			if f := w.found(events.HeadKey(id)); len(f) != 1 || f[0].Kind != fsck.Missing || !strings.Contains(f[0].Detail, c.want) {
				t.Fatalf("findings = %v, want %q", f, c.want)
			}
			done, ok := w.fix(id, fsck.Config{})
			if !ok || done.Items == 0 || done.To == "" {
				t.Fatalf("repair = %+v, %v", done, ok)
			}
			w.wantClean()
			last, _, err := w.conn.Items().LastItem(t.Context(), id)
			must.Do(w, err)
			must.Same(t, last, 20, "the newest item is %d, want %d")
		})
	}
}

// An item that is not what its node makes is found: the newest of a thread always, the others when all are compared.
func TestItemsAgainstNodes(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 6)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	var all []events.Posted
	must.Do(w, natsadmin.New(w.conn).Messages(t.Context(), events.ItemsStream, 1, func(_ uint64, subject string, data []byte) error {
		all = append(all, events.Posted{Subject: subject, N: int64(len(all) + 1), Data: slices.Clone(data)})
		return nil
	}))
	for _, n := range []int64{3, 5} {
		s := must.Get(w.conn.JetStream().Stream(t.Context(), events.ItemsStream))(w)
		must.Do(w, s.Purge(t.Context()))
		for i := range all {
			p := all[i]
			if p.N == n {
				p.Data = []byte(strings.Replace(string(p.Data), "step", "Step", 1))
			}
			must.Do(w, w.conn.Items().PublishItems(t.Context(), []events.Posted{p}))
		}
		for _, full := range []bool{false, true} {
			rep := must.Get(fsck.Check(t.Context(), natsadmin.Of(w.conn), fsck.Config{Items: full}))(w)
			want := 0
			if full || n == 5 {
				want = 1
			}
			if len(rep.Findings) != want || want == 1 && !strings.Contains(rep.Findings[0].Detail, "is not what its node") {
				t.Errorf("item %d is another, all compared: %v: findings = %v, want %d", n, full, rep.Findings, want)
			}
		}
	}
}

// loseHead removes the records of a thread as if they had never been.
func (w *world) loseHead(id events.Thread) {
	w.Helper()
	w.put(events.HeadKey(id), nil)
}

// A head that is lost is found by what is there of its thread, and made again: from its newest item and the events behind that,
// or from all events. A thread that was removed or renamed is not missed.
func TestLostHead(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(w *world, id events.Thread)
	}{
		"with its items":                     {func(w *world, id events.Thread) {}},
		"and its newest items":               {func(w *world, id events.Thread) { w.dropItems(id, func(n int64) bool { return n > 9 }) }},
		"and all its items":                  {func(w *world, id events.Thread) { w.dropItems(id, func(int64) bool { return true }) }},
		"and the record of its session":      {func(w *world, id events.Thread) { w.put(events.SessionKey(id.Session), nil) }},
		"beside others that are not missing": {func(w *world, id events.Thread) { w.fill() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := events.Thread{Session: "lost", Name: "main"}
			w.steps(id, 1, 13)
			if strings.HasPrefix(name, "beside") {
				c.lose(w, id)
			}
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
			w.stop()
			if !strings.HasPrefix(name, "beside") {
				c.lose(w, id)
			}
			w.loseHead(id)
			rep := w.check()
			if len(rep.Findings) != 1 || rep.Findings[0].Record != events.HeadKey(id) || rep.Findings[0].Kind != fsck.Missing {
				t.Fatalf("findings = %v, want that %s is missing", rep.Findings, events.HeadKey(id))
			}
			done, ok := w.fix(id, fsck.Config{})
			if !ok || done.To == "" {
				t.Fatalf("repair = %+v, %v", done, ok)
			}
			w.start()
			must.Do(w, w.cl.Thread(id).Await(t.Context(), "agent.main", 0, 12))
			w.steps(id, 13, 15)
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			got := must.Get(client.New(w.conn).Thread(id).Head(t.Context()))(w)
			if got.Entries != want.Entries+2 || got.N != want.N+2 || got.Recent[2].Ref != want.Head().Ref {
				t.Errorf("head: %d entries, %d items, two before it %s, want %d, %d, %s", got.Entries, got.N, got.Recent[2].Ref,
					want.Entries+2, want.N+2, want.Head().Ref)
			}
			w.stop()
			w.wantClean()
		})
	}
}

// A head that is older than its items has lost commits: its events are applied again.
func TestHeadBehindItsItems(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 9)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	rs := must.Get(w.conn.Records().Records(t.Context(), events.HeadKey(id)))(w)
	old := rs[0]
	w.steps(id, 9, 13)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	want := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
	w.stop()
	must.Get(w.conn.Records().Write(t.Context(), record.Put{Key: old.Key, Value: old.Value, Expect: record.Any}))(w)
	if f := w.found(events.HeadKey(id)); len(f) != 1 || !strings.Contains(f[0].Detail, "up to 12, it counts 8") {
		t.Fatalf("findings = %v", f)
	}
	done, ok := w.fix(id, fsck.Config{})
	if !ok || done.Replayed != 4 {
		t.Fatalf("repair = %+v, %v, want four events applied again", done, ok)
	}
	w.start()
	must.Do(w, w.cl.Thread(id).Await(t.Context(), "agent.main", 0, 12))
	got := must.Get(client.New(w.conn).Thread(id).Head(t.Context()))(w)
	if got.Head().Ref != want.Head().Ref || got.N != want.N {
		t.Errorf("head %s, %d items, want %s, %d", got.Head().Ref, got.N, want.Head().Ref, want.N)
	}
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	w.wantClean()
}

// Threads that begin alike have one start. When two of them have lost their newest states, neither is given a state of the other.
func TestStatesOfOthers(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "a", Name: "x"}, events.Thread{Session: "b", Name: "y"}
	w.steps(a, 1, 20)
	w.steps(b, 1, 26)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	must.Do(w, stream.Purge(t.Context()))
	for _, id := range []events.Thread{a, b} {
		head := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
		for _, l := range head.Recent {
			w.lose(events.PackKey(l.Pack.String()))
		}
	}
	rs := must.Get(w.conn.Records().Records(t.Context(), events.HeadKey(a), events.HeadKey(b)))(w)
	for i, id := range []events.Thread{a, b} {
		done, ok := w.fix(id, fsck.Config{})
		if !ok || done.To != "" || !strings.Contains(done.Detail, "cannot be told whose") {
			t.Errorf("%s: repair = %+v, %v, want none", id, done, ok)
		}
		now := must.Get(w.conn.Records().Records(t.Context(), rs[i].Key))(w)
		if now[0].Seq != rs[i].Seq {
			t.Errorf("%s: its head was changed", id)
		}
	}
}

// The same where the other thread has lost its head alone: what it had is its own, whatever is repaired first.
func TestStatesOfALostThread(t *testing.T) {
	w := newWorld(t)
	a, b := events.Thread{Session: "a", Name: "x"}, events.Thread{Session: "b", Name: "y"}
	w.steps(a, 1, 20)
	w.steps(b, 1, 26)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	stream := must.Get(w.conn.JetStream().Stream(t.Context(), events.EventsStream))(w)
	must.Do(w, stream.Purge(t.Context()))
	head := must.Get(w.cl.Thread(a).Head(t.Context()))(w)
	for _, l := range head.Recent {
		w.lose(events.PackKey(l.Pack.String()))
	}
	w.loseHead(b)
	rep := must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	if !slices.ContainsFunc(rep.Repairs, func(r fsck.Repair) bool { return r.Record == events.HeadKey(a) && r.To != "" && r.Lost > 0 }) {
		t.Errorf("repairs %+v, want %s moved back to its own states before the lost ones", rep.Repairs, a)
	}
	var out strings.Builder
	_, _ = client.New(w.conn).Thread(a).Export(t.Context(), &out) // it may not be whole
	if strings.Contains(out.String(), `"y`) {
		t.Errorf("%s has entries of %s: %s", a, b, out.String())
	}
	if h, err := client.New(w.conn).Thread(b).Head(t.Context()); err != nil || h.Entries != 25 {
		t.Errorf("%s has %d entries, %v; want 25", b, h.Entries, err)
	}
	w.wantClean()
}

// An item that came again late is the newest message of its thread, and nothing is wrong with that.
func TestLateItemAtTheEnd(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	w.steps(id, 1, 6)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	var second events.Posted
	must.Do(w, natsadmin.New(w.conn).Messages(t.Context(), events.ItemsStream, 1, func(seq uint64, subject string, data []byte) error {
		if seq == 2 {
			second = events.Posted{Subject: subject, N: 2, Data: slices.Clone(data)}
		}
		return nil
	}))
	must.Do(w, w.conn.Items().PublishItems(t.Context(), []events.Posted{second}))
	w.wantClean()
}

// The head of a thread whose name was removed before, or whose session was deleted, is found where it is lost, and made again; what was
// removed is not missed.
func TestLostHeadOfANameThatWasUsed(t *testing.T) {
	for name, leave := range map[string]func(w *world, id events.Thread){
		"removed": func(w *world, id events.Thread) { must.Do(w, w.cl.Thread(id).Remove(w.Context())) },
		"deleted": func(w *world, id events.Thread) {
			must.Get(w.cl.Session(id.Session).Delete(w.Context(), client.Deletion{}))(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := events.Thread{Session: "s", Name: "main"}
			w.steps(id, 1, 4)
			leave(w, id)
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			w.wantClean()
			p := w.cl.Publisher(client.PublisherConfig{Producer: "next"})
			for _, text := range []string{"one", "two"} {
				must.Get(p.Publish(t.Context(), client.Entry{Thread: id, Dialect: "step", Body: step(text)}))(w)
			}
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			w.wantClean()
			export := func() string {
				var out strings.Builder
				must.Get(client.New(w.conn).Thread(id).Export(t.Context(), &out))(w)
				return out.String()
			}
			want := export()
			w.stop()
			w.loseHead(id)
			if f := w.found(events.HeadKey(id)); len(f) != 1 || f[0].Kind != fsck.Missing {
				t.Fatalf("findings = %v, want that the head is missing", f)
			}
			done, ok := w.fix(id, fsck.Config{})
			w.start()
			must.Do(w, faulttest.Settle(t.Context(), w.conn))
			if got := export(); !ok || done.To == "" || got != want {
				t.Errorf("repair = %+v; %q, want %q", done, got, want)
			}
			w.wantClean()
		})
	}
}

// What a thread had under another name, between two times that it had its own, is not missing; what is lost there is.
func TestItemsOfAThreadThatComesBack(t *testing.T) {
	w := newWorld(t)
	id, other := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "other"}
	w.steps(id, 1, 4)
	must.Do(w, w.cl.Thread(id).Rename(t.Context(), other.Name))
	w.steps(other, 4, 7)
	must.Do(w, w.cl.Thread(other).Rename(t.Context(), id.Name))
	w.steps(id, 7, 9)
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	w.wantClean()
	w.dropItems(other, func(n int64) bool { return n == 2 })
	if f := w.found(events.HeadKey(id)); len(f) != 1 || f[0].Kind != fsck.Missing ||
		!strings.Contains(f[0].Detail, "but for 1 of them, the first 5") {
		t.Errorf("findings = %v, want that 5 is missing", f)
	}
}

// Nor is what it had under the other name last: it has come back, and nothing was said since.
func TestItemsOfAThreadThatCameBack(t *testing.T) {
	w := newWorld(t)
	id, other := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "other"}
	w.steps(id, 1, 4)
	must.Do(w, w.cl.Thread(id).Rename(t.Context(), other.Name))
	w.steps(other, 4, 8)
	must.Do(w, w.cl.Thread(other).Rename(t.Context(), id.Name))
	must.Do(w, faulttest.Settle(t.Context(), w.conn))
	w.stop()
	w.wantClean()
	w.dropItems(other, func(n int64) bool { return n == 2 || n == 4 })
	if f := w.found(events.HeadKey(id)); len(f) != 1 || f[0].Kind != fsck.Missing || !strings.Contains(f[0].Detail, "the first 5") {
		t.Errorf("findings = %v, want that 5 is missing", f)
	}
	if done, ok := w.fix(id, fsck.Config{}); !ok || done.Items != 3 {
		t.Errorf("repair = %+v, %v, want 5, 6 and 7 published", done, ok)
	}
	w.wantClean()
}

// What is lost of a renamed thread is that it was: its entries are under its new name, or went with that, and not under the old one.
func TestLostNameOfARenamed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := events.Thread{Session: "s", Name: "a"}, events.Thread{Session: "s", Name: "b"}
	c, d := events.Thread{Session: "s", Name: "c"}, events.Thread{Session: "s", Name: "d"}
	for old, now := range map[events.Thread]events.Thread{a: b, c: d} {
		w.steps(old, 1, 4)
		must.Do(w, w.cl.Thread(old).Rename(ctx, now.Name))
		w.steps(now, 4, 6)
	}
	must.Do(w, w.cl.Thread(d).Remove(ctx))
	must.Do(w, faulttest.Settle(ctx, w.conn))
	want := must.Get(w.cl.Thread(b).Head(ctx))(w)
	w.stop()
	for _, id := range []events.Thread{a, c} {
		w.put(events.LeftKey(id), nil)
		if done, ok := w.fix(id, fsck.Config{}); !ok || done.To != events.LeftKey(id) || done.Replayed != 0 {
			t.Errorf("%s: repair = %+v, %v, want that it was renamed", id, done, ok)
		}
	}
	w.start()
	must.Do(w, faulttest.Settle(ctx, w.conn))
	if got := must.Get(client.New(w.conn).Thread(b).Head(ctx))(w); got.Entries != want.Entries || got.Head().Ref != want.Head().Ref {
		t.Errorf("%s has %d entries, want %d", b, got.Entries, want.Entries)
	}
	for _, id := range []events.Thread{a, c, d} {
		if _, err := client.New(w.conn).Thread(id).Head(ctx); err == nil {
			t.Errorf("%s is there", id)
		}
	}
	w.stop()
	w.wantClean()
}
