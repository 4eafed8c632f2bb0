package backup_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"spool/internal/backup"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/persist"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// put publishes an event of a producer: an entry without an operation.
func put(t *testing.T, conn *natsio.Conn, th events.Thread, producer string, seq uint64, op events.Control) {
	t.Helper()
	e := &events.Event{Kind: events.KindControl, Thread: th, Producer: producer, Seq: seq, Body: op.Encode()}
	if op.Op == "" {
		e.Kind, e.Dialect, e.Body = events.KindEntry, "omp", line(int(seq))
	}
	must.Do(t, conn.Events().PublishEvents(t.Context(), []*events.Event{e}))
}

// behind has the partition of the first event counted as not worked off, as where its owner died before its acks: a backup copies
// all events from there on.
func behind(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	stream := must.Get(conn.JetStream().Stream(t.Context(), events.EventsStream))(t)
	first := must.Get(stream.GetMsg(t.Context(), 1))(t)
	part := must.Get(strconv.Atoi(regexp.MustCompile(`\.p\.(\d+)\.`).FindStringSubmatch(first.Subject)[1]))(t)
	must.Get(conn.JetStream().ResetConsumerToSequence(t.Context(), events.EventsStream, events.PartitionConsumer(part), 1))(t)
}

// restored is another system with what a backup has of one.
func restored(t *testing.T, src *natsio.Conn) *natsio.Conn {
	t.Helper()
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	m := must.Get(backup.Create(t.Context(), src, repo, nil))(t)
	dst := natstest.Dial(t, natstest.Server(t))
	must.Do(t, backup.Restore(t.Context(), dst, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil))
	return dst
}

// reasons counts dead letters by thread and reason.
func reasons(t *testing.T, conn *natsio.Conn) map[string]int {
	t.Helper()
	got := map[string]int{}
	must.Do(t, conn.DeadLetters().EachLetter(t.Context(), events.Thread{}, func(d natsio.DeadLetter) error {
		got[d.Thread.Name+": "+d.Reason]++
		return nil
	}))
	return got
}

// What was refused under a name without a thread has its letter, and the name is used since: behind a restore the thread is
// there, and the letters are as they were, however many others were refused so in between.
func TestRefusedLongAgo(t *testing.T) {
	for _, others := range []int{0, 1100} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			src, ctx := natstest.Conn(t), t.Context()
			main, x := events.Thread{Session: "s", Name: "main"}, events.Thread{Session: "s", Name: "x"}
			put(t, src, events.Thread{Session: "other", Name: "main"}, "w", 1, events.Control{})
			put(t, src, x, "w", 1, events.Control{})
			put(t, src, main, "remover", 1, events.Control{Op: events.OpRemove, Remove: &events.Remove{}})
			put(t, src, x, "renamer", 1, events.Control{Op: events.OpRename, Rename: &events.Rename{To: "y"}})
			workOff(t, src)
			for i := range others {
				put(t, src, x, "late", uint64(i+1), events.Control{})
			}
			put(t, src, main, "agent", 1, events.Control{})
			put(t, src, main, "agent", 2, events.Control{})
			for _, name := range []string{"a", "b", "c"} {
				put(t, src, events.Thread{Session: "s", Name: name}, "p", 1, events.Control{
					Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "nobody-" + name, Whole: true}})
			}
			workOff(t, src)
			want := reasons(t, src)
			behind(t, src)
			dst := restored(t, src)
			workOff(t, dst)
			if h, err := client.New(dst).Thread(main).Head(ctx); err != nil || h.Entries != 2 {
				t.Errorf("%s has %d entries, %v; want 2", main, h.Entries, err)
			}
			if got := reasons(t, dst); !maps.Equal(got, want) {
				t.Errorf("the letters are\n%v, were\n%v", got, want)
			}
		})
	}
}

// More producers wrote to a thread than its head remembers: behind a restore each entry is there once.
func TestForgottenProducersRestored(t *testing.T) {
	src := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	put(t, src, events.Thread{Session: "other", Name: "main"}, "w", 1, events.Control{})
	n := threads.MaxProducers + 50
	for i := range n {
		put(t, src, th, fmt.Sprintf("~p%d", i), 1, events.Control{})
	}
	workOff(t, src)
	behind(t, src)
	dst := restored(t, src)
	workOff(t, dst)
	must.Same(t, bytes.Count((&system{dst, client.New(dst)}).export(t, th), []byte("\n")), n, "the thread has %d entries, want %d")
	checkSound(t, dst)
}

// An output has ended, and its sender does not know: behind a restore its second attempt is refused, as before.
func TestEndedOutputRestored(t *testing.T) {
	src, th := natstest.Conn(t), events.Thread{Session: "s", Name: "main"}
	send := func(conn *natsio.Conn) {
		defer natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, nil).Run)()
		o := must.Get(client.New(conn).Thread(th).Output(t.Context(), client.OutputConfig{ID: "o1", Tool: "Bash", Invocation: "tu_1"}))(t)
		must.Get(o.Write([]byte("hello\n")))(t)
		must.Do(t, o.Close(client.OutputEnd{}))
		_ = o.Wait(t.Context())
	}
	send(src)
	dst := restored(t, src)
	cl := client.New(dst)
	must.Is(t, cl.Thread(th).MayBegin(t.Context(), client.OutputConfig{ID: "o1"}), client.ErrOutputTaken, "MayBegin")
	before := must.Get(cl.Thread(th).Head(t.Context()))(t)
	send(dst)
	if after := must.Get(cl.Thread(th).Head(t.Context()))(t); after.N != before.N {
		t.Errorf("%d items, and %d behind the second attempt", before.N, after.N)
	}
}

// What was not told by a dead letter, nor is in a thread, is accounted for behind a restore as it was before, and no
// deletion that was refused is done there.
func TestAccountsOfARestoredSystem(t *testing.T) {
	th := func(name string) events.Thread { return events.Thread{Session: "s", Name: name} }
	entry, rename := events.Control{}, func(to string) events.Control {
		return events.Control{Op: events.OpRename, Rename: &events.Rename{To: to}}
	}
	remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{}}
	spared := events.Control{Op: events.OpDelete, Delete: &events.Delete{UnchangedSince: 1}}
	nobodys := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "s", Thread: "nobody", Whole: true}}
	title := events.Control{Op: events.OpName, Name: &events.Name{Title: "x"}}
	type event struct {
		thread, producer string
		seq              uint64
		op               events.Control
	}
	for name, evs := range map[string][]event{
		"a deletion that was refused, twice":   {{"a", "c", 1, spared}, {"a", "c", 1, spared}},
		"and its thread came back to its name": {{"o", "r", 1, rename("a")}, {"o", "c", 1, spared}, {"a", "r", 2, rename("o")}},
		"and another thread took its name": {
			{"a", "p", 1, entry}, {"a", "r", 1, rename("b")}, {"a", "c", 1, spared}, {"b", "r", 2, remove},
			{"o", "r", 1, rename("b")}, {"b", "r", 3, rename("a")},
		},
		"repeats behind a rename": {{"o", "p", 2, title}, {"o", "r", 1, rename("a")}, {"a", "p", 3, entry},
			{"a", "p", 2, title}, {"a", "p", 1, entry}},
		"operations behind a refused one": {{"a", "p", 1, nobodys}, {"a", "p", 2, entry}, {"a", "p", 3, title},
			{"a", "p", 4, nobodys}, {"a", "p", 5, title}},
		"a name of two lives": {{"a", "p", 1, entry}, {"a", "r", 1, remove}, {"a", "p", 1, entry},
			{"a", "p", 2, title}, {"a", "r", 1, remove}},
		"a name of two lives, and renamed": {{"a", "p", 1, entry}, {"a", "r", 1, remove}, {"o", "r", 1, rename("a")},
			{"a", "p", 1, entry}, {"a", "p", 2, entry}},
	} {
		t.Run(name, func(t *testing.T) {
			src := natstest.Conn(t)
			put(t, src, th("o"), "p", 1, entry)
			workOff(t, src)
			for _, e := range evs {
				put(t, src, th(e.thread), e.producer, e.seq, e.op)
			}
			workOff(t, src)
			want := reasons(t, src)
			for _, restore := range []func() *natsio.Conn{
				func() *natsio.Conn { return src },
				func() *natsio.Conn { return restored(t, src) },
				func() *natsio.Conn { behind(t, src); return restored(t, src) },
			} {
				conn := restore()
				workOff(t, conn)
				s := &system{conn, client.New(conn)}
				if acc, err := fsck.Account(t.Context(), natsadmin.Of(conn), s.Internal().Source()); err != nil || len(acc.Findings) > 0 {
					t.Errorf("accounts: %+v, %v", acc, err)
				}
				if got := reasons(t, conn); !maps.Equal(got, want) {
					t.Errorf("the letters are\n%v, were\n%v", got, want)
				}
				checkSound(t, conn)
			}
		})
	}
}

// A restored system has no items of before. Who follows a thread from a number gets them, made from its nodes, and goes on with what comes;
// who follows what is kept gets what comes alone, and is told of no gap.
func TestItemsOfARestoredThread(t *testing.T) {
	src, th := natstest.Conn(t), events.Thread{Session: "s", Name: "main"}
	for seq := range uint64(3) {
		put(t, src, th, "agent", seq+1, events.Control{})
	}
	workOff(t, src)
	dst := restored(t, src)
	put(t, dst, th, "agent", 4, events.Control{})
	workOff(t, dst)
	cl := client.New(dst)
	last := must.Get(cl.Thread(th).Head(t.Context()))(t).N
	for _, c := range []struct {
		what  string
		of    client.Filter
		from  client.Position
		first int64
	}{
		{"a thread from its first item", client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1}, 1},
		{"what is kept of a thread", client.Filter{Session: "s", Thread: "main"}, client.Position{All: true}, last},
		{"what is kept of all", client.Filter{}, client.Position{All: true}, last},
	} {
		want := c.first
		for item, err := range cl.Subscribe(t.Context(), c.of, c.from) {
			must.Do(t, err)
			if item.N != want || item.Filled != (want < last) {
				t.Errorf("%s: item %d, made from nodes: %v; want %d", c.what, item.N, item.Filled, want)
			}
			if want++; want > last {
				break
			}
		}
	}
}
