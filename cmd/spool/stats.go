package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"spool/internal/history"
	"spool/internal/jsonscan"
	"spool/internal/service"
	"spool/internal/text"
)

type statsCmd struct {
	By     string `default:"project" placeholder:"WHAT" help:"Divided by project, model or day (${default})."`
	Prices string `type:"existingfile" placeholder:"FILE" help:"Say costs, by the prices of a million tokens in this JSON file."`
	Limit  int    `default:"20" least:"1" placeholder:"N" help:"At most so many rows of a table (${default}); --json has all."`
	itemsOf
}

func (c *statsCmd) Help() string {
	return `Tokens are what agents told of their turns, also of those without an end; those in are all that was read, cached or not. Days are of UTC. The model is that which ` +
		`a session says now. A file of prices is as {"claude-opus-*": {"input": 15, "cached": 1.5, "output": 75}}: the longest name that fits counts.`
}

func (c *statsCmd) Run(a *app) error {
	f, err := c.filter()
	var prices history.Prices
	if err == nil && c.Prices != "" {
		prices, err = readPrices(c.Prices)
	}
	if err == nil && !history.CanDivideBy(c.By) {
		err = fmt.Errorf("--by %.40q: use project, model or day", c.By)
	}
	if err != nil {
		return service.UsageError{Err: err}
	}
	return withItems(a, &c.itemsOf, f, func(db *history.DB, follower *history.Follower, f history.ItemFilter) error {
		if follower != nil {
			cl, err := a.client()
			if err = errors.Join(err, follower.ForgetDeleted(a.ctx), follower.CatchUp(a.ctx)); err == nil {
				err = db.LearnOpenTurns(a.ctx, cl)
			}
			if err != nil {
				return err
			}
		}
		r, err := db.Stats(a.ctx, f, c.By, prices)
		if err != nil {
			return err
		}
		if c.JSON {
			return a.plainJSON().Encode(r)
		}
		return c.write(a, r)
	})
}

func readPrices(path string) (prices history.Prices, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := jsonscan.DecodeExactly(f, &prices); err != nil {
		return nil, fmt.Errorf("--prices %s: %w", path, err)
	}
	return prices, nil
}

func (c *statsCmd) write(a *app, r history.Report) error {
	cost := func(f history.Figures) string {
		if f.Cost == nil {
			return ""
		}
		return strconv.FormatFloat(*f.Cost, 'f', 2, 64)
	}
	row := func(name string, f history.Figures) string {
		return strings.TrimRight(fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%s", name, f.Sessions, f.Turns, figure(f.TokensIn),
			figure(f.TokensCached),
			figure(f.TokensOut), f.Calls, f.Failures, cost(f)), "\t")
	}
	t := a.table()
	header := strings.ToUpper(c.By) + "\tSESSIONS\tTURNS\tIN\tCACHED\tOUT\tCALLS\tFAILED"
	if r.Cost != nil {
		header += "\tCOST"
	}
	fmt.Fprintln(t, header)
	for _, g := range r.Groups[:min(len(r.Groups), c.Limit)] {
		name := cmp.Or(text.Printable(g.Name), "(unknown)")
		fmt.Fprintln(t, row(name, g.Figures))
	}
	if n := len(r.Groups) - c.Limit; n > 0 {
		fmt.Fprintf(t, "(%d more)\n", n)
	}
	fmt.Fprintln(t, row("all", r.Figures))
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Tools) > 0 {
		fmt.Fprintln(a.out)
		t = a.table()
		fmt.Fprintln(t, "TOOL\tCALLS\tFAILED")
		for _, tool := range r.Tools[:min(len(r.Tools), c.Limit)] {
			name := cmp.Or(text.Line(tool.Name), "(unknown)")
			fmt.Fprintf(t, "%s\t%d\t%d\n", name, tool.Calls, tool.Failures)
		}
		if n := len(r.Tools) - c.Limit; n > 0 {
			fmt.Fprintf(t, "(%d more)\n", n)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if n := r.OpenTurns; n > 0 {
		fmt.Fprintln(a.err, text.Sprintf("spool: without an end: %d turns, whose tokens count", n))
	}
	if len(r.Unpriced) > 0 {
		fmt.Fprintf(a.err, "spool: no price of %s: it counts as 0\n", text.Line(strings.Join(r.Unpriced, ", ")))
	}
	return nil
}

// figure is a number in four characters or so.
func figure(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= 10*unit.size {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
		if n >= unit.size {
			return strconv.FormatFloat(float64(n*10/unit.size)/10, 'f', 1, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
