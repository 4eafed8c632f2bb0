package dialect_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/dialect"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenLine is what one line of testdata/<dialect>.jsonl becomes.
type goldenLine struct {
	Error   string           `json:"error,omitempty"`
	ID      string           `json:"id,omitempty"`
	Role    string           `json:"role,omitempty"`
	Type    string           `json:"type,omitempty"`
	Unknown bool             `json:"unknown,omitempty"`
	Time    int64            `json:"time,omitempty"`
	Meta    json.RawMessage  `json:"meta,omitempty"`
	Content *string          `json:"content,omitempty"`
	Compact string           `json:"compact,omitempty"`
	Kept    string           `json:"kept,omitempty"`
	Place   *dialect.Place   `json:"place,omitempty"`
	Refs    []string         `json:"refs,omitempty"`
	Session *dialect.Session `json:"session,omitempty"`
	Memory  bool             `json:"memory,omitempty"`
	Items   []goldenItem     `json:"items,omitempty"`
}

type goldenItem struct {
	Subject  string          `json:"subject"`
	Content  json.RawMessage `json:"content"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

func golden(e dialect.Entry, used bool, err error) goldenLine {
	if err != nil {
		return goldenLine{Error: err.Error()}
	}
	g := goldenLine{ID: e.ID, Role: e.Role, Type: e.Type, Unknown: !e.Known, Time: e.Time, Meta: e.Meta, Compact: e.Compact,
		Kept: e.Kept, Refs: e.Refs, Memory: used}
	if e.Content != nil {
		text := string(e.Content)
		g.Content = &text
	}
	if e.Place != (dialect.Place{}) {
		g.Place = &e.Place
	}
	if e.Session != (dialect.Session{}) {
		g.Session = &e.Session
	}
	for _, it := range e.Items {
		subject := it.Type
		if it.Detail != "" {
			subject += "." + it.Detail
		}
		g.Items = append(g.Items, goldenItem{subject, it.Content, it.Metadata})
	}
	return g
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"claude", "codex", "copilot", "gemini", "item", "omp", "opencode", "qwen", "step"} {
		t.Run(name, func(t *testing.T) {
			d, _ := dialect.Lookup(name)
			data := must.Get(os.ReadFile(filepath.Join("testdata", name+".jsonl")))(t)
			var m dialect.Memory
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			for _, line := range lines(data) {
				e, err := d.Read(line, &m)
				for _, it := range e.Items {
					checkItem(t, it)
				}
				must.Do(t, enc.Encode(golden(e, m.Used(), err)))
			}
			compareGolden(t, filepath.Join("testdata", name+".golden.jsonl"), got.Bytes())
		})
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(path, got, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), go test -update writes it:\n%s", path, diff)
	}
}

func TestLookup(t *testing.T) {
	want := []string{"claude", "codex", "copilot", "gemini", "item", "omp", "opencode", "qwen", "raw", "step"}
	if diff := cmp.Diff(want, dialect.Names()); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if d, ok := dialect.Lookup(name); !ok || d.Name() != name || d.Version() < 1 {
			t.Errorf("Lookup(%q) = %v, %v", name, d, ok)
		}
	}
	if _, ok := dialect.Lookup("nope"); ok {
		t.Error(`Lookup("nope") found something`)
	}
	d, _ := dialect.Lookup("raw")
	if e, err := d.Read([]byte{0xff, '{'}, nil); err != nil || !e.Known || e.Type != "raw" || len(e.Items) != 0 {
		t.Errorf("raw.Read = %+v, %v", e, err)
	}
}
