package interchange

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/fstest"

	"spool/internal/must"
	"spool/internal/transcript"
	"spool/pkg/artifacts"
)

// counted is a registry in memory that counts how many records it gave away.
type counted struct {
	Registry
	all   []artifacts.Record
	given int
}

func (c *counted) Records(_ context.Context, _ string, id artifacts.ID) (out []artifacts.Record, err error) {
	for _, r := range c.all {
		if id == "" || r.ID == id {
			out = append(out, r)
		}
	}
	c.given += len(out)
	return out, nil
}

func (c *counted) Adopt(_ context.Context, r artifacts.Record, body io.Reader) (artifacts.Record, bool, error) {
	size, err := io.Copy(io.Discard, body)
	r.Size = size
	c.all = append(c.all, r)
	return r, true, err
}

// Outputs that come one by one, each with an import of its own, cost no look at all those that were there before.
func TestSidecarsOneByOne(t *testing.T) {
	const files = 200
	reg, disk, im := &counted{}, fstest.MapFS{}, &Importer{}
	for i := range files {
		name := fmt.Sprintf("projects/-w/s/tool-results/%d.txt", i)
		disk[name] = &fstest.MapFile{Data: []byte(name)}
		for range 2 { // as new, and unchanged
			res := transcript.Result{Files: []transcript.FileResult{{Session: "s"}}}
			sources := []transcript.Source{{FS: disk, Path: "projects/-w/s.jsonl"}, {FS: disk, Path: name}}
			must.Do(t, im.takeBeside(t.Context(), reg, nil, sources, &res))
			if f := res.Files[1]; f.Err != nil || f.Artifacts != 1 {
				t.Fatalf("%s: %+v, want an artifact", name, f)
			}
		}
	}
	if len(reg.all) != files || reg.given > 2*files {
		t.Errorf("%d artifacts of %d files, %d records read: want one for each, and as many records", len(reg.all), files, reg.given)
	}
	reg.all = reg.all[:files-1] // one is removed
	last := fmt.Sprintf("projects/-w/s/tool-results/%d.txt", files-1)
	res := transcript.Result{Files: []transcript.FileResult{{Session: "s"}}}
	sources := []transcript.Source{{FS: disk, Path: "projects/-w/s.jsonl"}, {FS: disk, Path: last}}
	must.Do(t, im.takeBeside(t.Context(), reg, nil, sources, &res))
	must.Is(t, res.Files[1].Err, nil, "a file whose artifact is gone")
	must.Same(t, len(reg.all), files, "%d artifacts, want %d")
}
