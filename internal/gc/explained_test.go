package gc_test

import (
	"errors"
	"testing"

	"spool/internal/gc"
	"spool/internal/must"
	"spool/pkg/client"
)

// TestDeletionsExplainGarbage: what users delete, sessions or threads, gives its room back, whatever share of the store it was; what is
// garbage without a deletion is braked as before, also behind one whose garbage has gone.
func TestDeletionsExplainGarbage(t *testing.T) {
	for name, gone := range map[string]func(*rig, string) error{
		"sessions": func(r *rig, session string) error {
			_, err := r.Session(session).Delete(r.t.Context(), client.Deletion{Plain: true})
			return err
		},
		"threads": func(r *rig, session string) error { return r.Thread(th(session)).Remove(r.t.Context()) },
		"threads, then their sessions": func(r *rig, session string) error {
			must.Do(r.t, r.Thread(th(session)).Remove(r.t.Context()))
			_, err := r.Session(session).Delete(r.t.Context(), client.Deletion{Plain: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { testExplained(t, gone) })
	}
}

func testExplained(t *testing.T, gone func(r *rig, session string) error) {
	r := newRig(t)
	stop := r.persister(0)
	for i, session := range []string{"keep", "a", "b", "other", "more"} {
		r.say(th(session), append(talk(5, session), image(session, byte(i)))...)
	}
	cycle := func() (d gc.Done, err error) {
		t.Helper()
		c := r.collector(gc.Config{Floor: 1}, nil)
		p := must.Get(c.Plan(t.Context()))(t)
		return c.Apply(t.Context(), p)
	}
	if d, err := cycle(); err != nil || d.Condemned != 0 {
		t.Fatalf("a cycle over what is in use = %+v, %v", d, err)
	}
	for _, session := range []string{"a", "b", "other"} {
		must.Do(t, gone(r, session))
	}
	must.Get(r.collector(gc.Config{Floor: 1}, nil).Plan(t.Context()))(t) // a look takes nothing away of what is explained
	if d, err := cycle(); err != nil || d.Condemned < 3 {
		t.Errorf("a cycle behind three deletions of five = %+v, %v, want their packs and blobs condemned", d, err)
	}
	r.verify(th("keep"))
	stop()
	r.remove(th("more")) // as a purge does
	for range 2 {
		if d, err := cycle(); !errors.Is(err, gc.ErrBrake) || d != (gc.Done{}) {
			t.Errorf("a cycle behind a loss = %+v, %v, want ErrBrake and nothing done", d, err)
		}
	}
}
