package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spool/internal/artifactstore"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// KeptName is What of Kept where other sessions have nothing of a deleted one but its name, as that of their parent.
const KeptName = "name"

// shared finds what other sessions have of a session: entries that it brought, artifacts whose bytes they name, and its name.
func (c *Client) shared(ctx context.Context, session string, infos map[string]sessions.Info) (kept []Kept, err error) {
	forks, err := c.sharing(ctx, session, infos)
	if err != nil { // what cannot be read keeps no session from being deleted
		kept = append(kept, Kept{What: "entries", Why: "other sessions may have them: " + err.Error()})
	}
	if len(forks.have) > 0 {
		kept = append(kept, Kept{What: "entries", Why: "forked sessions have them up to where they were forked", Sessions: forks.have})
	}
	if len(forks.may) > 0 {
		kept = append(kept, Kept{What: "entries", Sessions: forks.may, Why: "sessions forked from a thread that was removed may have them: " +
			"a session of that name was deleted before, and they may be that one's"})
	}
	if names := namers(session, infos, slices.Concat(forks.have, forks.may)); len(names) > 0 {
		kept = append(kept, Kept{What: KeptName, Why: "sessions say that they come from it", Sessions: names})
	}
	rows, err := c.Session(session).Artifacts(ctx)
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

// named finds what other sessions may have of one that is gone already, whose threads nobody can compare theirs with.
func (c *Client) named(ctx context.Context, session string) ([]Kept, error) {
	infos, err := c.infos(ctx, "")
	if err != nil {
		return nil, err
	}
	kept, heirs := []Kept{}, map[string]bool{}
	for id, info := range infos {
		if id != session && slices.Contains(strings.Fields(info.Origins), session) {
			heirs[id] = true
		}
	}
	if len(heirs) > 0 {
		kept = append(kept, Kept{What: "entries", Sessions: sorted(heirs),
			Why: "sessions forked from one of that name may have them, and artifacts: " +
				"this deletion was cut off, and what was the session's is not known any more"})
	}
	if names := namers(session, infos, sorted(heirs)); len(names) > 0 {
		kept = append(kept, Kept{What: KeptName, Why: "sessions say that they come from it", Sessions: names})
	}
	return kept, nil
}

// sharers are sessions whose threads have entries that a session brought, sorted; of some it is not known.
type sharers struct{ have, may []string }

// sharing finds the sessions whose threads have entries that a session brought, among those that were forked from it, or from one that was,
// and those that say that they come from it. What it finds is so beside an error, too, and may not be all.
func (c *Client) sharing(ctx context.Context, session string, infos map[string]sessions.Info) (found sharers, err error) {
	heirs := descendants(session, infos)
	if len(heirs) == 0 {
		return found, nil
	}
	own, err := c.brought(ctx, session, infos[session])
	errs := []error{err}
	removed, err := c.removed(ctx, session)
	errs = append(errs, err)
	before, err := c.deleted(ctx, session)
	errs = append(errs, err)
	for _, id := range heirs {
		has, err := c.hasAny(ctx, id, own)
		errs = append(errs, err)
		lost := false
		if !has && len(removed) > 0 {
			lost, err = c.forkOfAny(ctx, id, session, removed)
			errs = append(errs, err)
		}
		switch {
		case has || lost && before == nil:
			found.have = append(found.have, id)
		case lost:
			found.may = append(found.may, id)
		}
	}
	return found, errors.Join(errs...)
}

// namers are the sessions that say that they come from one, but for some: sorted.
func namers(of string, infos map[string]sessions.Info, but []string) []string {
	names := map[string]bool{}
	for id, info := range infos {
		if info.Parent == of && id != of && !slices.Contains(but, id) {
			names[id] = true
		}
	}
	return sorted(names)
}

// removed are the names of a session's threads that were removed, also after they were renamed: nothing says what entries they had.
func (c *Client) removed(ctx context.Context, session string) (map[string]bool, error) {
	rs, err := c.records.List(ctx, events.LeftKeysOf(session))
	if err != nil {
		return nil, err
	}
	to := map[string]string{}
	for _, r := range rs {
		if t, ok := events.ParseLeftKey(r.Key); ok {
			left, err := record.DecodeLeft(r.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Key, err)
			}
			to[t.Name] = left.To
		}
	}
	names := map[string]bool{}
	for name := range to {
		at, left := name, true
		for range to { // a name that is used again can lead in a circle
			if next := to[at]; left && next != "" {
				at = next
				_, left = to[at]
			}
		}
		names[name] = left
	}
	return names, nil
}

// forkOfAny reports whether a thread of a session goes on from a thread of another one with one of the names, behind entries that the other
// one brought.
func (c *Client) forkOfAny(ctx context.Context, id, session string, names map[string]bool) (bool, error) {
	ts, err := c.Session(id).Threads(ctx)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, t := range ts {
		if t.Unreadable {
			continue // hasAny says it
		}
		behind := false
		_, err := c.reader.Find(ctx, t.Head, func(st threads.State) bool {
			if from, ok := ForkedFrom(st); ok {
				behind = from.Session == session && names[from.Name]
				return false
			}
			return behind
		})
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, threads.ErrNoStep) {
			errs = append(errs, fmt.Errorf("%s: %w", t.Thread, err))
		}
	}
	return false, errors.Join(errs...)
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
	ts, err := c.Session(session).Threads(ctx)
	own, errs := map[casstore.Ref]int64{}, []error{err}
	for _, t := range ts {
		if t.Unreadable {
			errs = append(errs, fmt.Errorf("%s: %s", t.Thread, t.Head.Failure))
			continue
		}
		since := int64(0)
		if info.Parent != "" || info.Origins != "" {
			fork, err := c.reader.Find(ctx, t.Head, func(st threads.State) bool {
				from, ok := ForkedFrom(st)
				return ok && from.Session != session
			})
			if err != nil && !errors.Is(err, threads.ErrNoStep) {
				errs = append(errs, fmt.Errorf("%s: %w", t.Thread, err))
				continue
			}
			since = fork.Entry.Index
		}
		branches, err := c.reader.Branches(ctx, t.Head)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.Thread, err))
			continue
		}
		for _, at := range slices.Concat(branches...) {
			if before, ok := own[at.Ref]; !ok || since < before {
				own[at.Ref] = since
			}
		}
	}
	return own, errors.Join(errs...)
}

// hasAny reports whether threads of a session have a state that another session brought.
func (c *Client) hasAny(ctx context.Context, session string, own map[casstore.Ref]int64) (bool, error) {
	ts, err := c.Session(session).Threads(ctx)
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
