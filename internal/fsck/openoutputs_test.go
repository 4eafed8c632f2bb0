package fsck_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// What an open output has is looked at: the parts of its artifact, and what follows them.
func TestLostPartsOfAnOpenOutput(t *testing.T) {
	w := newWorld(t)
	id := events.Thread{Session: "s", Name: "main"}
	o := must.Get(w.cl.Thread(id).Output(t.Context(), client.OutputConfig{ID: "o", Lease: time.Hour}))(t)
	must.Get(o.Write(bytes.Repeat([]byte("precious\n"), 60_000)))(t)
	must.Do(t, o.Begun(t.Context()))
	var out record.Output
	for out.Parts.Count < 3 || out.Base == 0 {
		rs := must.Get(w.conn.Records().Records(t.Context(), events.OutputKey("s", "o")))(t)
		out = must.Get(record.DecodeOutput(rs[0].Value))(t)
	}
	w.wantClean()
	w.stop()
	finds := func(says string) {
		t.Helper()
		var got []string
		for _, f := range w.check().Findings {
			if f.Kind == fsck.Missing && f.Record == events.OutputKey("s", "o") {
				got = append(got, f.Detail)
			}
		}
		if len(got) != 1 || !strings.Contains(got[0], says) {
			t.Errorf("findings of the output %q, want one that says %q", got, says)
		}
	}
	base := events.OutputBaseKey("s", "o")
	kept := must.Get(w.conn.Records().Records(t.Context(), base))(t)[0].Value
	w.put(base, nil)
	finds("what follows its parts")
	w.put(base, kept)
	s := must.Get(w.conn.JetStream().Stream(t.Context(), "OBJ_"+events.ArtifactsBucket))(t)
	must.Do(t, s.DeleteMsg(t.Context(), out.Parts.First))
	finds("parts are there")
}
