package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

// listArgs are those of a command that lists what sessions have.
type listArgs struct {
	Session string `arg:"" optional:"" help:"Only those of this session."`
	JSON    bool   `name:"json" help:"Each as one line of JSON."`
}

func (l listArgs) check() error {
	if l.Session == "" {
		return nil
	}
	if err := checkNames(l.Session, ""); err != nil {
		return service.UsageError{Err: err}
	}
	return nil
}

// look says how a thing of a list is shown.
type look[T any] struct {
	json   func(T) any                            // to a program
	header string                                 // to a person, with tabs between the cells
	row    func(T) string                         // so too
	ids    func(*client.Client) ([]string, error) // of all there are, beside those of sessions; nil: a thing has none
	none   string                                 // instead of the table, beside the output
}

// jsonLines writes things for programs: each in its form, on a line of its own.
func jsonLines[T, J any](enc *json.Encoder, all []T, form func(T) J) error {
	for _, one := range all {
		if err := enc.Encode(form(one)); err != nil {
			return err
		}
	}
	return nil
}

// plainJSON writes < and > as they are.
func (a *app) plainJSON() *json.Encoder {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc
}

// asIs is the form of what says itself how it is written.
func asIs[T any](v T) T { return v }

// list shows what get finds in the session of args, and then the error that it has beside that. Where it finds nothing, there must be
// such a session.
func list[T any](a *app, args *listArgs, get func(*client.Client) ([]T, error), how look[T]) error {
	if err := args.check(); err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	all, err := get(cl)
	if err == nil && len(all) == 0 && args.Session != "" {
		asked := args.Session
		if args.Session, err = a.session(cl, asked); err == nil && args.Session != asked {
			all, err = get(cl)
		}
	}
	if err != nil && len(all) == 0 {
		return err
	}
	if args.JSON {
		return errors.Join(jsonLines(json.NewEncoder(a.out), all, how.json), err)
	}
	if len(all) == 0 {
		fmt.Fprintln(a.err, how.none)
		return nil
	}
	t := a.table()
	t.Short = a.short(cl, how.ids)
	fmt.Fprintln(t, how.header)
	for _, one := range all {
		fmt.Fprintln(t, how.row(one))
	}
	return errors.Join(t.Flush(), err)
}

// table makes a table that fits into the terminal, and is whole where standard output is none.
func (a *app) table() *text.Table {
	t := text.NewTable(a.out)
	t.Columns = a.columns()
	return t
}

// report makes a table whose lines end with what is said in words: in the terminal that goes on below itself.
func (a *app) report() *text.Table {
	t := a.table()
	t.Wrap = true
	return t
}

// clip is a line that fits into so many columns with what stands behind it; 0: it is whole.
func clip(columns int, line, behind string) string {
	if columns > 0 {
		line = text.Cut(line, columns-text.Width(behind))
	}
	return line + behind
}

// columns is how wide the terminal is that standard output is; 0: it is none.
func (a *app) columns() int {
	f, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	w, _, _ := term.GetSize(int(f.Fd()))
	return cmp.Or(max(w, 0), 80)
}

// coloured reports that standard output is a terminal that shows colours, for somebody who wants them.
func (a *app) coloured() bool {
	return a.columns() > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
