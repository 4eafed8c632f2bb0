package interchange

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"spool/internal/must"
)

// killed, set to a directory, has this test binary stage a file there and die before that has its name.
const killed = "SPOOL_TEST_KILLED_IN"

// A process that is killed between the write and the rename leaves the file that was there, or none.
func TestKilledBeforeTheRename(t *testing.T) {
	if dir := os.Getenv(killed); dir != "" {
		for _, name := range []string{"new.jsonl", "there.jsonl"} {
			f := File{Dir: must.Get(os.OpenRoot(dir))(t), Name: name, Mode: 0o600}
			must.Get(f.stage(func(w io.Writer) error { _, err := io.WriteString(w, "one\ntwo\n"); return err }))(t)
		}
		self := must.Get(os.FindProcess(os.Getpid()))(t)
		must.Do(t, self.Kill())
		select {}
	}
	dir := t.TempDir()
	there := filepath.Join(dir, "there.jsonl")
	must.Do(t, os.WriteFile(there, []byte("one\n"), 0o600))
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBeforeTheRename$")
	cmd.Env = append(os.Environ(), killed+"="+dir)
	out, err := cmd.CombinedOutput()
	if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); err == nil || len(parts) != 2 {
		t.Fatalf("the process ended with %v and left %q, want it killed with two files staged:\n%s", err, parts, out)
	}
	must.Same(t, string(must.Get(os.ReadFile(there))(t)), "one\n", "the file that was there is %q, want %q")
	if _, err := os.Stat(filepath.Join(dir, "new.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file: %v, want none", err)
	}
}

// A file that is written to between the look at it and the rename is kept.
func TestWrittenToBeforeTheRename(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer func() { _ = root.Close() }()
	there := filepath.Join(dir, "there.jsonl")
	must.Do(t, os.WriteFile(there, []byte("one\n"), 0o600))
	f := File{Dir: root, Name: "there.jsonl", Mode: 0o600}
	s := must.Get(f.stage(func(w io.Writer) error { _, err := io.WriteString(w, "one\ntwo\n"); return err }))(t)
	must.Do(t, os.WriteFile(there, []byte("one\nthree\n"), 0o600))
	must.Is(t, must.Err(s.commit()), ErrThere, "commit")
	must.Same(t, string(must.Get(os.ReadFile(there))(t)), "one\nthree\n", "the file is %q, want %q")
	if parts, _ := filepath.Glob(there + ".*"); len(parts) > 0 {
		t.Errorf("left beside it: %q", parts)
	}
}

// The folder of a project is what Claude Code calls it.
func TestProjectKey(t *testing.T) {
	for cwd, want := range map[string]string{
		"/home/dev/my app_2.x": "-home-dev-my-app-2-x", "/é/🙂": "-----", "": "-",
	} {
		must.Same(t, ProjectKey(cwd), want, "ProjectKey = %q, want %q")
	}
	long := make([]byte, 300)
	for i := range long {
		long[i] = 'a'
	}
	if key := ProjectKey(string(long)); len(key) <= maxKey || key[:maxKey+1] != string(long[:maxKey])+"-" ||
		key == ProjectKey(string(long[1:])) {
		t.Errorf("ProjectKey of 300 letters = %q, want 200 of them and a hash", key)
	}
}
