package backup_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"spool/internal/backup"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/client"
)

var smallLimits = natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}

// behindWire is a connection by a wire, of one who waits little for an answer.
func behindWire(t *testing.T, w *faulttest.Wire) *natsio.Conn {
	t.Helper()
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: w, Timeout: 500 * time.Millisecond}))(t)
	t.Cleanup(conn.Close)
	return conn
}

// smallBackup is a backup of a thread with an entry.
func smallBackup(t *testing.T) (*backup.Repository, backup.Manifest) {
	t.Helper()
	src := work(t, natstest.Conn(t))
	pub := src.Publisher(client.PublisherConfig{Producer: "p"})
	must.Get(pub.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "omp", Body: line(0), Seq: 1}))(t)
	src.await(t, thread(0), "p", 1)
	repo := must.Get(backup.Open(filepath.Join(t.TempDir(), "b"), true))(t)
	return repo, must.Get(backup.Create(t.Context(), src.conn, repo, nil))(t)
}

// A restore asks again what a busy server leaves unanswered: what it holds, that it makes a stream, and that the store is whole.
func TestRestoreAsksAgain(t *testing.T) {
	repo, m := smallBackup(t)
	for _, class := range []string{faulttest.Any, "create kv_spool", "create events", "update kv_spool"} {
		for _, mode := range []faulttest.Mode{faulttest.Drop, faulttest.Lose} {
			fault := faulttest.Fault{Mode: mode, Class: class, K: 1}
			t.Run(fault.String(), func(t *testing.T) {
				server := natstest.Server(t)
				w := faulttest.NewWire(server, fault)
				must.Do(t, backup.Restore(t.Context(), behindWire(t, w), repo, m, smallLimits, nil))
				must.Receive(t, w.Fired(), "the fault has not happened")
				conn := natstest.Dial(t, server)
				must.Do(t, conn.Ensure(t.Context(), smallLimits))
				checkSound(t, conn)
			})
		}
	}
}

// Only a restore that has begun to write says that a part may be there.
func TestPartOfARestore(t *testing.T) {
	repo, m := smallBackup(t)
	large, copies := smallLimits, smallLimits
	large.ItemsBytes, copies.Replicas = 1<<50, 3
	for _, c := range []struct {
		what   string
		fault  faulttest.Fault
		limits natsio.Limits
		part   bool
	}{
		{"nothing answers", faulttest.Fault{Mode: faulttest.Drop, Class: faulttest.Any, K: 1, Every: true}, smallLimits, false},
		{"one server for three copies", faulttest.Fault{}, copies, false},
		{"no room for items", faulttest.Fault{}, large, true},
		{"a record is not answered", faulttest.Fault{Mode: faulttest.Drop, Class: "record thread", K: 1, Every: true}, smallLimits, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := faulttest.NewWire(natstest.Server(t), c.fault)
			err := backup.Restore(t.Context(), behindWire(t, w), repo, m, c.limits, nil)
			if err == nil || errors.Is(err, backup.ErrPart) != c.part {
				t.Errorf("Restore() = %v; may a part be there: want %v", err, c.part)
			}
		})
	}
}
