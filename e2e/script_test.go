package e2e_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the commands as testdata/script describes them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		return nil
	}})
}
