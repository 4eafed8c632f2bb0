package history

import (
	"cmp"
	"context"
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

// Stats adds up the items that a filter chooses, by project (the directory of a session), model or day. The model is that
// which the session's record says now, so all tokens of a session are of one. With prices it says costs. It asks an index of all items,
// which do not tell of turns without an end: those are given.
func (db *DB) Stats(ctx context.Context, f ItemFilter, by string, prices Prices, open []OpenTurn) (r Report, err error) {
	key := groupings[by]
	if key == "" {
		return r, fmt.Errorf("%w: by %.40q: use project, model or day", ErrFilter, by)
	}
	unpriced := map[string]bool{}
	total, err := db.figures(ctx, f, "''", prices, unpriced)
	if err != nil {
		return r, err
	}
	groups, err := db.figures(ctx, f, key, prices, unpriced)
	if err != nil {
		return r, err
	}
	for _, t := range open {
		if f.chooses(t) {
			t.countIn(total, "", prices, unpriced)
			t.countIn(groups, map[string]string{"project": t.Cwd, "model": t.Model, "day": dayOf(t.Time)}[by], prices, unpriced)
		}
	}
	r = Report{By: by, Groups: []Group{}, Tools: []Tool{}, Unpriced: slices.Sorted(maps.Keys(unpriced))}
	if prices != nil {
		r.Cost = new(float64)
	}
	for _, g := range total {
		r.Figures = g.Figures
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
	r.Tools, err = db.tools(ctx, f)
	return r, err
}

// figures adds up by a key. Each session is of one model, so that of each key the figures of its models can be added.
func (db *DB) figures(ctx context.Context, f ItemFilter, key string, prices Prices, unpriced map[string]bool) (map[string]*Group, error) {
	where, args := f.items()
	rows, err := db.sql.QueryContext(ctx, "SELECT "+key+` AS k, s.model, count(DISTINCT i.session), sum(i.kind = 'turn_end'), sum(i.tokens_in),
		sum(i.tokens_cached), sum(i.tokens_out), sum(i.kind = 'tool_call'), sum(i.kind = 'tool_result' AND i.failed)
		FROM said i JOIN sessions s ON s.id = i.session WHERE true`+where+" GROUP BY k, s.model", args...)
	if err != nil {
		return nil, wrap("add up items", err)
	}
	defer rows.Close()
	groups := map[string]*Group{}
	for rows.Next() {
		var g Group
		var model string
		if err := rows.Scan(&g.Name, &model, &g.Sessions, &g.Turns, &g.TokensIn, &g.TokensCached, &g.TokensOut, &g.Calls,
			&g.Failures); err != nil {
			return nil, wrap("add up items", err)
		}
		g.price(model, prices, unpriced)
		if had := groups[g.Name]; had != nil {
			g.add(had.Figures)
		}
		groups[g.Name] = &g
	}
	return groups, wrap("add up items", rows.Err())
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
	if f.Cost != nil {
		*f.Cost += *o.Cost
	}
}

func (db *DB) tools(ctx context.Context, f ItemFilter) ([]Tool, error) {
	where, args := f.items()
	rows, err := db.sql.QueryContext(ctx, "SELECT "+toolOf+` AS k, sum(i.kind = 'tool_call') AS calls, sum(i.kind = 'tool_result' AND i.failed)
		FROM said i WHERE i.kind IN ('tool_call', 'tool_result')`+where+" GROUP BY k ORDER BY calls DESC, k", args...)
	if err != nil {
		return nil, wrap("count tools", err)
	}
	defer rows.Close()
	tools := []Tool{}
	for rows.Next() {
		var t Tool
		if err := rows.Scan(&t.Name, &t.Calls, &t.Failures); err != nil {
			return nil, wrap("count tools", err)
		}
		tools = append(tools, t)
	}
	return tools, wrap("count tools", rows.Err())
}
