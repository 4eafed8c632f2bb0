package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"spool/internal/access"
	"spool/internal/history"
	"spool/internal/mapped"
	"spool/internal/view"
)

// searchAll finds items of the sessions that the token is for.
func (a *api) searchAll(w http.ResponseWriter, r *http.Request) error {
	most, err := limit(r, 50, mostFound)
	if err != nil {
		return err
	}
	f, err := itemFilter(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	f.Tool, f.Role = q.Get("tool"), q.Get("role")
	var found []history.Match
	incomplete := false
	err = a.withItems(func(db *history.DB) (err error) {
		if incomplete, err = a.incomplete(r.Context(), db); err == nil {
			found, err = db.Find(r.Context(), q.Get("q"), f, int(most))
		}
		return err
	})
	if err != nil {
		return badFilter(err)
	}
	out := mapped.List(found, view.OfMatch)
	if incomplete && !wantsLines(r) {
		answer(w, http.StatusOK, map[string]any{"matches": out, "incomplete": true})
		return nil
	}
	return list(w, r, "matches", out, "")
}

// farBehind is how many items of the stream the index has not read yet when it is said to be incomplete: an agent at work is always
// some ahead of it.
const farBehind = 1000

// incomplete tells whether the index is being built. Who may read one session alone is told no more than that of the others. Where the
// server does not answer what there is is searched.
func (a *api) incomplete(ctx context.Context, db *history.DB) (bool, error) {
	at, err := db.Position(ctx)
	if err != nil || a.cfg.newest == nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	last, err := a.cfg.newest(ctx)
	return err == nil && last > at.Seq+farBehind, nil
}

// stats adds up the items of the sessions that the token is for.
func (a *api) stats(w http.ResponseWriter, r *http.Request) error {
	f, err := itemFilter(r)
	if err != nil {
		return err
	}
	var report history.Report
	err = a.withItems(func(db *history.DB) error {
		err := db.LearnOpenTurns(r.Context(), a.cfg.Client)
		if err == nil {
			report, err = db.Stats(r.Context(), f, cmp.Or(r.URL.Query().Get("by"), "project"), nil)
		}
		return err
	})
	if err != nil {
		return badFilter(err)
	}
	answer(w, http.StatusOK, report)
	return nil
}

// itemFilter is which items a request is about.
func itemFilter(r *http.Request) (f history.ItemFilter, err error) {
	q := r.URL.Query()
	f.Cwd, f.Within = q.Get("cwd"), access.From(r.Context()).Sessions
	if f.Session, err = asked(r); err == nil {
		err = badFilter(f.Between(q.Get("since"), q.Get("until"), time.Now().UTC()))
	}
	return f, err
}

func badFilter(err error) error {
	if errors.Is(err, history.ErrFilter) {
		err = fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return err
}

// found is what a query finds in the index of items.
func (a *api) found(ctx context.Context, query string, f history.ItemFilter, most int) (found []history.Match, err error) {
	err = a.withItems(func(db *history.DB) (err error) {
		found, err = db.Find(ctx, query, f, most)
		return err
	})
	return found, err
}

// withItems opens the index of items.
func (a *api) withItems(do func(*history.DB) error) error {
	if a.cfg.History == "" {
		return fmt.Errorf("%w: this process keeps no index of items; spool up and spool serve do", errNothing)
	}
	return history.With(history.ItemsFile(a.cfg.History), do)
}
