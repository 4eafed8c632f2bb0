package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/artifactstore"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// shared finds what other sessions have of a session: entries that it brought, and artifacts whose bytes they name.
func (c *Client) shared(ctx context.Context, session string) (kept []Kept, err error) {
	forks, err := c.sharing(ctx, session)
	if err != nil { // what cannot be read keeps no session from being deleted
		kept = append(kept, Kept{What: "entries", Why: "other sessions may have them: " + err.Error()})
	}
	if len(forks) > 0 {
		kept = append(kept, Kept{What: "entries", Why: "forked sessions have them up to where they were forked", Sessions: forks})
	}
	rows, err := c.Artifacts(ctx, session)
	if errors.Is(err, artifacts.ErrRecord) { // one that cannot be read goes as well: who else has its bytes is not known
		return append(kept, Kept{What: "artifacts", Why: "other sessions may have the same bytes: " + err.Error()}), nil
	}
	if err != nil {
		return nil, err
	}
	k, users := Kept{What: "artifacts", Why: "artifacts of other sessions have the same bytes"}, map[string]bool{}
	for _, a := range rows {
		if a.Locator == nil {
			continue
		}
		names, err := artifactstore.Of(c.conn, 0).NamedBy(ctx, a.Object)
		if err != nil {
			return nil, err
		}
		delete(names, session)
		if len(names) > 0 {
			k.Count, k.Bytes = k.Count+1, k.Bytes+max(a.Size, 0)
		}
		for s := range names {
			users[s] = true
		}
	}
	if k.Count > 0 {
		k.Sessions = sorted(users)
		kept = append(kept, k)
	}
	return kept, nil
}

// sharing are the sessions whose threads have entries that a session brought, sorted: of those that were forked from it, or
// from one that was, and of those that say that they come from it.
func (c *Client) sharing(ctx context.Context, session string) ([]string, error) {
	infos, err := c.infos(ctx, "")
	if err != nil {
		return nil, err
	}
	heirs := descendants(session, infos)
	if len(heirs) == 0 {
		return nil, nil
	}
	own, err := c.brought(ctx, session, infos[session])
	if err != nil {
		return nil, err
	}
	var found []string
	var errs []error
	for _, id := range heirs {
		has, err := c.hasAny(ctx, id, own)
		if has {
			found = append(found, id)
		}
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// descendants are the sessions that may come from one, through any number of others, which may be gone: sorted.
func descendants(of string, infos map[string]sessions.Info) []string {
	children := map[string][]string{}
	for id, info := range infos {
		for _, from := range append(strings.Fields(info.Origins), info.Parent) {
			children[from] = append(children[from], id)
		}
	}
	found := map[string]bool{}
	for open := []string{of}; len(open) > 0; {
		next := children[open[0]]
		open = open[1:]
		for _, id := range next {
			if id != of && !found[id] {
				found[id] = true
				open = append(open, id)
			}
		}
	}
	return sorted(found)
}

// brought are the states of a session's threads, each with the index of the first one of its thread that the session
// brought: those before it are of the session that the thread was forked from.
func (c *Client) brought(ctx context.Context, session string, info sessions.Info) (map[casstore.Ref]int64, error) {
	ts, err := c.Threads(ctx, session)
	own := map[casstore.Ref]int64{}
	for _, t := range ts {
		if t.Unreadable {
			return nil, fmt.Errorf("%s: %s", t.Thread, t.Head.Failure)
		}
		since := int64(0)
		if info.Parent != "" || info.Origins != "" {
			fork, err := c.reader.Find(ctx, t.Head, func(st threads.State) bool {
				from, ok := forkedFrom(st)
				return ok && from.Session != session
			})
			if err != nil && !errors.Is(err, threads.ErrNoStep) {
				return nil, fmt.Errorf("%s: %w", t.Thread, err)
			}
			since = fork.Entry.Index
		}
		branches, err := c.reader.Branches(ctx, t.Head)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Thread, err)
		}
		for _, at := range slices.Concat(branches...) {
			if before, ok := own[at.Ref]; !ok || since < before {
				own[at.Ref] = since
			}
		}
	}
	return own, err
}

// hasAny reports whether threads of a session have a state that another session brought.
func (c *Client) hasAny(ctx context.Context, session string, own map[casstore.Ref]int64) (bool, error) {
	ts, err := c.Threads(ctx, session)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, t := range ts {
		if t.Unreadable {
			errs = append(errs, fmt.Errorf("%s: %s", t.Thread, t.Head.Failure))
			continue
		}
		branches, err := c.reader.Branches(ctx, t.Head)
		errs = append(errs, err)
		for _, places := range branches {
			i := slices.IndexFunc(places, func(l casstore.Located) bool { _, both := own[l.Ref]; return both })
			if i < 0 {
				continue
			}
			st, err := c.reader.State(ctx, places[i]) // the newest of the branch that both have
			if err == nil && st.Entry.Index >= own[places[i].Ref] {
				return true, nil
			}
			errs = append(errs, err)
		}
	}
	return false, errors.Join(errs...)
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}
