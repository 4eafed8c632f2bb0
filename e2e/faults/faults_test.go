//go:build linux

// Package faults_test does to Spool's processes, its server and its disk what docs/faults.md says under "The server and the
// disk" and "Power loss", while a ledger publishes, and holds what is there in the end against the ledger. The processes are
// real: Spool's commands, and nats-server as its module builds it.
//
// A row begins with row. What it cannot do on a machine it skips, with what is missing. Two rows run at a time. With
// SPOOL_FAULTS=long rows last for minutes; SPOOL_FAULTS_SUMMARY names a file that gets a line for each row: ran or skipped,
// and why.
package faults_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"spool/e2e/internal/proc"
)

// long is the form of hours that nobody waits for.
var long = os.Getenv("SPOOL_FAULTS") == "long"

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(100)                                 // whatever GOGC says: the kernel counts what this process had as had by the commands that it starts
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait for a slot
		panic(err)
	}
	goleak.VerifyTestMain(proc.Main(m, commands...), goleak.Cleanup(func(code int) {
		if err := summary.write(os.Getenv("SPOOL_FAULTS_SUMMARY")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// commands are what the processes of a row are built from.
var commands = []string{"spool/cmd/...", "github.com/nats-io/nats-server/v2"}

// slots are how many rows run at a time, whatever -parallel says: most of them wait most of the time, and are to disturb their own
// servers and not each other.
var slots = make(chan struct{}, 4)

// row begins a row of the table.
func row(t *testing.T) {
	t.Helper()
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() {
		<-slots
		if !t.Skipped() {
			summary.note(t.Name(), "ran", "")
		}
	})
}

// skip ends a row that this machine cannot run.
func skip(t *testing.T, why string) {
	t.Helper()
	summary.note(t.Name(), "skipped", why)
	t.Skip(why)
}

// summary is what became of the rows.
var summary rows

type rows struct {
	mu    sync.Mutex
	lines []string
}

func (r *rows) note(name, what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%s, %s, %s", name, what, why))
}

func (r *rows) write(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	slices.Sort(r.lines)
	for _, line := range r.lines {
		if _, err := fmt.Fprintln(f, line); err != nil {
			_ = f.Close()
			return err
		}
	}
	return f.Close()
}
