package main

import (
	"encoding/json"
	"fmt"

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
	json   func(T) any    // to a program
	header string         // to a person, with tabs between the cells
	row    func(T) string // so too
	none   string         // instead of the table, beside the output
}

// list shows what get finds.
func list[T any](a *app, args listArgs, get func(*client.Client) ([]T, error), how look[T]) error {
	if err := args.check(); err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	all, err := get(cl)
	if err != nil {
		return err
	}
	if args.JSON {
		enc := json.NewEncoder(a.out)
		for _, one := range all {
			if err := enc.Encode(how.json(one)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		fmt.Fprintln(a.err, how.none)
		return nil
	}
	t := text.NewTable(a.out)
	fmt.Fprintln(t, how.header)
	for _, one := range all {
		fmt.Fprintln(t, how.row(one))
	}
	return t.Flush()
}
