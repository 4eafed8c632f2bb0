package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/backup"
	"spool/internal/faulttest"
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

// workOff has a persister deal with all that waits.
func workOff(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	defer natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{Config: persist.Config{Lane: -1}}, nil).Run)()
	must.Do(t, faulttest.Settle(t.Context(), conn))
}

// TestWhatIsDealtWithMeanwhile: what a persister deals with between the reading of events and that of records, or of letters, ends in what
// is restored as it did: refused, removed or applied, and once.
func TestWhatIsDealtWithMeanwhile(t *testing.T) {
	for _, at := range []string{"behind the events", "behind the records", "among the letters"} {
		t.Run(at, func(t *testing.T) {
			src, ctx := natstest.Conn(t), t.Context()
			to := src
			event := func(name, producer string, seq uint64, kind events.Kind, body []byte) *events.Event {
				session, thread, _ := strings.Cut(name, "/")
				e := &events.Event{Kind: kind, Thread: events.Thread{Session: session, Name: thread}, Producer: producer, Seq: seq, Body: body}
				if kind == events.KindEntry {
					e.Dialect = "omp"
				}
				return e
			}
			publish := func(name, producer string, seq uint64, kind events.Kind, body []byte) {
				must.Do(t, to.Events().PublishEvents(ctx, []*events.Event{event(name, producer, seq, kind, body)}))
			}
			control := func(name, producer string, op events.Control) {
				publish(name, producer, 1, events.KindControl, op.Encode())
			}
			for i, name := range []string{"ended/main", "deleted/main", "renamed/main", "linked/main"} {
				publish(name, "p", 1, events.KindEntry, line(i))
			}
			remove := events.Control{Op: events.OpRemove, Remove: &events.Remove{}} // there is no thread
			control("before/main", "remove", remove)
			publish("before/main", "p", 1, events.KindEntry, line(6))
			large := events.Event{Kind: events.KindEntry, Dialect: "cobol", Thread: events.Thread{Session: "bad", Name: "main"},
				Producer: "p", Seq: 1}
			large.Body = bytes.Repeat([]byte("x"), src.MaxPayload()-4000) // its letter is an object
			must.Get(src.JetStream().Publish(ctx, events.EventSubject(large.Thread, large.Kind), large.Encode()))(t)
			workOff(t, src)

			control("ended/main", "end", events.Control{Op: events.OpEnd, End: &events.End{}})
			publish("ended/main", "p", 2, events.KindEntry, line(3))
			publish("deleted/main", "p", 2, events.KindEntry, line(4))
			control("deleted/main", "delete", events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}})
			publish("renamed/main", "p", 2, events.KindEntry, line(5))
			control("renamed/main", "rename", events.Control{Op: events.OpRename, Rename: &events.Rename{To: "other"}})
			control("meanwhile/main", "remove", remove)
			publish("meanwhile/main", "p", 1, events.KindEntry, line(7))
			nobodys := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: "linked", Thread: "nobody", Whole: true}}
			must.Do(t, src.Events().PublishEvents(ctx, []*events.Event{
				event("linked/main", "p", 2, events.KindControl, nobodys.Encode()),
				event("linked/main", "p", 3, events.KindEntry, line(8)),
			}))
			publish("large/main", "p", 1, events.KindEntry, fmt.Appendf(nil, `{"type":"custom","text":"%s"}`, bytes.Repeat([]byte("y"), 2<<20)))

			repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
			worked := false
			m, err := backup.Create(ctx, src, repo, func(p backup.Progress) {
				if !worked && (at == "behind the events" || at == "behind the records" && p.All > 0 || p.Bytes > 5<<19) {
					worked = true // the letter is copied behind the large body
					workOff(t, src)
				}
			})
			if err != nil || !worked {
				t.Fatalf("Create = %v, worked meanwhile: %v", err, worked)
			}
			dst := natstest.Dial(t, natstest.Server(t))
			must.Do(t, backup.Restore(ctx, dst, repo, m, natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}, nil))
			to = dst
			control("before/main", "remove", remove)
			workOff(t, dst)
			checkDealt(t, dst)
		})
	}
}

func checkDealt(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	s := &system{conn, client.New(conn)}
	for name, want := range map[string]int{"ended/main": 1, "renamed/other": 2, "large/main": 1, "before/main": 1, "meanwhile/main": 1,
		"linked/main": 2} {
		session, thread, _ := strings.Cut(name, "/")
		must.Same(t, bytes.Count(s.export(t, events.Thread{Session: session, Name: thread}), []byte("\n")), want,
			"%s has %d entries, want %d", name)
	}
	if _, err := s.Thread(events.Thread{Session: "deleted", Name: "main"}).Head(t.Context()); !errors.Is(err, threads.ErrNoThread) {
		t.Errorf("the deleted session: %v, want ErrNoThread", err)
	}
	dead, err := s.EverySession().DeadLetters(t.Context())
	got := map[string]int{}
	for _, d := range dead {
		got[d.Thread.Session]++
	}
	// What is published again behind a refusal is refused, too, as it would be in the system that was copied.
	if want := map[string]int{"ended": 1, "bad": 1, "before": 2, "meanwhile": 1, "linked": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("dead letters %v, %v, want %v", got, err, want)
	}
	acc, err := fsck.Account(t.Context(), natsadmin.Of(conn), s.Internal().Source())
	if err != nil || len(acc.Findings) > 0 {
		t.Errorf("accounts: %v, %v", acc, err)
	}
}

// TestRefusedAndNotYetALetter: what a commit refused whose letter was not out when the backup read the letters is a
// dead letter of the restored system, once and for the same reason; what else its message has is there once.
func TestRefusedAndNotYetALetter(t *testing.T) {
	for _, out := range []int{0, 1, 2} { // letters that were out
		t.Run(fmt.Sprint(out), func(t *testing.T) {
			src, ctx := natstest.Conn(t), t.Context()
			entry := func(seq uint64, dialect string) client.Entry {
				th := events.Thread{Session: "s", Name: "main"}
				return client.Entry{Thread: th, Dialect: dialect, Body: line(int(seq)), Seq: seq}
			}
			pub := client.New(src).Publisher(client.PublisherConfig{Producer: "p"})
			must.Get(pub.Publish(ctx, entry(1, "omp"), entry(2, "cobol"), entry(3, "omp"), entry(4, "cobol")))(t)
			must.Get(pub.Publish(ctx, entry(5, "cobol")))(t)
			workOff(t, src)
			want := map[string]int{}
			var at []uint64
			must.Do(t, src.DeadLetters().EachLetter(ctx, events.Thread{}, func(d natsio.DeadLetter) error {
				want[d.Reason]++
				at = append(at, d.At)
				return nil
			}))
			if len(at) != 3 {
				t.Fatalf("%d dead letters, want 3", len(at))
			}
			dead := must.Get(src.JetStream().Stream(ctx, events.DeadStream))(t)
			for _, at := range at[out:] {
				must.Do(t, dead.DeleteMsg(ctx, at))
			}
			resetPartitions(t, src)
			repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
			m := must.Get(backup.Create(ctx, src, repo, nil))(t)
			dst := natstest.Dial(t, natstest.Server(t))
			must.Do(t, backup.Restore(ctx, dst, repo, m, natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}, nil))
			workOff(t, dst)
			got := map[string]int{}
			must.Do(t, dst.DeadLetters().EachLetter(ctx, events.Thread{}, func(d natsio.DeadLetter) error {
				got[d.Reason]++
				return nil
			}))
			if !maps.Equal(got, want) {
				t.Errorf("the dead letters are %v, want %v", got, want)
			}
			s := &system{dst, client.New(dst)}
			must.Same(t, bytes.Count(s.export(t, events.Thread{Session: "s", Name: "main"}), []byte("\n")), 2,
				"the thread has %d entries, want %d")
			checkSound(t, dst)
		})
	}
}

// resetPartitions has every event come again: none was acknowledged.
func resetPartitions(t *testing.T, conn *natsio.Conn) {
	t.Helper()
	for p := range events.Partitions {
		must.Get(conn.JetStream().ResetConsumerToSequence(t.Context(), events.EventsStream, events.PartitionConsumer(p), 1))(t)
	}
}
