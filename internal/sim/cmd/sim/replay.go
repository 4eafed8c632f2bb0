package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"spool/internal/sim"
)

// simulated adds to a defect what makes schedules cheaper and seeds exact. Without ofGo it leaves out whatever
// changes a file of Go's own.
func simulated(root string, m sim.Mutant, ofGo bool) sim.Mutant {
	for _, dir := range []string{"speed", "replay"} {
		list, err := sim.Mutants(filepath.Join(root, "internal/sim/testdata", dir))
		if err != nil {
			return m // Overlay finds out that nothing replays: TestSeedsReplay says so
		}
		for _, s := range list {
			if ofGo || !s.ChangesGo() {
				m.Edits = append(m.Edits, s.Edits...)
			}
		}
	}
	return m
}

// replay runs one schedule as the search ran it, and prints what happens.
func replay(dir string) error {
	bin, err := overlaid(dir, sim.Mutant{Name: "none"})
	if err != nil {
		return err
	}
	args := append([]string{"-test.v", "-seed", fmt.Sprint(*seed), "-about", *about}, flag.Args()...)
	cmd := exact(context.Background(), bin, "^TestSeed$", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(withoutTests(os.Stdout, out), cmd.Wait())
}

// withoutTests copies what a test prints without the two lines of each of its subtests: to shrink a program runs hundreds.
func withoutTests(to io.Writer, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if s := strings.TrimLeft(line, " "); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- PASS: TestSeed/") {
			if _, err := io.WriteString(to, line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// replayAll runs schedules twice in each of two processes. The same must happen, to the byte.
func replayAll(dir string) error {
	bin, err := overlaid(dir, sim.Mutant{Name: "none"})
	if err != nil {
		return err
	}
	var told [2][]string
	for i := range told {
		out, err := exact(context.Background(), bin, "^TestSeedsReplay$", "-from", fmt.Sprint(*from),
			"-count", fmt.Sprint(*twice)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		for line := range bytes.Lines(out) {
			if s := string(line); strings.HasPrefix(s, "schedule ") {
				told[i] = append(told[i], s)
			}
		}
	}
	if len(told[0]) != int(*twice) || len(told[1]) != int(*twice) {
		return fmt.Errorf("%d and %d of %d schedules were run", len(told[0]), len(told[1]), *twice)
	}
	differ := 0
	for i, s := range told[0] {
		if s != told[1][i] || strings.HasSuffix(s, "differs\n") {
			fmt.Printf("not the same: %s and %s\n", strings.TrimSpace(s), strings.TrimSpace(told[1][i]))
			differ++
		}
	}
	fmt.Printf("%d schedules, each twice in two processes: in %d of them not the same happens, to the byte\n", *twice, differ)
	if differ > max(int(*twice)/25, 1) { // about one in some hundred is known to
		return fmt.Errorf("%d of %d schedules do not replay", differ, *twice)
	}
	return nil
}
