//go:build linux

package faults_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// damage is done to one file of the server's while it is down.
type damage struct {
	stream string
	file   string // below the stream's directory
	what   string
	do     func(b []byte) []byte
	then   outcome
}

// outcome is what becomes of a damage.
type outcome int

const (
	harmless outcome = iota // nothing is missing
	mended                  // fsck names what is missing, and makes it again, but for the meta message of an object, which no reader needs
	older                   // a record may be missing, and the thread be as it was before, or gone
	refused                 // nothing starts on it, and what is wrong is said
	stuck                   // the server reads for ever, which is said; without the stream's index it starts, and then it is as mended
)

func flip(at float64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[min(int(at*float64(len(b))), len(b)-1)] ^= 0x10
		return b
	}
}

// Where a record of a block has what: 4 bytes of length, 8 of sequence and 8 of time, low bytes first, 2 of the subject's length; the
// subject, the data, and a checksum of 8 bytes over all but the lengths.
const (
	lengthHigh   = 3
	sequenceHigh = 11
	recordData   = -9 // counted from the end: the last byte of the data
	recordSum    = -1
)

// flipIn flips a bit of one record: which is its place among all, from 0 to 1, at the byte in it.
func flipIn(which float64, at int) func([]byte) []byte {
	return func(b []byte) []byte {
		var starts []int
		end := 0
		for end+22 <= len(b) {
			starts = append(starts, end)
			end += int(binary.LittleEndian.Uint32(b[end:]) &^ (1 << 31)) // the highest bit says that there are headers
		}
		if len(starts) == 0 || end != len(b) {
			panic(fmt.Sprintf("a block of %d bytes has %d records up to byte %d", len(b), len(starts), end))
		}
		starts = append(starts, end)
		i := min(int(which*float64(len(starts)-1)), len(starts)-2)
		if at < 0 {
			at += starts[i+1]
		} else {
			at += starts[i]
		}
		b[at] ^= 0x10
		return b
	}
}

// gone is a file that is not there.
func gone([]byte) []byte { return nil }

func cutAt(at float64) func([]byte) []byte {
	return func(b []byte) []byte { return b[:int(at*float64(len(b)))] }
}

// TestRot damages one file of the server's at a time, while it is down: bits flip, an end is cut off. Whatever the server makes of it,
// nobody is given anything wrong: a thread is read as it was, from its beginning to where something is missing. fsck finds and
// names what nodes have lost, and makes again what SPOOL_EVENTS has.
func TestRot(t *testing.T) {
	w := serving(t)
	persister := w.fleet()
	l := faulttest.NewLedger(small())
	must.Do(t, l.Publish(t.Context(), client.New(w.dial()), 200))
	w.check(l)
	whole := w.items(l)
	persister.Stop()
	w.server.Stop()
	const block = "msgs/1.blk"
	nodes := events.ObjectStream(events.NodesBucket)
	for _, d := range []damage{
		{nodes, block, "data of the first record flipped", flipIn(0, recordData), mended},
		{nodes, block, "data of a record in the middle flipped", flipIn(0.5, recordData), mended},
		{nodes, block, "length of a record in the middle flipped", flipIn(0.5, lengthHigh), mended},
		{nodes, block, "checksum of the last record flipped", flipIn(1, recordSum), mended},
		{nodes, block, "end cut off", cutAt(0.6), mended},
		{nodes, "meta.inf", "a bit flipped", flip(0.5), refused},
		{nodes, "msgs/index.db", "a bit flipped", flip(0.5), harmless},
		{nodes, block, "sequence of a record in the middle flipped", flipIn(0.5, sequenceHigh), stuck},
		{events.RecordsStream, block, "data of a record in the middle flipped", flipIn(0.5, recordData), older},
		{events.RecordsStream, block, "checksum of the last record flipped", flipIn(1, recordSum), older},
		{events.RecordsStream, block, "end cut off", cutAt(0.6), older},
		{events.EventsStream, block, "data of a record in the middle flipped", flipIn(0.5, recordData), harmless},
		{events.EventsStream, "obs/p1/o.dat", "a bit flipped", flip(0.5), harmless},
		{events.EventsStream, "obs/p1/meta.inf", "a bit flipped", flip(0.5), refused},
		{nodes, "msgs/index.db", "gone", gone, harmless},
		{events.RecordsStream, "msgs/index.db", "gone", gone, harmless},
		{events.EventsStream, "obs/p1/o.dat", "gone", gone, harmless},
		{events.EventsStream, "obs/p1/meta.inf", "gone", gone, harmless},
		{nodes, "meta.inf", "gone", gone, refused},
		{events.RecordsStream, "meta.inf", "gone", gone, refused},
		{events.RecordsStream, "meta.sum", "gone", gone, refused},
	} {
		t.Run(fmt.Sprintf("%s %s %s", d.stream, d.file, d.what), func(t *testing.T) { w.rot(t, l, whole, d) })
	}
}

// rot is one damage, on a copy of a world's files.
func (w *world) rot(t *testing.T, l *faulttest.Ledger, whole map[events.Thread][][]byte, d damage) {
	base := w.data
	there := newWorld(t)
	there.data = filepath.Join(there.dir, "jetstream") // as spool up has it, for stuck
	must.Do(t, os.CopyFS(there.data, os.DirFS(base)))
	file := filepath.Join(there.data, "jetstream", "$G", "streams", d.stream, d.file)
	b := must.Get(os.ReadFile(file))(t)
	must.Do(t, os.WriteFile(file, d.do(b), 0o600))
	if d.then == stuck {
		there.stuck(d.stream)
		must.Do(t, os.Remove(filepath.Join(filepath.Dir(file), "index.db")))
		d.then = mended
	}
	there.server = there.start("nats-server", "-c", there.configure())
	there.server.Await("Server is ready")
	if d.then == refused {
		if out, code := there.run("persister"); code != 1 || !strings.Contains(out, d.stream) {
			t.Errorf("persister: exit code %d, want 1 and the name of the stream\n%s", code, out)
		}
		return
	}
	short := there.compare(l, whole)
	out, code := there.run("spool", "fsck")
	switch {
	case d.then == harmless && (short || code != 0):
		t.Errorf("something is missing; fsck: exit code %d\n%s", code, out)
	case d.then == mended && (code != 1 || !strings.Contains(out, "pack.")):
		t.Errorf("fsck: exit code %d, want 1 and what is missing\n%s", code, out)
	}
	there.persister()
	if d.then != mended {
		return
	}
	for range 4 { // what one pass makes another may need
		if out, code = there.run("spool", "fsck", "--repair", "--yes"); code == 0 {
			break
		}
	}
	if there.compare(l, whole) {
		t.Errorf("fsck --repair: exit code %d, and not all is there\n%s", code, out)
	}
}

// stuck starts a server, in a process that says which stream it reads, and kills it once that is said: it does not end,
// and its memory grows up to the limit.
func (w *world) stuck(stream string) {
	w.t.Helper()
	up := w.command("spool", "up", "--data", w.dir, "--listen", w.nats, "--http", w.http)
	up.Args = append([]string{"sh", "-c", `ulimit -v 8000000 && exec "$0" "$@"`, up.Path}, up.Args[1:]...)
	up.Path = "/bin/sh"
	up.Env = slices.DeleteFunc(up.Env, func(v string) bool { return strings.HasPrefix(v, "NATS_URL=") })
	p := proc.Start(w.t, up)
	p.Await("streams=[" + stream + "]")
	p.Kill()
	if strings.Contains(p.Log(), "Spool is up.") {
		w.t.Error("the server starts: this row, and what docs say about servers that do not, can go")
	}
}

// compare holds what can be read against what was there. It reports whether something is missing; what is there must be the same.
func (w *world) compare(l *faulttest.Ledger, whole map[events.Thread][][]byte) (short bool) {
	w.t.Helper()
	now := w.items(l)
	for id, was := range whole {
		got := now[id]
		for i, item := range got {
			if i >= len(was) || !bytes.Equal(item, was[i]) {
				w.t.Errorf("%s: item %d of %d is %.200s", id, i+1, len(was), item)
				break
			}
		}
		short = short || len(got) < len(was)
	}
	return short
}

// items reads what the nodes give of each thread, up to the first error.
func (w *world) items(l *faulttest.Ledger) map[events.Thread][][]byte {
	c := client.New(w.dial())
	all := map[events.Thread][][]byte{}
	for _, session := range l.Sessions() {
		for _, name := range []string{"main", "t1"} {
			id := events.Thread{Session: session, Name: name}
			all[id] = nil
			head, err := c.Thread(id).Head(w.t.Context())
			if err != nil {
				continue
			}
			for item, err := range c.Thread(id).ItemsFrom(w.t.Context(), head, 1) {
				if err != nil {
					break
				}
				all[id] = append(all[id], bytes.Clone(item.Data))
			}
		}
	}
	return all
}
