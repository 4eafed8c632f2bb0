package fsck_test

import (
	"encoding/base64"
	"slices"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/events"
)

// tear takes from a pack its last chunk and its name, as a disk does that lost the end of a file.
func (w *world) tear(key string) {
	w.Helper()
	rs := must.Get(w.conn.Records().Records(w.Context(), key))(w)
	o := must.Get(record.DecodePack(rs[0].Value))(w).Object
	s := must.Get(w.conn.JetStream().Stream(w.Context(), events.ObjectStream(o.Bucket)))(w)
	for _, subject := range []string{"$O." + o.Bucket + ".C." + o.NUID, "$O." + o.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(o.Name))} {
		last := must.Get(s.GetLastMsgForSubject(w.Context(), subject))(w)
		must.Do(w, s.DeleteMsg(w.Context(), last.Sequence))
	}
}

// What a pack held that lost its end is made again together with what a newer one held that is gone. Then nothing needs the torn one.
func TestRepairOfATornPackBehindALostOne(t *testing.T) {
	w := newWorld(t)
	for i := range 12 {
		w.steps(thA, 3*i+1, 3*i+3)
		w.settle()
	}
	want := w.texts()
	path := w.path(thA)
	w.stop()
	lost := len(path) - 4
	older := events.PackKey(path[lost].Pack.String())
	var gone []string
	for _, l := range path[:lost] {
		gone = append(gone, events.PackKey(l.Pack.String()))
	}
	if slices.Contains(gone, older) {
		t.Fatal("the packs are not apart: nothing is tried here")
	}
	w.tear(older)
	if rep := w.check(); len(rep.Findings) == 0 {
		t.Error("a torn pack that a thread needs is no finding")
	}
	for _, r := range must.Get(w.conn.Records().Records(w.Context(), slices.Compact(gone)...))(w) {
		must.Do(w, w.conn.Objects().Reclaim(w.Context(), must.Get(record.DecodePack(r.Value))(w).Object))
	}
	rep := must.Get(fsck.Fix(w.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(w)
	for _, r := range rep.Repairs {
		t.Logf("%+v", r)
	}
	if got := w.texts(); got[thA] != want[thA] {
		t.Errorf("the thread is %q, want %q", got[thA], want[thA])
	}
	w.wantClean()
}
