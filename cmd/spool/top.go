package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/sleep"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

type topCmd struct {
	Every time.Duration `default:"2s" least:"1ms" help:"Time between two looks; a look that takes long makes it longer."`
	Limit int           `default:"20" placeholder:"N" help:"With --once or --json: at most so many sessions, 0 for all."`
	Once  bool          `help:"Look once, print it and end."`
	JSON  bool          `help:"Each look as one line of JSON."`
}

// busy is what part of the time looking may take: a look of a second is followed by nine of rest.
const busy = 10

func (c *topCmd) Run(a *app) error {
	live := !c.Once && !c.JSON
	if live && !service.IsTerminal(a.out) {
		return service.UsageError{Err: errors.New("spool top needs a terminal; use --once, or --json")}
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	l := c.lookout(conn)
	if !live {
		return c.print(a, l)
	}
	m := newTop(c.Every, func() (fleet, error) { return l.look(a.ctx) }, func(p client.Prompt, answer json.RawMessage) error {
		_, err := l.client.Thread(p.Thread).Answer(a.ctx, events.Answer{Prompt: p.ID, Answer: answer, By: userName(), Life: p.Life})
		return err
	})
	m.read, m.colour = l.reader(a), a.coloured()
	env := os.Environ()
	if !m.colour {
		env = append(env, "NO_COLOR=1") // whatever its value is
	}
	_, err = tea.NewProgram(m, tea.WithContext(a.ctx), tea.WithInput(a.in), tea.WithOutput(a.out), tea.WithEnvironment(env)).Run()
	if errors.Is(err, tea.ErrInterrupted) || a.ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *topCmd) lookout(conn *natsio.Conn) *lookout {
	if c.Once || c.JSON {
		return &lookout{conn: conn, client: client.New(conn), most: c.Limit, step: c.Limit}
	}
	return &lookout{conn: conn, client: client.New(conn), most: mostWatched, step: screenful}
}

// print writes what it sees for programs and pipes.
func (c *topCmd) print(a *app, l *lookout) error {
	enc := json.NewEncoder(a.out)
	for {
		began := time.Now()
		f, err := l.look(a.ctx)
		if err != nil {
			return err
		}
		if c.Limit > 0 && len(f.sessions) > c.Limit {
			f.sessions = f.sessions[:c.Limit]
		}
		if c.JSON {
			err = enc.Encode(f.json())
		} else {
			err = f.write(a.table())
		}
		if c.Once || err != nil {
			return err
		}
		if !sleep.For(a.ctx, max(c.Every, busy*time.Since(began))) {
			return nil
		}
	}
}

// fleet is what a look sees.
type fleet struct {
	at       time.Time
	sessions []fleetSession // those that need somebody first, then the newest
	prompts  []client.Prompt
	runs     []client.RunInfo // that live
	backlog  natsio.Backlog
	full     float64 // part of SPOOL_EVENTS that is used; 0 when it has no limit
	dead     uint64  // letters

	rated         bool    // there was a look before, and rates are known
	events, items float64 // a second, since the look before

	seqs map[string]uint64 // last sequence of each stream
	ends map[string]int64  // items of each session so far
	more bool              // there are other sessions, which are older
}

// fleetSession is a session as a row.
type fleetSession struct {
	sessions.Row
	threads []client.Thread
	prompts []client.Prompt // that wait, the oldest first
	runs    int             // that live
	form    view.Session
	rate    float64 // items a second
}

// arrange makes the rows, and rates since an earlier look, which may be nil.
func (f *fleet) arrange(list []client.Session, before *fleet) {
	slices.SortStableFunc(f.prompts, func(a, b client.Prompt) int { return a.Asked.Compare(b.Asked) })
	runs, all, prompts := map[string]int{}, map[string][]client.RunInfo{}, map[string][]client.Prompt{}
	for _, r := range f.runs {
		all[r.Thread.Session] = append(all[r.Thread.Session], r)
		if r.Active() {
			runs[r.Thread.Session]++
		}
	}
	f.runs = slices.DeleteFunc(f.runs, func(r client.RunInfo) bool { return !r.Active() })
	for _, p := range f.prompts {
		prompts[p.Thread.Session] = append(prompts[p.Thread.Session], p)
	}
	seconds := 0.0
	if before != nil {
		seconds = f.at.Sub(before.at).Seconds()
	}
	rate := func(now, then float64) float64 { return max(now-then, 0) / seconds }
	if f.rated = seconds > 0; f.rated {
		f.events = rate(float64(f.seqs[events.EventsStream]), float64(before.seqs[events.EventsStream]))
		f.items = rate(float64(f.seqs[events.ItemsStream]), float64(before.seqs[events.ItemsStream]))
	}
	f.sessions = make([]fleetSession, len(list))
	for i, s := range list {
		r := fleetSession{Row: s.Row(), threads: s.Threads, prompts: prompts[s.ID], runs: runs[s.ID]}
		r.form = view.Of(s, len(r.prompts), all[s.ID], f.at)
		f.ends[s.ID] = 0
		for _, t := range s.Threads {
			f.ends[s.ID] += t.Head.N
		}
		if f.rated {
			if was, ok := before.ends[s.ID]; ok {
				r.rate = rate(float64(f.ends[s.ID]), float64(was))
			}
		}
		f.sessions[i] = r
	}
	slices.SortFunc(f.sessions, func(a, b fleetSession) int {
		return cmp.Or(cmp.Compare(min(len(b.prompts), 1), min(len(a.prompts), 1)), cmp.Compare(min(b.runs, 1), min(a.runs, 1)),
			cmp.Compare(b.Modified, a.Modified), cmp.Compare(a.ID, b.ID))
	})
}

// summary is the fleet in a line.
func (f *fleet) summary() string {
	s := text.Sprintf("%d sessions, %d runs", len(f.ends), len(f.runs))
	if f.more {
		s = "the newest " + s
	}
	if f.rated {
		s += fmt.Sprintf(", %.0f events/s, %.0f items/s", f.events, f.items)
	}
	s += text.Sprintf(", %d events not applied, %d of %d partitions served", f.backlog.Pending+f.backlog.Unacked,
		f.backlog.Served(), events.Partitions)
	if f.full > 0 {
		s += fmt.Sprintf(", SPOOL_EVENTS %.0f %% full", 100*f.full)
	}
	if f.dead > 0 {
		s += text.Sprintf(", %d dead letters", f.dead)
	}
	return s
}

// what says what a session is about; a question that waits comes first.
func (s *fleetSession) what() string {
	if len(s.prompts) > 0 {
		return "? " + s.prompts[0].Text
	}
	return s.Name()
}

func (f *fleet) write(t *text.Table) error {
	t.Short = shortBy(sync.OnceValue(func() map[string]string { return formsOf(slices.Collect(maps.Keys(f.ends))) }))
	fmt.Fprintln(t, strings.Join(text.Wrap(f.summary(), t.Columns), "\n"))
	fmt.Fprintln(t, "SESSION\tHARNESS\tSTATE\tTHREADS\tMESSAGES\tMODIFIED\tWHAT")
	for i := range f.sessions {
		s := &f.sessions[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", s.ID, s.Agent(), s.form.State, len(s.threads), s.Messages,
			text.Ago(s.Modified, f.at), text.Line(s.what()))
	}
	return t.Flush()
}

// json is the form for programs.
func (f *fleet) json() any {
	type rates struct {
		Events float64 `json:"events"`
		Items  float64 `json:"items"`
	}
	type row struct {
		view.Session
		Rate float64 `json:"items_per_second"`
	}
	out := struct {
		At       time.Time `json:"at"`
		Count    int       `json:"session_count"`
		More     bool      `json:"more,omitempty"`       // there are older ones
		Rates    *rates    `json:"per_second,omitempty"` // not known by the first look
		Pending  uint64    `json:"pending"`
		Unacked  uint64    `json:"unacked"`
		Served   int       `json:"partitions_served"`
		Of       int       `json:"partitions"`
		Full     float64   `json:"events_full"`
		Dead     uint64    `json:"dead_letters"`
		Sessions []row     `json:"sessions"`
		Prompts  []any     `json:"prompts"`
		Runs     []any     `json:"runs"`
	}{At: f.at.UTC(), Count: len(f.ends), More: f.more, Pending: f.backlog.Pending, Unacked: f.backlog.Unacked, Served: f.backlog.Served(),
		Of: events.Partitions, Full: f.full, Dead: f.dead,
		Sessions: []row{}, Prompts: []any{}, Runs: []any{}}
	if f.rated {
		out.Rates = &rates{f.events, f.items}
	}
	for i := range f.sessions {
		s := &f.sessions[i]
		out.Sessions = append(out.Sessions, row{s.form, s.rate})
	}
	for _, p := range f.prompts {
		out.Prompts = append(out.Prompts, client.PromptJSON(p))
	}
	for _, r := range f.runs {
		out.Runs = append(out.Runs, client.RunJSON(r))
	}
	return out
}
