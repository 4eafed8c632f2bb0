package archtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spool/internal/must"
)

// fragment is what stands around an example that is no program: it has a client and what it works on, and ends with an error, or none.
const fragment = `package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"time"

	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

var (
	_ = errors.As
	_ = time.Minute
	_ = artifacts.RunCompleted
	_ = sessions.Message
)

func example(ctx context.Context, c *client.Client, t events.Thread, message json.RawMessage, cmd *exec.Cmd) (err error) {
	if message != nil {
		%s
	}
	return err
}

func main() { _ = example }
`

// TestGuide: the Go examples of README and the guide are programs, or parts of some, for a module that is not this one.
func TestGuide(t *testing.T) {
	root, dir := must.Get(filepath.Abs("../.."))(t), t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	mod := string(must.Get(os.ReadFile(filepath.Join(root, "go.mod")))(t))
	write("go.mod", strings.Replace(mod, "module "+module+"\n", "module example.com/guide\n", 1)+
		fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, root))
	write("go.sum", string(must.Get(os.ReadFile(filepath.Join(root, "go.sum")))(t)))
	programs := 0
	for _, doc := range []string{"README.md", "docs/guide.md"} {
		text := string(must.Get(os.ReadFile(filepath.Join(root, doc)))(t))
		for i, block := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
			code := block[1]
			if strings.HasPrefix(code, "package main\n") {
				programs++
			} else {
				code = fmt.Sprintf(fragment, code)
			}
			write(fmt.Sprintf("%s-%d/main.go", strings.TrimSuffix(filepath.Base(doc), ".md"), i+1), code)
		}
	}
	must.Same(t, programs > 0, true, "a whole program is among the examples: %v, want %v")
	for _, what := range []string{"vet", "build"} {
		cmd := exec.Command("go", what, "./...")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s of the examples: %v\n%s", what, err, out)
		}
	}
}
