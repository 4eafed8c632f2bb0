package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Figures is what agents did and took.
type Figures struct {
	Sessions     int64    `json:"sessions"`
	Turns        int64    `json:"turns"`
	TokensIn     int64    `json:"input_tokens"` // all that was read, cached or not
	TokensCached int64    `json:"input_tokens_cached"`
	TokensOut    int64    `json:"output_tokens"`
	Calls        int64    `json:"tool_calls"`
	Failures     int64    `json:"tool_failures"`
	OpenTurns    int64    `json:"open_turns,omitempty"` // without an end: they go on, or were cut off; their tokens count
	Cost         *float64 `json:"cost,omitempty"`       // in the money of the prices; nil: no prices were given
}

// Group is a part of the figures.
type Group struct {
	Name string `json:"name"` // a directory, model, or UTC date; "" where nobody said
	Figures
}

// Tool is how a tool was used.
type Tool struct {
	Name     string `json:"name"`
	Calls    int64  `json:"calls"`
	Failures int64  `json:"failures"`
}

// Report is the figures of an index of items.
type Report struct {
	Figures
	By     string  `json:"by"`
	Groups []Group `json:"groups"` // days newest first, others by their tokens
	Tools  []Tool  `json:"tools"`  // by their calls
	// Models that took tokens and have no price, where prices were given.
	Unpriced []string `json:"unpriced,omitempty"`
}

// Price is what a million tokens cost.
type Price struct {
	Input  float64 `json:"input"`
	Cached float64 `json:"cached"` // of the input that was cached
	Output float64 `json:"output"`
}

// Prices are prices by model. A name that ends with * is that of all models that begin so; the longest one counts.
type Prices map[string]Price

func (p Prices) of(model string) (price Price, ok bool) {
	if price, ok = p[model]; ok {
		return price, true
	}
	longest := -1
	for name, one := range p {
		if prefix, open := strings.CutSuffix(name, "*"); open && strings.HasPrefix(model, prefix) && len(prefix) > longest {
			longest, price = len(prefix), one
		}
	}
	return price, longest >= 0
}

// groupings are what figures can be divided by.
var groupings = map[string]string{
	"project": "s.cwd", "model": "s.model", "day": "iif(i.time > 0, coalesce(date(i.time / 1000, 'unixepoch'), ''), '')",
}

// CanDivideBy tells whether Stats can divide figures by that.
func CanDivideBy(by string) bool { return groupings[by] != "" }

// figuresOf adds up the items of a session by a key and, for calls and their results, by their tool. A turn without an end counts where its
// thread has items of its own: a fork has begun none of those that are open in its source.
const figuresOf = ` AS k, s.model, i.session, iif(i.kind IN ('tool_call', 'tool_result'), ` + toolOf + `, NULL) AS t,
	sum(i.kind = 'turn_end'), sum(i.tokens_in), sum(i.tokens_cached), sum(i.tokens_out), sum(i.kind = 'tool_call'),
	sum(i.kind = 'tool_result' AND i.failed), sum(i.n <= 0) FROM said i JOIN sessions s ON s.id = i.session WHERE (i.n > 0
	OR EXISTS (SELECT 1 FROM said o WHERE o.session = i.session AND o.thread = i.thread AND o.n > 0))`

// Stats adds up the items that a filter chooses, and what LearnOpenTurns brought in, by project (the directory of a session), model or
// day. The model is that which the session's record says now, so all tokens of a session are of one. With prices it says costs. It asks an
// index of all items, each once.
func (db *DB) Stats(ctx context.Context, f ItemFilter, by string, prices Prices) (r Report, err error) {
	if !CanDivideBy(by) {
		return r, fmt.Errorf("%w: by %.40q: use project, model or day", ErrFilter, by)
	}
	where, args := f.items()
	rows, err := db.sql.QueryContext(ctx, "SELECT "+groupings[by]+figuresOf+where+" GROUP BY k, i.session, t ORDER BY k, i.session", args...)
	if err != nil {
		return r, wrap("add up items", err)
	}
	defer rows.Close()
	a := adder{parts: map[part]*Figures{}, tools: map[string]*Tool{}, sessions: map[int64]bool{}}
	for rows.Next() {
		var at part
		var session int64
		var tool sql.NullString
		var one Figures
		if err := rows.Scan(&at.key, &at.model, &session, &tool, &one.Turns, &one.TokensIn, &one.TokensCached, &one.TokensOut, &one.Calls, &one.Failures,
			&one.OpenTurns); err != nil {
			return r, wrap("add up items", err)
		}
		a.add(at, session, tool, one)
	}
	return a.report(by, prices), wrap("add up items", rows.Err())
}

// price says what the tokens of a model cost, if there are prices.
func (f *Figures) price(model string, prices Prices, unpriced map[string]bool) {
	if prices == nil {
		return
	}
	price, ok := prices.of(model)
	if !ok && f.TokensIn+f.TokensOut > 0 {
		unpriced[model] = true
	}
	cached := min(f.TokensCached, f.TokensIn)
	cost := (float64(f.TokensIn-cached)*price.Input + float64(cached)*price.Cached + float64(f.TokensOut)*price.Output) / 1e6
	f.Cost = &cost
}

func (f *Figures) add(o Figures) {
	f.Sessions += o.Sessions
	f.Turns += o.Turns
	f.TokensIn += o.TokensIn
	f.TokensCached += o.TokensCached
	f.TokensOut += o.TokensOut
	f.Calls += o.Calls
	f.Failures += o.Failures
	f.OpenTurns += o.OpenTurns
	if o.Cost != nil {
		cost := *o.Cost
		if f.Cost != nil {
			cost += *f.Cost
		}
		f.Cost = &cost
	}
}

// adder adds up the figures of sessions, which come by their keys.
type adder struct {
	parts    map[part]*Figures
	tools    map[string]*Tool
	sessions map[int64]bool

	key  string // of the figures before, and their session
	last int64
}

// part is what a session's figures are added to: it is of one model, and prices are by models.
type part struct{ key, model string }

func (p part) compare(o part) int {
	return cmp.Or(cmp.Compare(p.key, o.key), cmp.Compare(p.model, o.model))
}

func (a *adder) add(at part, session int64, tool sql.NullString, one Figures) {
	if a.parts[at] == nil {
		a.parts[at] = &Figures{}
	}
	if !a.sessions[session] || a.key != at.key || a.last != session {
		one.Sessions = 1
	}
	a.sessions[session], a.key, a.last = true, at.key, session
	a.parts[at].add(one)
	if !tool.Valid {
		return
	}
	t := a.tools[tool.String]
	if t == nil {
		t = &Tool{Name: tool.String}
		a.tools[t.Name] = t
	}
	t.Calls += one.Calls
	t.Failures += one.Failures
}

func (a *adder) report(by string, prices Prices) Report {
	unpriced, groups, models := map[string]bool{}, map[string]*Group{}, map[string]*Figures{}
	for _, at := range slices.SortedFunc(maps.Keys(a.parts), part.compare) {
		f := a.parts[at]
		if groups[at.key] == nil {
			groups[at.key] = &Group{Name: at.key}
		}
		if models[at.model] == nil {
			models[at.model] = &Figures{}
		}
		models[at.model].add(*f)
		f.price(at.model, prices, unpriced)
		groups[at.key].add(*f)
	}
	r := Report{By: by, Groups: []Group{}, Tools: []Tool{}, Unpriced: slices.Sorted(maps.Keys(unpriced))}
	for _, model := range slices.Sorted(maps.Keys(models)) {
		f := models[model]
		f.price(model, prices, unpriced)
		r.add(*f)
	}
	if r.Sessions = int64(len(a.sessions)); prices != nil && r.Cost == nil {
		r.Cost = new(float64)
	}
	for _, g := range groups {
		r.Groups = append(r.Groups, *g)
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		if by == "day" {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(cmp.Compare(b.TokensIn+b.TokensOut, a.TokensIn+a.TokensOut), cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Name, b.Name))
	})
	for _, t := range a.tools {
		r.Tools = append(r.Tools, *t)
	}
	slices.SortFunc(r.Tools, func(a, b Tool) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name)) })
	return r
}
