package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"

	"spool/internal/must"
)

// --yes is for who does not want to be asked, --force for what would be refused: of every command, in these words.
func TestOneWordForYes(t *testing.T) {
	var c cli
	parser := must.Get(kong.New(&c, vars()))(t)
	asks := 0
	for _, leaf := range parser.Model.Leaves(false) {
		for _, f := range leaf.Flags {
			switch {
			case f.Name == "yes" && f.Help == "Do not ask." && f.Short == 'y':
				asks++
			case f.Name == "yes", f.Name != "force" && strings.Contains(f.Help, "not ask"),
				f.Name == "force" && !strings.Contains(f.Help, "not mind"):
				t.Errorf("%s: --%s %q, want --yes or -y for %q", leaf.FullPath(), f.Name, f.Help, "Do not ask.")
			}
		}
	}
	if asks < 8 {
		t.Errorf("%d commands have --yes, want 8 or more", asks)
	}
	if _, err := parser.Parse([]string{"dead", "rm", "1", "--force"}); err != nil || !c.Dead.Rm.Yes {
		t.Errorf("dead rm --force: %v, yes %v; want the earlier name taken", err, c.Dead.Rm.Yes)
	}
}

// TestStdinEndsWithTheCommand: who interrupts a command that reads a terminal is not waited for.
func TestStdinEndsWithTheCommand(t *testing.T) {
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	read := (&app{ctx: ctx, in: in}).stdin()
	go func() { _, _ = typed.Write([]byte("half")) }()
	must.Get(io.ReadFull(read, make([]byte, 4)))(t)
	interrupt()
	if b, err := io.ReadAll(read); err == nil || err.Error() != "interrupted" {
		t.Errorf("read on after it was interrupted: %q, %v", b, err)
	}
	whole := must.Get(io.ReadAll((&app{ctx: t.Context(), in: strings.NewReader("all")}).stdin()))(t)
	must.Same(t, string(whole), "all", "read %q, want %q")
}

func TestReasonsOfRetriesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		note := noteRetries(&out)
		for range 130 { // a second each
			note(errors.New("away"), 0)
			time.Sleep(time.Second)
		}
		note(errors.New("full"), 0)
		const want = "trying again: away\nstill trying, 61 times in vain: away\nstill trying, 121 times in vain: away\n" +
			"trying again: full\n"
		must.Same(t, out.String(), want, "told %q, want %q")
	})
}
