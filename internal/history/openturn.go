package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"spool/internal/project"
	"spool/pkg/client"
	"spool/pkg/events"
)

// OpenTurn is a turn that has no end yet, or never will.
type OpenTurn struct {
	Session, Cwd, Model string
	Time                int64 // when its thread's newest entry was, in Unix milliseconds
	events.Stats
}

// OpenTurns reads those of a session, or of all where session is "", that the index knows of: of the sessions in which a thread
// does not end with a turn's end, whatever others there are.
func (db *DB) OpenTurns(ctx context.Context, cl *client.Client, session string) (open []OpenTurn, err error) {
	ids, err := db.names(ctx, "find open turns", `SELECT DISTINCT s.name
		FROM (SELECT session, thread, life, max(n) AS n FROM said GROUP BY session, thread, life) JOIN said i USING(session, thread, life, n)
		JOIN sessions s ON s.id = i.session WHERE i.kind <> ?1 AND (?2 = '' OR s.name = ?2)`, events.TypeTurnEnd, session)
	if err != nil {
		return nil, err
	}
	all, err := cl.Internal().SessionsNamed(ctx, ids)
	for _, s := range all {
		for _, t := range s.Threads {
			stats := project.OpenTurn(&t.Head)
			if stats != (events.Stats{}) && events.FormerOf(t.Thread) == "" { // it goes on in the next generation
				open = append(open, OpenTurn{s.ID, s.Cwd, s.Model, t.Head.Updated, stats})
			}
		}
	}
	return open, err
}

// chooses tells whether a filter without a tool and a role, by which no turn is chosen, takes a turn.
func (f ItemFilter) chooses(t OpenTurn) bool {
	return f.Tool == "" && f.Role == "" && (f.Session == "" || f.Session == t.Session) && (f.Cwd == "" || f.Cwd == t.Cwd) &&
		t.Time >= f.From && (f.Until <= 0 || t.Time < f.Until) && (len(f.Within) == 0 ||
		slices.ContainsFunc(f.Within, func(prefix string) bool { return strings.HasPrefix(t.Session, prefix) }))
}

// countIn counts a turn in the group of a name. A group that there is has its session already, by its items.
func (t OpenTurn) countIn(groups map[string]*Group, name string, prices Prices, unpriced map[string]bool) {
	more := Figures{TokensIn: t.InputTokens, TokensCached: t.InputTokensCached, TokensOut: t.OutputTokens, OpenTurns: 1}
	more.price(t.Model, prices, unpriced)
	if g := groups[name]; g != nil {
		g.add(more)
		return
	}
	more.Sessions = 1
	groups[name] = &Group{Name: name, Figures: more}
}

// dayOf is the UTC date of a time, as groupings have it.
func dayOf(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(time.DateOnly)
}
