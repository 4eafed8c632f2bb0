package fsck_test

import (
	"strings"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestMisnamed: the name of an artifact's object that leads to a refused upload is no damage, and a repair puts it right.
func TestMisnamed(t *testing.T) {
	w := newWorld(t)
	r, err := w.cl.PutArtifact(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("mine"))
	must.Do(w, err)
	_, err = w.conn.Objects().UploadFrom(t.Context(), events.ArtifactsBucket, r.Object, strings.NewReader("another's"))
	must.Do(w, err)
	if found := w.check().Findings; len(found) != 1 || found[0].Kind != fsck.Misnamed {
		t.Errorf("findings = %v, want one that is %s", found, fsck.Misnamed)
	}
	rep, err := fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{})
	must.Do(w, err)
	if len(rep.Repairs) != 1 || rep.Repairs[0].Name != r.Object {
		t.Errorf("repairs = %v, want that of %s", rep.Repairs, r.Object)
	}
	if found := w.check().Findings; len(found) > 0 {
		t.Errorf("findings after the repair = %v", found)
	}
	o := must.Get(w.conn.Objects().Stat(t.Context(), events.ArtifactsBucket, r.Object))(w)
	if b, err := w.conn.Objects().Read(t.Context(), o); err != nil || string(b) != "mine" {
		t.Errorf("the name leads to %q, %v", b, err)
	}
}
