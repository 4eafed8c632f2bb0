package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"spool/internal/history"
	"spool/pkg/client"
	"spool/pkg/events"
)

func init() { groups["history"] = historyVectors }

// historyVectors posts prompts and asks `spool history` for them (SPEC S11).
func historyVectors(dir string, report func(Case)) error {
	p, err := running()
	if err != nil {
		return err
	}
	return eachExpected(dir, func(expected map[string]any) error {
		ctx, cancel := context.WithTimeout(context.Background(), productPatience)
		defer cancel()
		p.scenarios++
		h := &asked{p, ctx, fmt.Sprintf("history-%d", p.scenarios)}
		if err := h.post(items(expected["adds"])); err != nil {
			return err
		}
		return h.report(expected, report)
	})
}

// asked is a session whose prompts are asked for.
type asked struct {
	*product
	ctx     context.Context
	session string
}

// post publishes prompts as a user's messages.
func (h *asked) post(prompts []any) error {
	t := events.Thread{Session: h.session, Name: events.MainThread}
	pub := h.Publisher(client.PublisherConfig{})
	for _, text := range prompts {
		body := encodeJSON(map[string]any{"type": "message", "message": map[string]any{"role": "user", "content": text}})
		if _, err := pub.Publish(h.ctx, client.Entry{Thread: t, Dialect: "omp", Body: body}); err != nil {
			return err
		}
	}
	return h.Thread(t).Await(h.ctx, pub.Producer(), 0, uint64(len(prompts)))
}

func (h *asked) report(expected map[string]any, report func(Case)) error {
	for key, want := range expected {
		limit, isRecent := strings.CutPrefix(key, "recent")
		limit = cmp.Or(limit, strconv.Itoa(history.MaxLimit))
		switch {
		case key == "version" || key == "adds":
		case isRecent:
			report(Case{Name: key, Got: h.ask("recent", limit), Want: want})
		case key == "searchLimit1":
			report(Case{Name: key, Got: h.ask("search", "1", "commit"), Want: want})
		case key == "limits":
			for _, c := range items(want) {
				limit := str(field(c, "limit"))
				got := h.ask("recent", limit)
				if list, ok := got.([]any); ok {
					got = integer(len(list))
				}
				report(Case{Name: "limit " + limit, Got: got, Want: field(c, "n"),
					Holds: map[string]func() error{"refused": func() error {
						if !strings.Contains(str(got), "spool: --limit") { // the words of the command are in the error, too
							return fmt.Errorf("got %v, want the limit refused by its name", got)
						}
						return nil
					}}})
			}
		case key == "search":
			for _, c := range items(want) {
				query := str(field(c, "q"))
				report(Case{Name: fmt.Sprintf("search %q", query), Got: h.ask("search", strconv.Itoa(history.MaxLimit), query),
					Want: field(c, "hits")})
			}
		default:
			report(Case{Name: key, Got: "not supported", Want: want})
		}
	}
	return nil
}

// ask gives the prompts that `spool history` finds, or what it says instead.
func (h *asked) ask(verb, limit string, words ...string) any {
	args := append([]string{"history", verb, "--json", "--session", h.session, "--limit=" + limit, "--"}, words...)
	out, err := h.run(h.ctx, args...)
	if err != nil {
		return err.Error()
	}
	found := []any{}
	for line := range strings.Lines(string(out)) {
		v, err := decodeJSON([]byte(line))
		if err != nil {
			return err.Error()
		}
		found = append(found, field(v, "text"))
	}
	return found
}
