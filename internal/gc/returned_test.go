package gc_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/internal/scrub"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// returned counts the packs that have moved and whose records are live, and the blobs that have a live record and no bytes.
func (r *rig) returned() (packs, blobs int) {
	r.t.Helper()
	for _, one := range r.bulk() {
		if id, ok := strings.CutPrefix(one.Key, events.PackKey("")); ok {
			p := must.Get(record.DecodePack(one.Value))(r.t)
			moved := must.Get(r.conn.Records().Records(r.t.Context(), events.MovedKey(id)))(r.t)
			if !p.Gone && moved[0].Exists() {
				packs++
			}
			continue
		}
		b := must.Get(record.DecodeBlob(one.Value))(r.t)
		there := must.Get(r.conn.Objects().Holds(r.t.Context(), b.Object))(r.t)
		if !there && !b.Gone {
			blobs++
		}
	}
	return packs, blobs
}

func (r *rig) bulk() (all []record.Record) {
	r.t.Helper()
	for _, filter := range []string{events.PackKey("*"), events.BlobKey("*")} {
		some := must.Get(r.conn.Records().List(r.t.Context(), filter))(r.t)
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
	must.Do(t, faulttest.Settle(t.Context(), r.conn))
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
		if now, err := r.conn.Records().Records(t.Context(), one.Key); err != nil || now[0].Exists() {
			continue // it is as it was, or has a tombstone still
		}
		must.Get(r.conn.Records().Write(t.Context(), record.Put{Key: one.Key, Value: one.Value, Expect: record.Any}))(t)
	}
	packs, blobs := r.returned()
	if t.Logf("back: %d packs, %d blobs", packs, blobs); packs == 0 || blobs == 0 {
		t.Fatal("nothing of it is back: nothing is tried here")
	}
	r.verify(th("keep"))
	check := func() int {
		t.Helper()
		rep := must.Get(fsck.Check(t.Context(), natsadmin.Of(r.conn), fsck.Config{}))(t)
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
	if p, err := scrub.Scrub(t.Context(), natsadmin.Of(r.conn), scrub.Config{}); err != nil || p.Found > 0 {
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
	must.Same(t, check(), 0, "fsck sees %d records that are back after gc, want %d")
}

// Records come back after everything about them was forgotten, in any mixture: of a pack that was moved and whose moved
// record is gone, and of packs with bytes that refer to it. Nobody needs them: fsck counts them, gc explains and removes them.
func TestRecordsThatComeBackAlone(t *testing.T) {
	r := newRig(t)
	stop := r.persister(0)
	for i := 0; i < 3 || !r.sharePack(th("drop"), th("keep")); i++ {
		r.publish(said{th("drop"), talk(6, fmt.Sprint("drop", i))}, said{th("keep"), talk(6, fmt.Sprint("keep", i))})
		r.await(th("keep"))
	}
	r.say(th("drop"), talk(3, "of its own")...)
	must.Do(t, faulttest.Settle(t.Context(), r.conn))
	head := must.Get(r.Thread(th("drop")).Head(t.Context()))(t)
	must.Get(r.Session("drop").Delete(t.Context(), client.Deletion{}))(t)
	stop()
	before := map[string]record.Record{}
	for _, one := range r.bulk() {
		before[one.Key] = one
	}
	cfg := brave()
	cfg.Merge = 2
	for range 4 { // condemn, repack, forget, forget where it moved to
		r.collect(cfg)
	}
	own := events.PackKey(head.Head().Pack.String())
	gone := ""
	for key := range before {
		now := must.Get(r.conn.Records().Records(t.Context(), key, events.MovedKey(strings.TrimPrefix(key, events.PackKey("")))))(t)
		if !now[0].Exists() && !now[1].Exists() && key != own && strings.HasPrefix(key, events.PackKey("")) {
			gone = key
		}
	}
	if gone == "" {
		t.Fatal("no pack was forgotten: nothing is tried here")
	}
	// The thread's own pack comes back with bytes, as from a quarantine, and refers to what has none.
	r.put(gone, before[gone].Value)
	b := casstore.NewPackBuilder()
	left := casstore.Node{Type: "later", Payload: casstore.AppendText(nil, []byte("left")), Refs: []casstore.Ref{head.Start.Ref}}
	b.AddNode(&left)
	at := must.Get(casstore.ParsePackID(strings.TrimPrefix(gone, events.PackKey(""))))(t)
	b.Locate(casstore.Located{Ref: head.Start.Ref, Pack: at})
	header, body := must.Two(b.Finish())(t)
	id := casstore.PackID{7}
	p := must.Get(r.conn.Store(0).UploadPack(t.Context(), id, header, body))(t)
	r.put(events.PackKey(id.String()), p.Encode())

	rep, err := fsck.Check(t.Context(), natsadmin.Of(r.conn), fsck.Config{})
	if err != nil || len(rep.Findings) > 0 || rep.Returned == 0 {
		t.Errorf("fsck: %+v, %v, want no finding and what is back counted", rep, err)
	}
	if _, err := r.collector(cfg, nil).Plan(t.Context()); err != nil { // which makes it old, as what comes back is
		t.Fatal(err)
	}
	for _, name := range []string{at.String(), id.String()} {
		e, err := r.collector(cfg, nil).Explain(t.Context(), name)
		want := map[bool]string{true: "returned", false: "garbage"}[name == at.String()]
		if err != nil || e.State != want {
			t.Errorf("Explain(%s) = %+v, %v, want %s", name, e, err, want)
		}
		t.Logf("%+v", e)
	}
	if e, err := r.collector(cfg, nil).Explain(t.Context(), head.Head().Ref.String()); err != nil || e.State != "missing" {
		t.Errorf("Explain of what is gone = %+v, %v", e, err)
	}
	for range 2 {
		r.collect(cfg)
	}
	if rep, err = fsck.Check(t.Context(), natsadmin.Of(r.conn), fsck.Config{}); err != nil || len(rep.Findings) > 0 || rep.Returned > 0 {
		t.Errorf("fsck after gc: %+v, %v", rep, err)
	}
	r.verify(th("keep"))
}
