package persist_test

import (
	"errors"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// An open output that goes with its thread leaves nothing: who writes it and who follows it learn that there is no result, what comes
// behind is a dead letter, and a later thread of the name has outputs again.
func TestOpenOutputOfWhatIsRemoved(t *testing.T) {
	remove := map[string]events.Control{
		"thread":  removal(),
		"session": {Op: events.OpDelete, Delete: &events.Delete{Force: true}},
	}
	for what, op := range remove {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			id := thread(0)
			r.start(nil)
			ctx := brief(t)
			r.entry(id, 1, 0)
			out := r.begin(id, client.OutputConfig{ID: "o"})
			_, _ = out.Write([]byte("some lines\n"))
			r.arrived("o", 11)
			followed := make(chan *events.LiveEnd, 1)
			seen := make(chan struct{}, 1)
			go func() {
				var last *events.LiveEnd
				for f, err := range r.Thread(id).Follow(ctx, "o") {
					if last = f.End; err == nil && len(f.Text) > 0 {
						seen <- struct{}{}
					}
				}
				followed <- last
			}()
			<-seen
			pub := r.Publisher(client.PublisherConfig{})
			must.Do(t, pub.Control(ctx, id, 1, op))
			must.Do(t, r.Thread(id).Settled(ctx))
			if end := <-followed; end == nil || *end != (events.LiveEnd{}) {
				t.Errorf("Follow ended with %+v, want an end without a result", end)
			}
			_, _ = out.Write([]byte("more\n"))
			_ = out.Close(client.OutputEnd{})
			if _, err := out.Result(ctx); !errors.Is(err, client.ErrRemoved) && !errors.Is(err, client.ErrRefused) {
				t.Errorf("Result = %v, want that it is removed", err)
			}
			if open := must.Get(r.Session(id.Session).Outputs(ctx))(t); len(open) > 0 {
				t.Errorf("open outputs %+v, want none", open)
			}
			for _, why := range r.whyDead() {
				if !strings.Contains(why, "went with its thread") {
					t.Errorf("dead letter %q, want that the output went with its thread", why)
				}
			}
			if n := len(r.whyDead()); n == 0 {
				t.Error("no dead letters, want what was written behind the removal")
			}
			r.entry(id, 9, 1)
			again := r.begin(id, client.OutputConfig{ID: "again"})
			_, _ = again.Write([]byte("anew\n"))
			r.finish(again, client.OutputEnd{})
			if end := must.Get(again.Result(ctx))(t); end.Aborted || end.Node == "" {
				t.Errorf("the later output ended as %+v, want its result", end)
			}
		})
	}
}
