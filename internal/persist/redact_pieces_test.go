package persist_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/redact"
	"spool/pkg/client"
)

// What of an output waits for its next piece is not lost, nor in another place: by whatever settings persisters go on with it, where
// pieces end inside of letters, and where its lease ends it.
func TestHeldIsKept(t *testing.T) {
	settings := []persist.Secrets{nil, redact.New(redact.Default(), false), redact.New(redact.Default(), true)}
	const text = "a1 €uro wörld 😀smile x\x1b[31mred\x1b[0m tail-of-it€"
	const shown = "a1 €uro wörld 😀smile xred tail-of-it€"
	for first := range settings {
		for _, aborted := range []bool{false, true} {
			t.Run(fmt.Sprint("setting ", first, " aborted: ", aborted), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				n := first
				start := func() *running {
					return r.start(func(d *persist.Deps, c *persist.Config) {
						if d.Secrets = nil; settings[n%3] != nil {
							d.Secrets = settings[n%3]
						}
						c.OutputLease = 3 * time.Second
					})
				}
				run := start()
				o := r.begin(thread(0), client.OutputConfig{ID: "o", Window: 3})
				for i := 0; i < len(text); i += 3 {
					must.Get(io.WriteString(o, text[i:min(i+3, len(text))]))(t)
					if i%12 == 0 {
						seq := r.lastSeq("SPOOL_EVENTS")
						must.Until(r.t, "it is applied", func() bool { return run.Stats().Applied > 0 && seq > 0 })
						must.Do(t, run.stop())
						n++
						run = start()
					}
				}
				if !aborted {
					r.finish(o, client.OutputEnd{})
				}
				m := r.result(thread(0), 1).Metadata
				if m.Tool.Output != shown || (m.Output.Aborted != "") != aborted {
					t.Errorf("the output is %q, want %q; aborted: %q", m.Tool.Output, shown, m.Output.Aborted)
				}
				if why := r.whyDead(); len(why) > 0 && !strings.Contains(why[0], "lease") {
					t.Errorf("dead letters %q", why)
				}
			})
		}
	}
}
