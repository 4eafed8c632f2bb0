package fsck_test

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/embedded"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// exports gives every thread that is listed as it reads; nil for one that is an error.
func exports(t *testing.T, cl *client.Client) map[events.Thread][]byte {
	t.Helper()
	all, err := cl.EverySession().Threads(t.Context())
	if err != nil {
		return nil // the listing itself says that something is wrong
	}
	out := map[events.Thread][]byte{}
	for _, th := range all {
		var b bytes.Buffer
		if _, err := cl.Thread(th.Thread).Export(t.Context(), &b); err == nil {
			out[th.Thread] = b.Bytes()
		}
	}
	return out
}

// A byte of a stored chunk, or of a record, that rots in a block file while the server is down is never part of what anybody
// reads: a thread reads as it was, or is an error. What rots in packs and blobs is found. Bytes of the server's own framing are
// its own matter.
func TestRotOnDisk(t *testing.T) {
	dir := t.TempDir()
	var want map[events.Thread][]byte
	stored := map[string][][]byte{} // by stream
	t.Run("write", func(t *testing.T) {
		w := newWorldIn(t, dir)
		w.fill()
		want = exports(t, w.cl)
		w.stop()
		for stream, filter := range map[string]string{"OBJ_spool_nodes": events.PackKey("*"),
			"OBJ_spool_blobs": events.BlobKey("*"), "KV_spool": ">"} {
			rs := must.Get(w.conn.Records().List(t.Context(), filter))(w)
			for _, r := range rs {
				if stream == "KV_spool" {
					stored[stream] = append(stored[stream], r.Value)
					continue
				}
				o := w.object(r)
				must.Do(w, w.conn.Objects().ReadChunks(t.Context(), o, 0,
					func(b []byte) error { stored[stream] = append(stored[stream], bytes.Clone(b)); return nil }))
			}
		}
	})
	if len(want) != 3 {
		t.Fatalf("%d threads, want 3", len(want))
	}
	flips := 4 // of each stream; SPOOL_TEST_BIG=1 makes more
	if os.Getenv("SPOOL_TEST_BIG") == "1" {
		flips = 150
	}
	rng := rand.New(rand.NewPCG(4, 2))
	for stream, chunks := range stored {
		for range flips {
			chunk := chunks[rng.IntN(len(chunks))]
			rotten(t, dir, stream, chunk, rng.IntN(len(chunk)), want)
		}
	}
}

// object is what a pack's or a blob's record names.
func (w *world) object(r record.Record) record.Object {
	w.Helper()
	if p, err := record.DecodePack(r.Value); strings.HasPrefix(r.Key, events.PackKey("")) {
		must.Do(w, err)
		return p.Object
	}
	b := must.Get(record.DecodeBlob(r.Value))(w)
	return b.Object
}

// place finds where a stream's message blocks hold some bytes.
func place(t *testing.T, dir, stream string, chunk []byte) (file string, at int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".blk" || !strings.Contains(path, string(filepath.Separator)+stream+string(filepath.Separator)) {
			return err
		}
		raw, err := os.ReadFile(path)
		if i := bytes.LastIndex(raw, chunk); i >= 0 {
			file, at = path, i
		}
		return err
	})
	if err != nil || file == "" {
		t.Fatalf("%d bytes of %s are in no block: %v", len(chunk), stream, err)
	}
	return file, at
}

// rotten starts a server on a copy in which one byte of a chunk is another, and looks.
func rotten(t *testing.T, dir, stream string, chunk []byte, byte int, want map[events.Thread][]byte) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	must.Do(t, os.CopyFS(copied, os.DirFS(dir)))
	file, at := place(t, copied, stream, chunk)
	raw := must.Get(os.ReadFile(file))(t)
	raw[at+byte] ^= 1 << (byte % 8)
	must.Do(t, os.WriteFile(file, raw, 0o600))
	srv, err := embedded.Start(embedded.Config{Dir: copied})
	if err != nil {
		return // the server says so
	}
	defer srv.Stop()
	conn := must.Get(natsio.Dial(t.Context(), natsio.Config{InProcess: srv, Timeout: time.Second}))(t)
	defer conn.Close()
	for id, b := range exports(t, client.New(conn)) {
		if !bytes.Equal(b, want[id]) {
			t.Errorf("%s: byte %d of %d flipped: %s reads as something else", stream, byte, len(chunk), id)
		}
	}
	rep, err := fsck.Check(t.Context(), natsadmin.Of(conn), fsck.Config{})
	if err == nil && len(rep.Findings) == 0 && stream != "KV_spool" { // a record that rotted the server leaves out, like one that never was
		t.Errorf("%s: byte %d of %d flipped, and fsck finds nothing", stream, byte, len(chunk))
	}
}

// Somebody who may write to the object buckets cannot make another thread of one: changed chunks, other chunks under the same
// name, and meta messages that lie are found, and nothing of them is returned.
func TestHostileWriter(t *testing.T) {
	for name, attack := range map[string]func(w *world, js jetstream.JetStream, o record.Object, chunks [][]byte){
		"a chunk replaced": func(w *world, js jetstream.JetStream, o record.Object, chunks [][]byte) {
			s := must.Get(js.Stream(w.Context(), "OBJ_"+o.Bucket))(w)
			must.Do(w, s.DeleteMsg(w.Context(), o.First+1))
			w.publish(js, "$O."+o.Bucket+".C."+o.NUID, flip(chunks[1], len(chunks[1])/2))
		},
		"all chunks replaced": func(w *world, js jetstream.JetStream, o record.Object, chunks [][]byte) {
			s := must.Get(js.Stream(w.Context(), "OBJ_"+o.Bucket))(w)
			subject := "$O." + o.Bucket + ".C." + o.NUID
			must.Do(w, s.Purge(w.Context(), jetstream.WithPurgeSubject(subject)))
			for _, c := range chunks {
				w.publish(js, subject, flip(c, len(c)-1))
			}
		},
		"a chunk removed": func(w *world, js jetstream.JetStream, o record.Object, _ [][]byte) {
			s := must.Get(js.Stream(w.Context(), "OBJ_"+o.Bucket))(w)
			must.Do(w, s.DeleteMsg(w.Context(), o.First))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id, _ := w.fill()
			w.stop()
			head := must.Get(w.cl.Thread(id).Head(t.Context()))(w)
			key := events.PackKey(head.Recent[4].Pack.String())
			rs := must.Get(w.conn.Records().Records(t.Context(), key))(w)
			p := must.Get(record.DecodePack(rs[0].Value))(w)
			var chunks [][]byte
			must.Do(w, w.conn.Objects().ReadChunks(t.Context(), p.Object, 0,
				func(b []byte) error { chunks = append(chunks, bytes.Clone(b)); return nil }))
			attack(w, w.conn.JetStream(), p.Object, chunks)

			fresh := client.New(w.conn)
			if got := exports(t, fresh); got[id] != nil {
				t.Errorf("%s reads as %q", id, got[id])
			}
			if err := threads.Verify(t.Context(), fresh.Reader(), head); err == nil {
				t.Error("Verify finds nothing")
			}
			rep := w.check()
			found := map[string]bool{}
			for _, f := range rep.Findings {
				found[f.Record] = true
			}
			if !found[key] || !found[events.HeadKey(id)] {
				t.Errorf("findings = %v, want some at %s and %s", rep.Findings, key, events.HeadKey(id))
			}
		})
	}
}

func (w *world) publish(js jetstream.JetStream, subject string, data []byte) {
	w.Helper()
	must.Get(js.Publish(w.Context(), subject, data))(w)
}

// newWorldIn is newWorld on a directory that stays.
func newWorldIn(t *testing.T, dir string) *world {
	conn := natstest.Dial(t, natstest.ServerIn(t, dir))
	must.Do(t, conn.Ensure(t.Context(), natsio.Limits{EventsBytes: 1 << 28, ItemsBytes: 1 << 28}))
	return runWorld(t, conn)
}
