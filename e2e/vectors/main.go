// Command vectors runs Spool against outputs of the programs that it stands beside.
//
//	go run ./e2e/vectors -dir DIR [-through product|library] [-only GROUP,…] [-skip GROUP,…]
//
// Each folder of DIR is a group of cases. A group that this program does not know counts as one failed case. A case that
// differs from the oracle on purpose is named in deviations.json, with the rule and what must hold instead.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	dir := flag.String("dir", "", "folder of groups, in the layout of testdata/golden/omp")
	only := flag.String("only", "", "groups to run, separated by commas; all others are left out")
	skip := flag.String("skip", "", "groups to leave out, separated by commas")
	flag.StringVar(&through, "through", through, "what scenarios run on: product (a `spool up` of its own) or library")
	verbose := flag.Bool("v", false, "also name the cases that deviate on purpose")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 || through != "product" && through != library {
		flag.Usage()
		os.Exit(2)
	}
	known, err := readDeviations()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(2)
	}
	r := &runner{out: os.Stdout, deviations: known, verbose: *verbose}
	err = errors.Join(r.run(*dir, split(*only), split(*skip)), stopProduct())
	if err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(2)
	}
	for _, group := range r.pure {
		fmt.Printf("by the library alone: %s\n", group)
	}
	fmt.Printf("%d passed, %d failed\n", r.passed, r.failed)
	if r.failed > 0 {
		os.Exit(1)
	}
}

// through says what scenarios run on.
var through = "product"

const library = "library"

// pure are the groups that call the library, and for what. Others run on a `spool up`; context alone can do without.
var pure = map[string]string{
	"legacy":   "the records of a file, and what is written; entries, leaf and branch are those of its import",
	"truncate": "one text by lines and characters, and notices: Go programs alone can cut so; by bytes as outputs are",
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ',' })
}

// group runs the cases of one folder and reports each. An error says that the folder cannot be read.
type group func(dir string, report func(Case)) error

// groups holds every group by the name of its folder; each file of this package adds its own.
var groups = map[string]group{}

// Case is one comparison with the oracle.
type Case struct {
	Name      string // within its group, e.g. 059-img-nonbase64-lenient
	Got, Want any    // values as decodeJSON makes them; compared by value

	// Facts are what a deviation can be tied to: "when" tells whether the case is of the kind that deviates, "holds" checks
	// what Spool promises instead. Keys are the words of deviations.json.
	When  map[string]func() bool
	Holds map[string]func() error
}

type runner struct {
	out            io.Writer
	deviations     []deviation
	used           usage // cases that were let pass
	verbose        bool
	pure           []string // groups that the library alone was asked for
	passed, failed int
}

func (r *runner) run(dir string, only, skip []string) error {
	if r.used == nil {
		r.used = usage{}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(only, skip) {
		if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name }) {
			return fmt.Errorf("there is no group %q in %s", name, dir)
		}
	}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || slices.Contains(skip, name) || len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		if through == library && pure[name] == "" && name != "context" {
			continue
		}
		if why := pure[name]; why != "" {
			r.pure = append(r.pure, name+": "+why)
		}
		run, ok := groups[name]
		if !ok {
			r.fail(name, "this group is not supported yet")
			continue
		}
		n := r.passed + r.failed
		if err := run(filepath.Join(dir, name), func(c Case) { r.report(name, c) }); err != nil {
			r.fail(name, err.Error())
		}
		if n == r.passed+r.failed {
			r.fail(name, "the folder holds no case")
		}
	}
	if r.passed+r.failed == 0 {
		return fmt.Errorf("there is no group to run in %s", dir)
	}
	return nil
}

// report compares one case.
func (r *runner) report(group string, c Case) {
	name := group + "/" + c.Name
	diff := difference(c.Want, c.Got)
	if diff == "" {
		r.passed++
		return
	}
	why := ""
	for _, d := range r.deviations {
		if !d.matches(name, c) {
			continue
		}
		err := d.holds(c)
		if err == nil {
			r.passed++
			r.used.note(d, name)
			if r.verbose {
				fmt.Fprintf(r.out, "DEVIATES %s: %s: %s\n", name, d.Rule, d.Reason)
			}
			return
		}
		why = fmt.Sprintf(" (%s must hold instead: %v)", d.Holds, err)
	}
	r.fail(name, short(diff)+why)
}

// fail prints one line.
func (r *runner) fail(name, why string) {
	r.failed++
	fmt.Fprintf(r.out, "FAIL %s: %s\n", name, strings.Join(strings.Fields(why), " "))
}
