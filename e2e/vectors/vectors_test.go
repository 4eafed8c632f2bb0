package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
)

const golden = "../../testdata/golden/omp"

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopProduct(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the product:", err)
		code = 1
	}
	os.Exit(code)
}

// TestGolden runs every group over the recorded cases. A deviation that no case needs must be shown by a case of testdata.
func TestGolden(t *testing.T) {
	known := must.Get(readDeviations())(t)
	dirs := must.Get(os.ReadDir(golden))(t)
	used := usage{}
	run := func(t *testing.T, dir, group string) {
		var out strings.Builder
		r := &runner{out: &out, deviations: known, used: used}
		must.Do(t, r.run(dir, []string{group}, nil))
		if r.failed > 0 || r.passed == 0 {
			t.Errorf("%d passed, %d failed:\n%s", r.passed, r.failed, out.String())
		}
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) { run(t, golden, d.Name()) })
	}
	t.Run("made by hand", func(t *testing.T) {
		own := must.Get(os.ReadDir("testdata"))(t)
		for _, d := range own {
			if d.IsDir() {
				run(t, "testdata", d.Name())
			}
		}
	})
	for _, d := range known {
		if parts := used.unused(d); len(parts) > 0 {
			t.Errorf("deviation %s when %q is needed by no case in %v: remove it, or add a case", d.Case, d.When, parts)
		}
	}
}

// fake registers a group for one test.
func fake(t *testing.T, name string, g group) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	if g != nil {
		groups[name] = g
		t.Cleanup(func() { delete(groups, name) })
	}
	return dir
}

func TestRunner(t *testing.T) {
	differs := func(holds error) group {
		return func(_ string, report func(Case)) error {
			report(Case{Name: "a", Got: "x", Want: "x"})
			report(Case{Name: "b", Got: "x", Want: "y",
				When:  map[string]func() bool{"odd": func() bool { return true }, "never": func() bool { return false }},
				Holds: map[string]func() error{"promise": func() error { return holds }}})
			return nil
		}
	}
	odd := deviation{Case: "fake/*", When: "odd", Rule: "T0", Reason: "r", Holds: "promise"}
	never, unknown := odd, odd
	never.When, unknown.Holds = "never", "something else"
	for _, tt := range []struct {
		name           string
		group          group
		deviations     []deviation
		passed, failed int
		says           string
	}{
		{"unknown group", nil, nil, 0, 1, "FAIL fake: this group is not supported yet"},
		{"empty group", func(string, func(Case)) error { return nil }, nil, 0, 1, "FAIL fake: the folder holds no case"},
		{"broken group", func(string, func(Case)) error { return errors.New("no such file") }, nil, 0, 1, "FAIL fake: no such file"},
		{"difference", differs(nil), nil, 1, 1, "FAIL fake/b: "},
		{"deviation", differs(nil), []deviation{odd}, 2, 0, ""},
		{"deviation whose promise does not hold", differs(errors.New("lost a byte")), []deviation{odd}, 1, 1,
			"promise must hold instead: lost a byte"},
		{"deviation of other cases", differs(nil), []deviation{never}, 1, 1, "FAIL fake/b: "},
		{"deviation with an unknown promise", differs(nil), []deviation{unknown}, 1, 1, `does not know how to check "something else"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			r := &runner{out: &out, deviations: tt.deviations}
			must.Do(t, r.run(fake(t, "fake", tt.group), nil, nil))
			if r.passed != tt.passed || r.failed != tt.failed || !strings.Contains(out.String(), tt.says) {
				t.Errorf("%d passed, %d failed, %q; want %d, %d, %q", r.passed, r.failed, out.String(), tt.passed, tt.failed, tt.says)
			}
			if n := strings.Count(out.String(), "\n"); n != r.failed {
				t.Errorf("%d lines for %d failures: %q", n, r.failed, out.String())
			}
		})
	}
}

func TestRunnerChoosesGroups(t *testing.T) {
	dir := fake(t, "one", func(_ string, report func(Case)) error { report(Case{Name: "a"}); return nil })
	must.Do(t, os.Mkdir(filepath.Join(dir, "two"), 0o755))
	for _, tt := range []struct {
		only, skip     []string
		passed, failed int
	}{{nil, nil, 1, 1}, {split(""), split(""), 1, 1}, {split("one"), split(""), 1, 0}, {[]string{"one"}, nil, 1, 0},
		{nil, []string{"two"}, 1, 0}, {[]string{"two"}, []string{"one"}, 0, 1}} {
		r := &runner{out: &strings.Builder{}}
		if err := r.run(dir, tt.only, tt.skip); err != nil || r.passed != tt.passed || r.failed != tt.failed {
			t.Errorf("only %v, skip %v: %d passed, %d failed, %v; want %d, %d", tt.only, tt.skip, r.passed, r.failed, err, tt.passed, tt.failed)
		}
	}
	for _, tt := range []struct{ only, skip []string }{{[]string{"three"}, nil}, {nil, []string{"three"}}, {nil, []string{"one", "two"}}} {
		if err := (&runner{out: &strings.Builder{}}).run(dir, tt.only, tt.skip); err == nil {
			t.Errorf("only %v, skip %v: no error, want one: nothing is left to run, or a group is not there", tt.only, tt.skip)
		}
	}
}

// A run has a Spool of its own, whatever the environment names, and says why where that does not start.
func TestProductStarts(t *testing.T) {
	if _, err := startProduct(filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there starts: %v", err)
	}
	t.Setenv("NATS_URL", "nats://127.0.0.1:1")
	must.Do(t, must.Get(startProduct("", ""))(t).stop())
}
