package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/sim"
)

// report is what became of one defect that was put in.
type report struct {
	sim.Mutant
	found bool
	after int    // schedules until it was found, or all that were run
	seed  uint64 // that found it
	text  string // the rule that it broke, or why it could not be tried
	took  time.Duration
}

func (r report) String() string {
	switch {
	case r.found:
		return fmt.Sprintf("%-28s found after %d schedules, %v, seed %d: %s", r.Name, r.after, r.took.Round(time.Second),
			r.seed, r.text)
	case r.text != "":
		return fmt.Sprintf("%-28s CANNOT BE PUT IN: %s", r.Name, r.text)
	}
	return fmt.Sprintf("%-28s NOT FOUND in %d schedules, %v: %s", r.Name, r.after, r.took.Round(time.Second), r.What)
}

// tryMutants puts in one defect after another, and says of each after how many schedules it is found. One that cannot be
// put in, because the source has changed, counts as not found, and the others are tried.
func tryMutants(dir string) error {
	list, err := sim.Mutants(filepath.Join(*root, "internal/sim/testdata/mutants"))
	if err != nil {
		return err
	}
	all := list
	if list, err = chosen(list); err != nil {
		return err
	}
	if *compile {
		return compileMutants(dir, list)
	}
	clean, err := overlaid(dir, sim.Mutant{Name: "none"})
	if err != nil {
		return err
	}
	if err := os.Rename(clean, clean+".clean"); err != nil {
		return err
	}
	var reports []report
	missed := 0
	for _, m := range list {
		r := try(dir, clean+".clean", m)
		fmt.Println(r)
		if reports = append(reports, r); !r.found {
			missed++
		}
		if *table != "" {
			if err := writeTable(*table, all, reports); err != nil {
				return err
			}
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d defects were not found", missed, len(list))
	}
	return nil
}

// compileMutants puts in one defect after another, and compiles the packages that it changes.
func compileMutants(dir string, list []sim.Mutant) error {
	abs, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	failed := 0
	for _, m := range list {
		if _, err = simulated(abs, m, false).Overlay(abs, dir); err == nil {
			err = compileChanged(abs, dir, m)
		}
		if err != nil {
			fmt.Printf("%-28s CANNOT BE PUT IN: %v\n", m.Name, err)
			failed++
		}
	}
	fmt.Printf("%d defects, %d of them cannot be put in\n", len(list), failed)
	if failed > 0 {
		return fmt.Errorf("%d of %d defects cannot be put in", failed, len(list))
	}
	return nil
}

func compileChanged(root, dir string, m sim.Mutant) error {
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return err
	}
	args := []string{"build", "-overlay", overlay}
	for _, e := range m.Edits {
		if pkg := "./" + filepath.Dir(e.File); !slices.Contains(args, pkg) {
			args = append(args, pkg)
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// chosen are the defects that were asked for by name.
func chosen(list []sim.Mutant) ([]sim.Mutant, error) {
	if *mutants == "all" {
		return list, nil
	}
	var some []sim.Mutant
	var unknown []error
	for _, name := range strings.Split(*mutants, ",") {
		i := slices.IndexFunc(list, func(m sim.Mutant) bool { return m.Name == name })
		if i < 0 {
			unknown = append(unknown, fmt.Errorf("there is no defect %q in testdata/mutants", name))
			continue
		}
		some = append(some, list[i])
	}
	return some, errors.Join(unknown...)
}

// try runs schedules with a defect put in. A schedule that fails without it too says nothing.
func try(dir, clean string, m sim.Mutant) report {
	r := report{Mutant: m}
	bin, err := overlaid(dir, m)
	if err != nil {
		r.text = err.Error()
		return r
	}
	f := newFound()
	f.clean = clean
	f.run(bin)
	r.after, r.took = f.done, f.took
	for _, h := range f.rules {
		if !r.found || h.seed < r.seed {
			r.found, r.seed, r.text = true, h.seed, h.text
		}
	}
	return r
}

// The lines of a document between which the table of defects stands.
const (
	tableBegins = "<!-- sim -mutants NAMES -table FILE writes this table -->\n"
	tableEnds   = "<!-- end of the table -->\n"
	tableHead   = "| defect | schedules until it was found | what is wrong with it |\n|---|---|---|\n"
)

// writeTable puts what became of the defects into the table of a document. Rows of defects that were not tried stay,
// unless the defect is gone.
func writeTable(file string, all []sim.Mutant, reports []report) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(b), tableBegins)
	table, after, closed := strings.Cut(rest, tableEnds)
	if !ok || !closed {
		return fmt.Errorf("%s: no lines %q and %q", file, tableBegins, tableEnds)
	}
	rows := map[string]string{}
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, "|"); len(cells) > 1 {
			rows[strings.TrimSpace(cells[1])] = row
		}
	}
	for _, r := range reports {
		rows[r.Name] = r.row()
	}
	var s strings.Builder
	s.WriteString(tableHead)
	for _, m := range all {
		s.WriteString(cmp.Or(rows[m.Name], rowOf(m, "not tried")))
	}
	return os.WriteFile(file, []byte(before+tableBegins+s.String()+tableEnds+after), 0o644)
}

func (r report) row() string {
	after := fmt.Sprint(r.after)
	switch {
	case !r.found && r.text != "":
		after = "cannot be put in"
	case !r.found:
		after = fmt.Sprintf("not in %d", r.after)
	}
	if *about != "" {
		after += " about " + *about
	}
	return rowOf(r.Mutant, after)
}

func rowOf(m sim.Mutant, after string) string {
	return fmt.Sprintf("| %s | %s | %s |\n", m.Name, after, strings.ReplaceAll(m.What, "\n", " "))
}
