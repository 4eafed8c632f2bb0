package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spool/internal/project"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/transcript"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// shownDigits is how many digits of a state tables show.
const shownDigits = 12

// shortState reports the beginning of a state's digits, as tables show it.
func shortState(s string) (digits string, ok bool) {
	digits = strings.TrimPrefix(s, "node:sha256:")
	return digits, len(digits) >= 4 && len(digits) < 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

// fullState adds to the error of a ref that is not whole where the whole one stands.
func fullState(err error) error {
	if !errors.Is(err, casstore.ErrBadRef) {
		return err
	}
	return service.UsageError{Err: fmt.Errorf("%w; spool thread show --json says a state in full", err)}
}

// mostStates is how many states are told of.
const mostStates = 50

// tellStates says of states that no thread has what they are, the newest first, and how to get what leads to them.
func tellStates(a *app, cl *client.Client, refs []string) error {
	type placed struct {
		threads.State
		at casstore.Located
	}
	var all []placed
	for _, text := range refs {
		ref, err := casstore.ParseRef(text)
		var p placed
		if err == nil {
			p.at, err = cl.Reader().Nodes.Locate(a.ctx, ref)
		}
		if err == nil {
			p.State, err = cl.Reader().State(a.ctx, p.at)
		}
		if err != nil {
			return fmt.Errorf("what %s is: %w", text, err)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(x, y placed) int { return cmp.Compare(y.Timestamp, x.Timestamp) })
	if len(all) > 0 {
		fmt.Fprintln(a.err, "No thread has these states, so the next cycle takes them again. Get what leads to each with:")
	}
	for _, p := range all[:min(len(all), mostStates)] {
		what := text.Sprintf("%d entries", p.Entry.Index)
		if p.Timestamp != 0 {
			what += time.UnixMilli(p.Timestamp).UTC().Format(", 2006-01-02 15:04:05Z")
		}
		whose, name, err := describe(a.ctx, cl, p.at)
		if err != nil {
			name = err.Error() // the state is there all the same
		}
		if whose.Session != "" {
			what = whose.String() + ", " + what
		}
		if name != "" {
			what += ": " + text.Printable(name)
		}
		fmt.Fprintf(a.out, "spool export %s -o FILE   # %s\n", p.at.Ref, what)
	}
	if more := len(all) - mostStates; more > 0 {
		text.Fprintf(a.err, "and %d older ones: name a pack or a node to see those of it\n", more)
	}
	return nil
}

// mostTold is how many entries of a thread are read for what they tell of it.
const mostTold = 100

// describe says whose a state is, as the first entries of a harness call it, and its title or the beginning of its first
// prompt. No state names its thread.
func describe(
	ctx context.Context, cl *client.Client, at casstore.Located,
) (whose events.Thread, name string, err error) {
	var info sessions.Info
	var lines [][]byte
	harness, read := "", 0
	for step, err := range cl.Reader().Entries(ctx, threads.Head{Recent: []casstore.Located{at}}) {
		if err != nil {
			return whose, "", err
		}
		lang, known := dialect.Lookup(step.State.Entry.Dialect)
		if !known || !dialect.IsJSON(lang.Name()) {
			continue
		}
		raw, _, err := cl.Internal().Source().Stored(ctx, step)
		if err != nil {
			return whose, "", err
		}
		if e, err := lang.Read(raw, nil); err == nil {
			project.Learn(&info, &e, true, read == 0)
		}
		if name := lang.Name(); name != "item" && (harness == "" || harness == name) {
			harness, lines = name, append(lines, raw)
		}
		if read++; read == mostTold {
			break
		}
	}
	if t, ok := transcript.Named(harness, lines...); ok {
		whose = t
	}
	return whose, cmp.Or(info.Title, info.Prompt), nil
}
