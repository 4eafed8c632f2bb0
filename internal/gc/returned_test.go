package gc_test

import (
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/events"
)

// returned counts the packs that have moved and whose records are live, and the blobs that have a live record and no bytes.
func (r *rig) returned() (packs, blobs int) {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	for _, one := range r.bulk() {
		if id, ok := strings.CutPrefix(one.Key, events.PackKey("")); ok {
			p, err := record.DecodePack(one.Value)
			must(err)
			moved, err := r.conn.Records(r.t.Context(), events.MovedKey(id))
			must(err)
			if !p.Gone && moved[0].Exists() {
				packs++
			}
			continue
		}
		b, err := record.DecodeBlob(one.Value)
		must(err)
		there, err := r.conn.Holds(r.t.Context(), b.Object)
		must(err)
		if !there && !b.Gone {
			blobs++
		}
	}
	return packs, blobs
}

// bulk lists the records of packs and blobs.
func (r *rig) bulk() (all []record.Record) {
	r.t.Helper()
	for _, filter := range []string{events.PackKey("*"), events.BlobKey("*")} {
		some, err := r.conn.List(r.t.Context(), filter)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// A server that is killed brings records back: of a subject that keeps one message it forgets on the disk only those that were deleted
// by name, not those that a newer one took the place of; when that is deleted, and the block that had it is compacted, the old one is
// the newest. Nobody is misled by it: neither readers, nor who would store the same bytes again, nor fsck, scrub and gc, which ends it.
func TestRecordsThatAServerBringsBack(t *testing.T) {
	r := newRig(t)
	defer r.persister(4)()
	r.say(th("drop"), image("picture", 1), image("other", 2))
	for range 4 {
		r.publish(said{th("drop"), talk(6, "drop")}, said{th("keep"), talk(6, "keep")})
		r.await(th("keep"))
	}
	if err := faulttest.Settle(t.Context(), r.conn); err != nil {
		t.Fatal(err)
	}
	r.remove(th("drop"))
	before := r.bulk()
	cfg := brave()
	cfg.Merge, cfg.Follow = 2, 1<<50
	for range 4 { // condemn, repack, forget
		r.collect(cfg)
	}
	if packs, blobs := r.returned(); packs+blobs != 0 {
		t.Fatalf("%d packs and %d blobs are back before anything", packs, blobs)
	}

	// What a kill does (docs/adr/0022), done by hand: in a server it takes blocks of megabytes.
	for _, one := range before {
		if now, err := r.conn.Records(t.Context(), one.Key); err != nil || now[0].Exists() {
			continue // it is as it was, or has a tombstone still
		}
		if _, err := r.conn.Write(t.Context(), record.Put{Key: one.Key, Value: one.Value, Expect: record.Any}); err != nil {
			t.Fatal(err)
		}
	}
	packs, blobs := r.returned()
	if t.Logf("back: %d packs, %d blobs", packs, blobs); packs == 0 || blobs == 0 {
		t.Fatal("nothing of it is back: nothing is tried here")
	}
	r.verify(th("keep"))
	check := func() int {
		t.Helper()
		rep, err := fsck.Check(t.Context(), r.conn, fsck.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rep.Findings {
			if f.Record != events.HeadKey(th("drop")) { // which this test removed in its own way
				t.Errorf("fsck: %s", f)
			}
		}
		return rep.Returned
	}
	if n := check(); n < packs+blobs {
		t.Errorf("fsck sees %d records that are back, want %d", n, packs+blobs)
	}
	if p, err := scrub.Scrub(t.Context(), r.conn, scrub.Config{}); err != nil || p.Found > 0 {
		t.Errorf("scrub: %+v, %v", p, err)
	}
	r.say(th("keep"), talk(3, "more")...)
	r.say(th("again"), image("picture", 1), image("other", 2))
	r.verify(th("keep"))
	r.verify(th("again"))
	for range 3 {
		r.collect(cfg)
	}
	if packs, blobs := r.returned(); packs+blobs != 0 {
		t.Errorf("%d packs and %d blobs are still back after gc", packs, blobs)
	}
	r.verify(th("keep"))
	r.verify(th("again"))
	if n := check(); n != 0 {
		t.Errorf("fsck sees %d records that are back after gc", n)
	}
}
