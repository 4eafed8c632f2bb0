package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"spool/e2e/internal/proc"
	"spool/pkg/events"
)

// checks asks Spool's own checks, collects, starts everything anew, and restores: nothing may change.
func (v *verdicts) checks(ctx context.Context, first map[string][]byte) {
	a, tail := v.a, v.tail
	a.named()
	a.clean("fsck", "--json")
	a.clean("fsck", "--events", "--json")
	for range 2 {
		out, code := a.w.tool(time.Minute, "gc", "run", "--apply", "--share", "1")
		if code != 0 && !strings.Contains(out, "another cycle has begun") {
			a.t.Errorf("gc: exit code %d\n%.2000s", code, out)
		}
	}
	a.same("after gc", first, a.export("collected"))
	a.w.server.kill()
	for _, m := range a.w.members[1:] {
		m.kill()
	}
	a.settle(tail.nc)
	a.same("after a start", first, a.export("begun"))
	a.clean("fsck", "--items", "--json")
	a.consumers(tail.nc)
	if a.saved != nil {
		a.restore(first, v.places)
	}
}

// named has a repair give the names of artifacts that whoever died while putting them had not given yet; nothing else is repaired.
func (a *attack) named() {
	out, code := a.w.tool(3*time.Minute, "fsck", "--json")
	var report struct{ Findings []struct{ Kind string } }
	if code != 1 || json.NewDecoder(strings.NewReader(out)).Decode(&report) != nil {
		return
	}
	for _, f := range report.Findings {
		if f.Kind != "misnamed" {
			return
		}
	}
	a.t.Logf("%d artifacts have no name yet: repaired", len(report.Findings))
	a.w.tool(3*time.Minute, "fsck", "--repair", "--yes")
}

// clean runs a check that must find nothing.
func (a *attack) clean(args ...string) {
	if out, code := a.w.tool(3*time.Minute, args...); code != 0 {
		a.t.Errorf("spool %v: exit code %d\n%.6000s", args, code, out)
	}
}

func (a *attack) same(when string, want, got map[string][]byte) {
	for t, text := range want {
		if strings.HasPrefix(t, "ret-") {
			continue // retention goes on
		}
		if b, ok := got[t]; !ok || !bytes.Equal(b, text) {
			a.t.Errorf("%s: %s has %d bytes (there: %v), it had %d", when, t, len(b), ok, len(text))
		}
	}
	for t := range got {
		if _, ok := want[t]; !ok {
			a.t.Errorf("%s: %s is there, and was not", when, t)
		}
	}
}

// consumers: what followed streams has left none behind but those of daemons.
func (a *attack) consumers(nc *nats.Conn) {
	for _, stream := range []string{events.ItemsStream, events.DeadStream, events.RecordsStream, events.EventsStream} {
		answer, err := nc.Request("$JS.API.STREAM.INFO."+stream, nil, 5*time.Second)
		var info struct {
			State struct {
				Consumers int `json:"consumer_count"`
			} `json:"state"`
		}
		if err == nil {
			err = json.Unmarshal(answer.Data, &info)
		}
		lives := 0
		for _, m := range a.w.members {
			lives += len(m.old)
		}
		if n := info.State.Consumers; err != nil || n > 24+3*lives { // those of the dead stay for some minutes
			a.t.Errorf("%s has %d consumers (%v) after %d processes", stream, n, err, lives)
		}
	}
}

func idsIn(exports map[string][]byte) map[string]bool {
	all := map[string]bool{}
	for _, text := range exports {
		for line := range bytes.Lines(text) {
			all[idIn(line)] = true
		}
	}
	return all
}

// restore puts the newest snapshot into an empty directory: what was acked before it and is there now is there as well.
func (a *attack) restore(first map[string][]byte, places map[name][]uint64) {
	data, listen := filepath.Join(a.t.TempDir(), "restored"), proc.Address(a.t)
	if out, code := a.w.tool(2*time.Minute, "restore", filepath.Join(a.w.dir, "backup"), "--data", data); code != 0 {
		a.t.Errorf("restore: exit code %d\n%.2000s", code, out)
		return
	}
	w := &world{t: a.t, dir: a.t.TempDir(), nats: listen}
	w.add("restored", "Spool is up.", false, "spool", "up", "--data", data, "--listen", listen,
		"--http", proc.Address(a.t), "--gc-every", "0")
	b := &attack{t: a.t, w: w, l: a.l}
	b.settle(dial(a.t, listen))
	there, now := idsIn(b.export("restored")), idsIn(first)
	for _, e := range a.saved {
		if now[e.id] && !there[e.id] && len(places[e.name]) == 1 { // one that came again can have come behind a deletion
			a.t.Errorf("%s of %s was acked before the snapshot, and is not in what was restored", e.id, e.name.thread)
		}
	}
	b.named()
	b.clean("fsck", "--json")
	b.clean("fsck", "--events", "--json")
}
