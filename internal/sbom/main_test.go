package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"spool/internal/must"
	"strings"
	"testing"
)

// TestWhatIsBuilt: the list of a command is what it is built from, each module in the version of go.mod with the sum of go.sum and
// a license that is allowed; and the same binary gives the same bytes.
func TestWhatIsBuilt(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir+"/", "spool/cmd/gc").CombinedOutput(); err != nil {
		t.Fatalf("go build = %v\n%s", err, out)
	}
	out := must.Get(exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", "spool/cmd/gc").Output())(t)
	want := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
			want[name] = version
		}
	}
	var first, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &again} {
		must.Do(t, run(w, []string{filepath.Join(dir, "gc")}))
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("the same binary gives another list")
	}
	var b bom
	must.Do(t, json.Unmarshal(first.Bytes(), &b))
	sums := must.Get(os.ReadFile("../../go.sum"))(t)
	got := map[string]string{}
	for _, c := range b.Components {
		if c.Name == "std" {
			continue
		}
		got[c.Name] = c.Version
		sum := c.Properties[slices.IndexFunc(c.Properties, func(p property) bool { return p.Name == propSum })].Value
		if line := c.Name + " " + c.Version + " " + sum + "\n"; !strings.Contains(string(sums), line) {
			t.Errorf("go.sum has no %q", line)
		}
		if len(c.Licenses) != 1 || c.PURL == "" || c.Ref != c.PURL {
			t.Errorf("%s = %+v, want a license and a URL", c.Name, c)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("modules = %v, want %v", got, want)
	}
	required := requires(t)
	for name, version := range want {
		if required[name] != version {
			t.Errorf("%s is built in %s, go.mod requires %q", name, version, required[name])
		}
	}
	if len(b.Depends) != 1 || len(b.Depends[0].On) != len(b.Components) {
		t.Errorf("dependencies = %+v, want one of each component", b.Depends)
	}
}

// requires are the versions of go.mod. Every one is of a release or a commit: nothing is taken from a branch or a directory.
func requires(t *testing.T) map[string]string {
	t.Helper()
	out := must.Get(exec.Command("go", "mod", "edit", "-json", "../../go.mod").Output())(t)
	var mod struct {
		Require []struct{ Path, Version string }
		Replace []any
	}
	must.Do(t, json.Unmarshal(out, &mod))
	if len(mod.Replace) > 0 {
		t.Errorf("go.mod replaces %v", mod.Replace)
	}
	all := map[string]string{}
	for _, r := range mod.Require {
		all[r.Path] = r.Version
	}
	return all
}

// TestLicenses: every module that a command is built from has one that is allowed, and what is not known is refused.
func TestLicenses(t *testing.T) {
	dirs, err := moduleDirs()
	if err != nil || len(dirs) < 20 {
		t.Fatalf("%d modules, %v", len(dirs), err)
	}
	for name, dir := range dirs {
		id, err := licenseOf(dir)
		if err == nil {
			err = new(component).licensed(id)
		}
		must.Is(t, err, nil, "%s", name)
	}
	dir := t.TempDir()
	for text, want := range map[string]string{"": "", "GNU GENERAL PUBLIC LICENSE\nVersion 3": "",
		"Mozilla Public License Version 2.0": "", "Apache License\n   Version 2.0, January 2004": "Apache-2.0"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte(text), 0o600))
		if id, err := licenseOf(dir); id != want || (err != nil) != (want == "") {
			t.Errorf("license of %q = %q, %v, want %q", text, id, err, want)
		}
	}
	if err := new(component).licensed("GPL-3.0-only"); err == nil {
		t.Error("GPL-3.0-only is allowed")
	}
}
