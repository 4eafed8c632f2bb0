package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Mutant is a defect that is put into the source for a run, to see whether the simulation finds it. It is a list
// of replacements, given to the compiler as an overlay: no file is changed, and nothing of it can be in a program
// that is built as usual.
type Mutant struct {
	Name  string
	What  string // is wrong with it, in a sentence
	Edits []Edit
}

// Edit replaces text of a file, which must be there once. A file GOROOT/… is one of Go's own.
type Edit struct{ File, Old, New string }

// ChangesGo reports whether it replaces something of Go's own.
func (m Mutant) ChangesGo() bool {
	return slices.ContainsFunc(m.Edits, func(e Edit) bool { return strings.HasPrefix(e.File, "GOROOT/") })
}

// Mutants reads a directory of them: NAME.txt holds a sentence, and then for each edit two sections, "-- FILE old
// --" and "-- FILE new --".
func Mutants(dir string) (all []Mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		a, err := txtar.ParseFile(f)
		if err != nil {
			return nil, err
		}
		m := Mutant{Name: strings.TrimSuffix(filepath.Base(f), ".txt"), What: strings.TrimSpace(string(a.Comment))}
		for i := 0; i+1 < len(a.Files); i += 2 {
			file, ok := strings.CutSuffix(a.Files[i].Name, " old")
			if !ok || a.Files[i+1].Name != file+" new" {
				return nil, fmt.Errorf("%s: section %d: want FILE old and then FILE new", f, i+1)
			}
			m.Edits = append(m.Edits, Edit{file, strings.TrimSuffix(string(a.Files[i].Data), "\n"),
				strings.TrimSuffix(string(a.Files[i+1].Data), "\n")})
		}
		if len(m.Edits) == 0 {
			return nil, fmt.Errorf("%s: no edits", f)
		}
		all = append(all, m)
	}
	return all, nil
}

// Overlay writes what go build -overlay takes, for the source in root, into a directory, and returns its name.
func (m Mutant) Overlay(root, dir string) (string, error) {
	text := map[string]string{}
	for _, e := range m.Edits {
		path := filepath.Join(root, e.File)
		if of, ok := strings.CutPrefix(e.File, "GOROOT/"); ok {
			goroot, err := exec.Command("go", "env", "GOROOT").Output()
			if err != nil {
				return "", fmt.Errorf("go env GOROOT: %w", err)
			}
			path = filepath.Join(strings.TrimSpace(string(goroot)), of)
		}
		if text[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			text[path] = string(b)
		}
		if n := strings.Count(text[path], e.Old); n != 1 {
			return "", fmt.Errorf("mutant %s: its text is in %s %d times, want once: %.60q", m.Name, e.File, n, e.Old)
		}
		text[path] = strings.Replace(text[path], e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for path, s := range text {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(to, []byte(s), 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}
