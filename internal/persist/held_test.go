package persist_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/pkg/casstore"
	"spool/pkg/events"
)

// An entry holds the blobs that it names, wherever and however, if they are stored, those of the entry right before it
// too, in whatever batch they come.
func TestEntryHoldsTheBlobsItRefersTo(t *testing.T) {
	image := bytes.Repeat([]byte("\x89PNG"), 500)
	ref, missing := casstore.SumBlob(image), casstore.SumBlob([]byte("gone"))
	line := func(id, data string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"timestamp":"2026-01-01T00:00:00.000Z","message":{"role":"user","content":[{"type":"image","data":%q}]}}`, id, data)
	}
	lines := []string{
		line("a", base64.StdEncoding.EncodeToString(image)), line("b", ref.String()), line("c", missing.String()),
		`{"type":"custom","id":"d","timestamp":"2026-01-01T00:00:00.000Z","data":"` + ref.String() + `"}`,
		`{"type":"custom","id":"e","timestamp":"2026-01-01T00:00:00.000Z","data":"see ` +
			strings.ToUpper(ref.String()) + `."}`,
		`{"type":"custom","id":"f","timestamp":"2026-01-01T00:00:00.000Z","data":"` +
			strings.Replace(ref.String(), ":", `\u003a`, 1) + `0"}`,
	}
	var heads []casstore.Ref
	for _, batch := range []int{1, 1000} {
		r := newRig(t)
		r.start(func(_ *persist.Deps, c *persist.Config) { c.BatchEvents = batch })
		th := events.Thread{Session: "s", Name: "main"}
		head := r.say(th, "omp", lines...)
		heads = append(heads, head.Head().Ref)
		held := map[string][]casstore.Ref{}
		for step := range must.All(t, r.Reader().Entries(t.Context(), head)) {
			content := must.Get(step.ReadContent(t.Context()))(t)
			held[step.State.Entry.ID] = content.Refs
		}
		for id, want := range map[string][]casstore.Ref{"a": {ref}, "b": {ref}, "c": nil, "d": {ref}, "e": {ref}, "f": nil} {
			if !slices.Equal(held[id], want) {
				t.Errorf("batches of %d: entry %s holds %v, want %v", batch, id, held[id], want)
			}
		}
		r.verify(th)
	}
	if heads[0] != heads[1] {
		t.Errorf("heads %v: they depend on the batch", heads)
	}
}
