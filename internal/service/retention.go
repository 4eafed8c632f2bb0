package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/retention"
	"spool/internal/sessionstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// RetentionReport is what policies say about the sessions that there are, and what was done about it.
type RetentionReport struct {
	At       string             `json:"at"`
	Policies []retention.Policy `json:"policies"`
	Sessions int                `json:"sessions"`
	Due      []retention.Due    `json:"due"`
	Bytes    int64              `json:"bytes"` // of the entries of those that are due
	Applied  bool               `json:"applied"`
	Removed  []string           `json:"removed"`
	Errors   []string           `json:"errors"`
	Taken    int                `json:"taken_up,omitempty"` // of those that were due: something happened in them meanwhile
	Refused  string             `json:"refused,omitempty"`  // why nothing is removed

	seen uint64 // sequence of the newest record before anything was looked at
}

// Retention removes sessions by policies.
type Retention struct {
	Conn     *natsio.Conn
	Policies []retention.Policy
	By       string // for the receipts
	Log      *slog.Logger
	Share    float64          // most that may go at a time of all sessions, 0 to 1; 0 = retention.DefaultShare
	Damaged  bool             // apply although something that was lost stands, or a clock is wrong (gc.BrakeDamage)
	Now      func() time.Time // this host's clock; nil: time.Now
}

// deleteWait is how long one session may take: without a persister it would be for ever.
const deleteWait = time.Minute

// Report says what the policies would remove, and remembers it: Run applies policies that were reported before.
func (r Retention) Report(ctx context.Context) (RetentionReport, error) {
	rep, err := r.look(ctx)
	if err != nil {
		return rep, err
	}
	return rep, r.remember(ctx, rep)
}

// Apply removes what the policies say, session by session, and goes on when one can not be removed. One in which something happens
// meanwhile stays. retention.ErrBrake: too much would go, or a clock is wrong; gc.ErrBrake: something was lost
// (Refuse).
func (r Retention) Apply(ctx context.Context) (RetentionReport, error) {
	rep, err := r.look(ctx)
	if err != nil {
		return rep, err
	}
	err = retention.Brake(len(rep.Due), rep.Sessions, r.Share)
	if err == nil && !r.Damaged {
		err = Refuse(ctx, r.Conn)
	}
	if err != nil {
		rep.Refused = err.Error()
		return rep, errors.Join(err, r.remember(ctx, rep))
	}
	rep.Applied = true
	cl := client.New(r.Conn)
	var errs []error
	for _, d := range rep.Due {
		if err := ctx.Err(); err != nil {
			return rep, errors.Join(append(errs, err)...)
		}
		one, cancel := context.WithTimeout(ctx, deleteWait)
		_, err := cl.Session(d.Session).Delete(one, client.Deletion{By: r.By, Plain: true, UnchangedSince: rep.seen})
		cancel()
		switch {
		case errors.Is(err, client.ErrSessionWritten):
			rep.Taken++
			r.Log.Info("session stays: something happened in it", "session", d.Session, "policy", d.Policy)
		case err == nil:
			rep.Removed = append(rep.Removed, d.Session)
			r.Log.Info("session removed", "session", d.Session, "policy", d.Policy, "reason", d.Why)
		case !errors.Is(err, client.ErrSessionNotFound): // else somebody was faster
			err = fmt.Errorf("session %s: %w", d.Session, err)
			rep.Errors, errs = append(rep.Errors, err.Error()), append(errs, err)
		}
	}
	return rep, errors.Join(append(errs, r.remember(ctx, rep))...)
}

// Run is Report the first time that it sees policies, and Apply from then on. No policies are nothing to do, and so is a dry run.
func (r Retention) Run(ctx context.Context, dry bool) error {
	if len(r.Policies) == 0 || dry {
		return nil
	}
	last, err := LastRetention(ctx, r.Conn.Records())
	if err != nil {
		return err
	}
	if last == nil || !same(last.Policies, r.Policies) {
		rep, err := r.Report(ctx)
		r.Log.Info("retention policies are new: this time what they would remove is only reported; see spool retention report",
			"sessions", len(rep.Due), "bytes", rep.Bytes)
		return err
	}
	rep, err := r.Apply(ctx)
	if len(rep.Removed) > 0 {
		r.Log.Info("retention", "removed", len(rep.Removed), "due", len(rep.Due), "taken_up", rep.Taken)
	}
	return err
}

func same(a, b []retention.Policy) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// look finds what is due.
func (r Retention) look(ctx context.Context) (rep RetentionReport, err error) {
	if err := retention.Validate(r.Policies); err != nil {
		return rep, UsageError{Err: err}
	}
	if r.Share < 0 || r.Share > 1 {
		return rep, UsageError{Err: fmt.Errorf("share %v of the sessions: use 0 to 1", r.Share)}
	}
	ctx = natsio.Patient(ctx)
	now, err := r.clock(ctx)
	if err != nil {
		return rep, err
	}
	rep = RetentionReport{At: now.UTC().Format(time.RFC3339), Policies: r.Policies, Due: []retention.Due{},
		Removed: []string{}, Errors: []string{}}
	last, err := r.Conn.Streams().LastSeqs(ctx, events.RecordsStream)
	if err != nil {
		return rep, err
	}
	rep.seen = last[events.RecordsStream]
	when, err := sessionstore.Of(r.Conn).Active(ctx)
	if err != nil {
		return rep, err
	}
	cl := client.New(r.Conn)
	list, err := cl.Sessions(ctx, "")
	if err != nil {
		return rep, err
	}
	active, err := r.active(ctx, cl)
	if err != nil {
		return rep, err
	}
	needed := map[string]bool{}
	for _, s := range list {
		if s.Base != s.ID {
			needed[s.Base] = true
		}
	}
	all := make([]retention.Session, len(list))
	for i, s := range list {
		row := s.Row()
		all[i] = retention.Session{ID: s.ID, Cwd: s.Cwd, Harness: s.Harness, Title: row.Name(), Bytes: row.Size,
			Active: active[s.ID] || s.Unreadable() || needed[s.ID]}
		if at, ok := when[s.ID]; ok {
			all[i].Modified = at.UnixMilli()
		}
	}
	rep.Sessions = len(all)
	rep.Due = append(rep.Due, retention.Plan(r.Policies, all, now)...)
	for _, d := range rep.Due {
		rep.Bytes += d.Bytes
	}
	return rep, nil
}

// clock is the store's, by which ages are told, if this host agrees.
func (r Retention) clock(ctx context.Context) (time.Time, error) {
	now := r.Now
	if now == nil {
		now = time.Now
	}
	store, err := sessionstore.Of(r.Conn).Clock(ctx)
	if err == nil {
		err = retention.CheckClocks(store, now())
	}
	return store, err
}

// active is the sessions in which a run or an output is live, or that wait for a person.
func (r Retention) active(ctx context.Context, cl *client.Client) (map[string]bool, error) {
	active := map[string]bool{}
	runs, err := cl.EverySession().Runs(ctx)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		if run.Active() {
			active[run.Thread.Session] = true
		}
	}
	outputs, err := cl.EverySession().Outputs(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range outputs {
		active[o.Thread.Session] = true
	}
	prompts, err := cl.EverySession().Prompts(ctx)
	for _, p := range prompts {
		if p.Answerable {
			active[p.Thread.Session] = true
		}
	}
	return active, err
}

func (r Retention) remember(ctx context.Context, rep RetentionReport) error {
	const most = 1000 // of a record's room; the report itself has all
	rep.Due, rep.Removed, rep.Errors = rep.Due[:min(len(rep.Due), most)], rep.Removed[:min(len(rep.Removed),
		most)], rep.Errors[:min(len(rep.Errors), most)]
	b, err := json.Marshal(rep)
	if err == nil {
		_, err = r.Conn.Records().Write(ctx, record.Put{Key: events.RetentionKey, Value: b, Expect: record.Any})
	}
	if err != nil {
		return fmt.Errorf("remember the retention report: %w", err)
	}
	return nil
}

// LastRetention is the newest report, in which at most 1,000 sessions are named; nil if there is none.
func LastRetention(ctx context.Context, records natsio.Records) (*RetentionReport, error) {
	rs, err := records.Records(ctx, events.RetentionKey)
	if err != nil || !rs[0].Exists() {
		return nil, err
	}
	var rep RetentionReport
	if err := jsonscan.Decode(rs[0].Value, &rep); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", events.RetentionKey, record.ErrValue, err)
	}
	return &rep, nil
}
