package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// scriptCommands are those that scripts have beside testscript's own.
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){"await": await}

// TestScripts runs the commands as testdata/script describes them. ADDR is an address that is free.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ADDR", proc.Address(t))
			e.Setenv("PATH", proc.Bin()+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		}})
}

// await repeats a command until it succeeds: await [grep TEXT] COMMAND…; with grep it must print the text, too, in which a dot
// stands for any space.
func await(ts *testscript.TestScript, neg bool, args []string) {
	text := ""
	if len(args) > 2 && args[0] == "grep" {
		text, args = strings.ReplaceAll(args[1], ".", " "), args[2:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: await [grep TEXT] COMMAND…")
	}
	path := strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0]
	var out []byte
	if err := must.Poll(func() (err error) {
		cmd := exec.Command(path+"/"+args[0], args[1:]...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), append(os.Environ(), "NATS_URL="+ts.Getenv("NATS_URL"), "HOME="+ts.Getenv("HOME"))
		if out, err = cmd.CombinedOutput(); err == nil && !strings.Contains(strings.Join(strings.Fields(string(out)), " "), text) {
			err = errors.New("another answer")
		}
		return err
	}); err != nil {
		ts.Fatalf("await %v: %v; the last answer was:\n%s", args, err, out)
	}
}
