package fsck_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

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
	must.Do(w, w.cl.Session("s").New(t.Context(), "/w", ""))
	r, err := w.cl.Artifacts().Put(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("mine"))
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

// TestNamesThatAreGone: the bytes of packs and of an artifact are all there, and their objects' names are gone, as where a
// stream lost its end behind the last chunk. A repair names them again.
func TestNamesThatAreGone(t *testing.T) {
	w := newWorld(t)
	w.fill()
	must.Get(w.cl.Artifacts().Put(t.Context(), client.NewArtifact{Record: artifacts.Record{Session: "s"}}, strings.NewReader("mine")))(t)
	for _, bucket := range []string{events.NodesBucket, events.ArtifactsBucket} {
		s := must.Get(w.conn.JetStream().Stream(t.Context(), "OBJ_"+bucket))(t)
		must.Do(t, s.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+bucket+".M.>")))
	}
	rep := must.Get(fsck.Fix(t.Context(), natsadmin.Of(w.conn), natsadmin.Of(w.conn), w.conn.Store(0), fsck.Config{}))(t)
	if len(rep.Repairs) < 2 {
		t.Errorf("repairs = %v, want those of packs and of the artifact", rep.Repairs)
	}
	w.wantClean()
}
