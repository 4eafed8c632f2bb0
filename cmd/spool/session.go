package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spool/internal/interchange"
	"spool/internal/mapped"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

type sessionCmd struct {
	Ls     sessionLsCmd     `cmd:"" aliases:"list" help:"List sessions, newest first."`
	Show   sessionShowCmd   `cmd:"" help:"Show what is known of a session beside its listing: where its files lay, and its threads."`
	Resume sessionResumeCmd `cmd:"" help:"Find a session by the beginning of its id, and say how to go on with it."`
	Latest sessionLatestCmd `cmd:"" help:"Find the session that this terminal resumed last, or the newest of this directory."`
	Export sessionExportCmd `cmd:"" help:"Write a session into a directory that oh-my-pi opens."`

	Materialize sessionMaterializeCmd `cmd:"" help:"Write a session where its harness finds it."`

	Tree    sessionTreeCmd    `cmd:"" help:"Show the entries of a session as they go on from each other."`
	Context sessionContextCmd `cmd:"" help:"Show what the model is sent at the leaf, or at another entry."`
	Branch  sessionBranchCmd  `cmd:"" help:"Move the leaf to an entry: the next one goes after it."`
	Reset   sessionResetCmd   `cmd:"" help:"Take the leaf away: the next entry is a new root."`
	Label   sessionLabelCmd   `cmd:"" help:"Give an entry a label, or take it away."`
	New     sessionNewCmd     `cmd:"" help:"Begin a session, with its directory and the session that it goes on from."`
	Fork    sessionForkCmd    `cmd:"" help:"Make a session of another one under a new id; nothing is copied."`
	Name    sessionNameCmd    `cmd:"" help:"Give a session a title; spool thread rename gives a thread another name."`
	Move    sessionMoveCmd    `cmd:"" help:"Make a session one of another directory, for ls, resume and export."`
	Rm      sessionRmCmd      `cmd:"" help:"Remove sessions, with all that belongs to them."`
}

type sessionLsCmd struct {
	All        bool   `xor:"scope" help:"Sessions of all directories."`
	Cwd        string `xor:"scope" placeholder:"DIR" help:"Sessions of this directory (default: the current one)."`
	Unanswered bool   `help:"Also those that no agent has answered in yet."`
	State      string `default:"" enum:",waiting,running,failed,idle,done" placeholder:"STATE" help:"Only those that are waiting (for an answer), running, failed, idle or done."`
	Limit      *int   `placeholder:"N" help:"At most so many, 0 for all (default: 50 on a terminal, else all)."`
	After      string `placeholder:"PLACE" help:"Go on behind a list of so many: it says which place."`
	JSON       bool   `help:"Each session as one line of JSON."`
}

const (
	onTerminal = 50     // sessions that a terminal lists unless told how many
	mostPaged  = 10_000 // beyond that all are read, and counted
	mostLooked = 20_000 // records, where nobody says how many sessions to list
)

// most is how many to list; 0: all.
func (c *sessionLsCmd) most(a *app) int {
	switch {
	case c.Limit != nil:
		return *c.Limit
	case c.After != "" || !c.JSON && service.IsTerminal(a.out):
		return onTerminal
	}
	return 0
}

func (c *sessionLsCmd) Run(a *app) error {
	q := sessions.Query{Unanswered: c.Unanswered, Limit: c.most(a)}
	if !c.All {
		var err error
		if q.Cwd, err = filepath.Abs(c.Cwd); err != nil {
			return err
		}
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	list, hidden, err := c.read(a, cl, q)
	if err != nil {
		return err
	}
	if hidden != "" {
		defer fmt.Fprintln(a.err, hidden)
	}
	if c.JSON {
		return jsonLines(json.NewEncoder(a.out), list, func(s view.ListedSession) view.Session { return s.View })
	}
	if len(list) == 0 {
		fmt.Fprintln(a.err, "no sessions found")
		return nil
	}
	t := a.table()
	t.Short = a.short(cl, nil)
	fmt.Fprintln(t, "SESSION\tHARNESS\tSTATE\tMESSAGES\tSIZE\tMODIFIED\tNAME")
	for _, s := range list {
		r := s.Row()
		name := r.Name()
		if c.All && r.Cwd != "" {
			name += "  (" + r.Cwd + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.ID, r.Agent(), s.View.State, r.Messages, text.Bytes(r.Size),
			text.Ago(r.Modified, time.Now()), text.Printable(name))
	}
	return t.Flush()
}

// read gives the sessions that a query chooses, and what it leaves out.
func (c *sessionLsCmd) read(a *app, cl *client.Client, q sessions.Query) (list []view.ListedSession, hidden string, err error) {
	views := view.NewReader(cl)
	if 0 < q.Limit && q.Limit <= mostPaged {
		query := client.SessionQuery{Query: q, After: c.After}
		if c.Limit == nil {
			query.Most = mostLooked
		}
		list, at, err := views.Page(a.ctx, query, c.State)
		return list, uncounted(q, at.Next, at.Back), err
	}
	if c.After != "" {
		return nil, "", service.UsageError{Err: fmt.Errorf("--after needs a --limit of 1 to %d", mostPaged)}
	}
	if list, err = views.Sessions(a.ctx, ""); err != nil {
		return nil, "", err
	}
	if c.State != "" {
		list = slices.DeleteFunc(list, func(s view.ListedSession) bool { return s.View.State != c.State })
	}
	rows, of := make([]sessions.Row, len(list)), make(map[string]view.ListedSession, len(list))
	for i, s := range list {
		rows[i], of[s.ID] = s.Row(), s
	}
	hidden, list = hiddenSessions(rows, q), nil
	for _, r := range sessions.List(rows, q) {
		list = append(list, of[r.ID])
	}
	return list, hidden, nil
}

// uncounted says what a query that was not answered from all sessions may leave out, where the list goes on, and back to when it looked,
// where it did not look for all; "" when that is nothing.
func uncounted(q sessions.Query, next string, back time.Time) string {
	var why []string
	switch {
	case !back.IsZero():
		why = append(why, fmt.Sprintf("that were stored before %s (--after %s)", back.Local().Format(time.DateTime), next))
	case next != "":
		why = append(why, fmt.Sprintf("beyond --limit (0 for all, or --after %s)", next))
	}
	if q.Cwd != "" {
		why = append(why, "of other directories or none (--all)")
	}
	if !q.Unanswered {
		why = append(why, "in which no agent has answered yet (--unanswered)")
	}
	if why == nil {
		return ""
	}
	return "not listed, where there are any: sessions " + strings.Join(why, ", ")
}

// hiddenSessions says how many sessions a query leaves out, why, and what would list them; "" when it leaves out none.
func hiddenSessions(rows []sessions.Row, q sessions.Query) string {
	count := func(q sessions.Query) int { return len(sessions.List(slices.Clone(rows), q)) }
	here := count(sessions.Query{Cwd: q.Cwd, Unanswered: true})
	most := count(sessions.Query{Cwd: q.Cwd, Unanswered: q.Unanswered})
	var why []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(rows) - here, "of other directories or none (--all)"},
		{here - most, "in which no agent has answered yet (--unanswered)"},
		{most - count(q), "beyond --limit"},
	} {
		if part.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if why == nil {
		return ""
	}
	return fmt.Sprintf("not listed of %d sessions: %s", len(rows), strings.Join(why, ", "))
}

func rowsOf(list []client.Session) []sessions.Row {
	return mapped.List(list, func(s client.Session) sessions.Row { return s.Row() })
}

type sessionShowCmd struct {
	Session string `arg:"" help:"The session, or the beginning of its id."`
	JSON    bool   `help:"The session as one line of JSON."`
}

func (c *sessionShowCmd) Help() string {
	return "A file is shown as it was when its newest lines were imported. A thread main-was-… is what main was before its file was " +
		"rewritten, or the other one of two copies that both go on. spool show SESSION shows who said what."
}

func (c *sessionShowCmd) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	id, err := a.session(cl, c.Session)
	if err != nil {
		return err
	}
	s, err := view.NewReader(cl).Session(a.ctx, id)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(s)
	}
	t := text.NewTable(a.out)
	for _, fact := range [][2]string{
		{"session", s.ID}, {"name", s.Name}, {"state", s.State}, {"harness", s.Harness}, {"model", s.Model}, {"directory", s.Cwd}, {"branch", s.Branch},
		{"parent", s.Parent}, {"host", s.Host}, {"file", s.File}, {"created", s.Created}, {"modified", s.Modified},
	} {
		if fact[1] != "" {
			fmt.Fprintf(t, "%s\t%s\n", fact[0], text.Printable(fact[1]))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	t = a.table()
	fmt.Fprintln(t, "THREAD\tENTRIES\tFILE SIZE\tWRITTEN\tHOME\tSHA-256")
	for _, th := range s.ThreadList {
		f := view.Captured{}
		if th.Captured != nil {
			f = *th.Captured
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", th.Thread, th.Entries, f.Size, cmp.Or(f.Modified, "-"),
			text.Printable(cmp.Or(strings.Trim(f.Host+":"+f.Home, ":"), "-")), cmp.Or(f.Sum, "-"))
	}
	return t.Flush()
}

type sessionResumeCmd struct {
	Prefix string `arg:"" help:"Beginning of the id; letter case does not matter. It must name one session, at least in this directory."`
	JSON   bool   `help:"The session as one line of JSON."`
}

func (c *sessionResumeCmd) Run(a *app) error {
	if c.Prefix == "" {
		return service.UsageError{Err: errors.New("the prefix is empty; spool session latest finds the newest session")}
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	row, err := a.resumable(cl, cwd, c.Prefix)
	if err != nil {
		return err
	}
	return a.resume(cl, row, c.JSON)
}

type sessionLatestCmd struct {
	JSON bool `help:"The session as one line of JSON."`
}

func (c *sessionLatestCmd) Run(a *app) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	if b := readBreadcrumb(); b.cwd == cwd && b.session != "" {
		here, err := cl.Sessions(a.ctx, b.session)
		if err != nil {
			return err
		}
		if len(here) > 0 {
			return a.resume(cl, here[0].Row(), c.JSON)
		}
	}
	page, err := cl.SessionPage(a.ctx, client.SessionQuery{Query: sessions.Query{Cwd: cwd, Limit: 1}, Most: mostLooked})
	if err != nil {
		return err
	}
	if len(page.Sessions) == 0 {
		return noneIn(cwd, page.Back)
	}
	return a.resume(cl, page.Sessions[0].Row(), c.JSON)
}

// noneIn is that a directory has no session, of those that were stored since a time if it is not zero.
func noneIn(cwd string, back time.Time) error {
	err := fmt.Errorf("%w in %s", sessions.ErrNoSession, cwd)
	if !back.IsZero() {
		err = fmt.Errorf("%w among those that were stored since %s: spool session ls --limit 1 looks at all", err,
			back.Local().Format(time.DateTime))
	}
	return fmt.Errorf("%w; spool session ls --all lists those of other directories", err)
}

// resume prints a session and remembers it for this terminal.
func (a *app) resume(cl *client.Client, r sessions.Row, asJSON bool) error {
	leaveHere(r.ID)
	s, err := view.NewReader(cl).Session(a.ctx, r.ID)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(a.out).Encode(s)
	}
	facts := []string{s.State, text.Sprintf("%d messages", r.Messages), text.Ago(r.Modified, time.Now())}
	if agent := r.Agent(); agent != "" {
		facts = append([]string{agent}, facts...)
	}
	_, err = fmt.Fprintf(a.out, "%s\n%s\n%s\n\n%s\n", r.ID, text.Printable(r.Name()), strings.Join(facts, ", "), goOn(r))
	return err
}

// goOn is the command that continues a session in its harness, on any machine; without one, that which shows it.
func goOn(r sessions.Row) string {
	if _, ok := interchange.HarnessOf(r.Info); ok {
		return "spool resume " + r.ID
	}
	switch r.Agent() {
	case "opencode": // it keeps sessions in a database, and takes documents
		return fmt.Sprintf("spool export %[1]s >%[1]s.json && opencode import %[1]s.json && opencode --session %[1]s", r.ID)
	case "acp": // its agent need not be here, nor be one that keeps sessions
		return "an editor that starts its agent with spool exec --acp, on any machine, and lists it"
	}
	return "spool tail --all " + r.ID
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func checkNames(session, thread string) error {
	err := events.CheckToken("session", session)
	if thread != "" {
		err = errors.Join(err, events.CheckToken("thread", thread))
	}
	return err
}
