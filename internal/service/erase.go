package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"spool/internal/artifactstore"
	"spool/internal/gc"
	"spool/internal/gc/gcnats"
	"spool/internal/history"
	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/internal/sessionstore"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Erasure is the deletion of sessions with everything that nothing else has of them, at once: what the streams hold of them is
// written over, and cycles of gc without quarantine take their packs and blobs, whose bytes are written over too. A pack in
// which other sessions have nodes is repacked without theirs.
//
//	survey      which packs, blobs and artifacts the sessions have
//	delete      client.SessionHandle.Delete
//	overwrite   events, items, dead letters, artifacts
//	collect     until a plan finds no garbage of theirs
//	look        what of the survey is still there: what other sessions have too
//
// A crash leaves deleted sessions; erasing them again overwrites the rest of the streams, and drops what the survey is missing
// for without overwriting it.
type Erasure struct {
	Conn *natsio.Conn
	How  client.Deletion
	// Allow takes brakes off the collection. share and no-roots are off by themselves when a plan that is made before the
	// deletion brakes for nothing: what is garbage behind it is the sessions'.
	Allow []gc.Brake
	// Histories are files of prompt histories in which the sessions are to be forgotten.
	Histories []string
	Log       *slog.Logger
}

// cycles is how many cycles of gc an erasure waits for at most: one names the garbage inside of packs, the next repacks them, the
// third drops the packs that these were.
const cycles = 6

// Run erases the sessions. A receipt is for a session that is gone; the error says about the others, and what could not be done.
func (e Erasure) Run(ctx context.Context, names ...string) ([]client.Receipt, error) {
	if !slices.Contains(e.Allow, gc.BrakeDamage) {
		if err := Refuse(ctx, e.Conn); err != nil {
			return nil, err
		}
	}
	cl := client.New(e.Conn)
	var errs []error
	found := map[string]*evidence{}
	victims := map[string]bool{}
	for _, name := range names {
		if err := events.CheckToken("session", name); err != nil {
			return nil, UsageError{Err: err}
		}
		ev, err := survey(ctx, e.Conn.Records(), cl, name)
		if err != nil {
			e.Log.Warn("not all that the session has could be found", "session", name, "error", err)
		}
		found[name] = ev
		maps.Copy(victims, ev.tokens)
	}
	over := &overwriting{
		Objects: e.Conn.Objects(), store: sessionstore.Of(e.Conn), victims: victims, sessions: map[string]bool{},
		done: map[string]*sessionstore.Overwritten{},
	}
	for _, name := range names {
		over.sessions[name] = true
	}
	allow := e.Allow
	if p, err := e.plan(ctx, over, nil); err == nil && len(p.Brakes) == 0 {
		allow = append(slices.Clone(allow), gc.BrakeShare, gc.BrakeRoots)
	}
	e.How.Erase = true
	var out []client.Receipt
	whole := map[string]bool{} // what the streams held of them is written over
	for _, name := range names {
		r, err := e.delete(ctx, cl, name, found[name], over)
		if r.Deleted {
			out = append(out, r)
		}
		whole[name] = err == nil
		if err != nil {
			errs = append(errs, fmt.Errorf("session %s: %w", name, err))
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	done, err := e.collect(ctx, over, allow)
	if err != nil {
		done.Refused = err.Error()
		errs = append(errs, fmt.Errorf("the sessions are deleted, and not all of their bytes are: %w", err))
	}
	for i := range out {
		r := &out[i]
		r.Collected = &done
		r.Overwritten = over.with(r.Overwritten)
		kept, err := found[r.Session].look(ctx, e.Conn.Records(), e.Conn.Store(0), r.Kept)
		r.Kept = append(r.Kept, kept...)
		r.MayRemain = remains(r)
		if err == nil && done.Refused == "" && whole[r.Session] { // else whoever erases it again goes on
			err = cl.Admin().Erased(ctx, r.Session)
		}
		errs = append(errs, err, Forget(ctx, e.Histories, r.Session))
	}
	return out, errors.Join(errs...)
}

// delete deletes a session and overwrites what the streams hold of it, and its artifacts.
func (e Erasure) delete(ctx context.Context, cl *client.Client, name string, ev *evidence, over *overwriting) (client.Receipt, error) {
	r, err := cl.Session(name).Delete(ctx, e.How)
	if err != nil {
		return r, err
	}
	streams, err := cl.Internal().EraseStreams(ctx, name)
	r.Overwritten = slices.DeleteFunc(streams, func(w sessionstore.Overwritten) bool { return w.Messages == 0 })
	if err != nil {
		return r, err
	}
	for _, o := range ev.artifacts {
		users, err := artifactstore.Of(e.Conn, 0).NamedBy(ctx, o.Name)
		if err == nil && len(users) == 0 {
			err = over.Reclaim(ctx, o)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// collect runs cycles until nothing of the sessions is left to be collected.
func (e Erasure) collect(ctx context.Context, over *overwriting, allow []gc.Brake) (done client.Collected, err error) {
	for range cycles {
		p, err := e.plan(ctx, over, allow)
		if err != nil {
			return done, err
		}
		done.Unnamed, done.UnnamedBytes = p.Kept.Unnamed, p.Kept.UnnamedBytes
		if p.Empty() {
			return done, nil
		}
		c, err := e.collector(over, allow)
		if err != nil {
			return done, err
		}
		r := c.Report(p)
		r.Done, err = c.Apply(ctx, p)
		r.Applied = !errors.Is(err, gc.ErrNotBegun)
		done.Condemned += r.Done.Condemned
		done.Repacked += r.Done.Repacked
		done.Reclaimed += r.Done.Reclaimed
		done.Bytes += r.Done.Bytes
		if err != nil {
			r.Refused = err.Error()
		}
		if err := StoreReport(ctx, e.Conn, &r, err); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (e Erasure) collector(over *overwriting, allow []gc.Brake) (*gc.Collector, error) {
	cfg := gc.Safe()
	cfg.Dense, cfg.Allow, cfg.Erased = true, allow, over.sessions
	deps := gcnats.Deps(e.Conn, cfg.Lane)
	deps.Bulk, deps.Log, deps.Alarms = over, e.Log, alarms(e.Conn)
	return gc.New(deps, cfg)
}

func (e Erasure) plan(ctx context.Context, over *overwriting, allow []gc.Brake) (*gc.Plan, error) {
	c, err := e.collector(over, allow)
	if err != nil {
		return nil, UsageError{Err: err}
	}
	return c.Plan(ctx)
}

// overwriting is the object buckets of a collector that writes over what the sessions had, instead of dropping it alone.
type overwriting struct {
	natsio.Objects
	store    *sessionstore.Store
	victims  map[string]bool // tokens of their objects
	sessions map[string]bool
	done     map[string]*sessionstore.Overwritten
}

// Reclaim implements gc.Bulk.
func (o *overwriting) Reclaim(ctx context.Context, obj record.Object) error {
	if !o.victims[obj.NUID] {
		return o.Objects.Reclaim(ctx, obj)
	}
	w, err := o.store.OverwriteObject(ctx, obj)
	if o.done[w.Stream] == nil {
		o.done[w.Stream] = &sessionstore.Overwritten{Stream: w.Stream}
	}
	sum := o.done[w.Stream]
	sum.Messages, sum.Bytes = sum.Messages+w.Messages, sum.Bytes+w.Bytes
	return err
}

// with adds what was overwritten in the buckets, of all sessions together.
func (o *overwriting) with(streams []sessionstore.Overwritten) []sessionstore.Overwritten {
	for _, name := range slices.Sorted(maps.Keys(o.done)) {
		if w := o.done[name]; w.Messages > 0 {
			streams = append(streams, *w)
		}
	}
	return streams
}

// evidence is what a session had in the store.
type evidence struct {
	nodes     map[casstore.PackID]map[casstore.Ref]bool
	blobs     map[casstore.Ref]int64 // bytes
	artifacts []record.Object
	tokens    map[string]bool // of the objects of all of these
}

// survey finds it. Beside an error it is what was found until then.
func survey(ctx context.Context, records natsio.Records, cl *client.Client, session string) (*evidence, error) {
	ev := &evidence{nodes: map[casstore.PackID]map[casstore.Ref]bool{}, blobs: map[casstore.Ref]int64{}, tokens: map[string]bool{}}
	rows, err := cl.Session(session).Artifacts(ctx)
	if err != nil {
		return ev, err
	}
	for _, a := range rows {
		if a.Locator == nil {
			continue
		}
		o, err := record.DecodeLocator(a.Locator)
		if err != nil {
			return ev, err
		}
		ev.artifacts, ev.tokens[o.NUID] = append(ev.artifacts, o), true
	}
	ts, err := cl.Session(session).Threads(ctx)
	if err != nil {
		return ev, err
	}
	seen := map[casstore.Ref]bool{}
	var errs []error
	for _, t := range ts {
		if t.Unreadable {
			return ev, fmt.Errorf("%s: what it leads to is not known: %s", t.Thread, t.Head.Failure)
		}
		ev.add(t.Head.Start)
		ev.add(t.Head.Older)
		ev.add(t.Head.Seen)
		for root, err := range cl.Reader().Newest(ctx, t.Head, 0) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			errs = append(errs, ev.walk(ctx, cl.Reader(), root, seen))
		}
	}
	return ev, errors.Join(append(errs, ev.locate(ctx, records))...)
}

func (ev *evidence) add(l casstore.Located) {
	if l.IsZero() || l.Ref.Kind() == casstore.KindBlob {
		return
	}
	if ev.nodes[l.Pack] == nil {
		ev.nodes[l.Pack] = map[casstore.Ref]bool{}
	}
	ev.nodes[l.Pack][l.Ref] = true
}

func (ev *evidence) walk(ctx context.Context, r threads.Reader, from casstore.Located, seen map[casstore.Ref]bool) error {
	for step, err := range r.Walk(ctx, from) {
		if err != nil {
			return err
		}
		if seen[step.At.Ref] {
			return nil
		}
		seen[step.At.Ref] = true
		ev.add(step.At)
		content, err := step.ReadContent(ctx)
		if err != nil {
			return err
		}
		for _, ref := range append(content.Refs, step.State.Content) {
			if ref.Kind() == casstore.KindBlob {
				ev.blobs[ref] = 0
			} else if l, err := step.Locate(ref); err == nil { // else it is another's, which the content names
				ev.add(l)
			}
		}
	}
	return nil
}

// locate learns where the bytes are.
func (ev *evidence) locate(ctx context.Context, records natsio.Records) error {
	for id := range ev.nodes {
		p, err := records.FindPack(ctx, id)
		if err != nil {
			return err
		}
		ev.tokens[p.Pack.Object.NUID] = true
	}
	return ev.eachBlob(ctx, records, func(ref casstore.Ref, b record.Blob) {
		ev.blobs[ref], ev.tokens[b.Object.NUID] = b.Object.Size, true
	})
}

// eachBlob tells every blob of the session that is stored now.
func (ev *evidence) eachBlob(ctx context.Context, records natsio.Records, f func(casstore.Ref, record.Blob)) error {
	for refs := range slices.Chunk(slices.Collect(maps.Keys(ev.blobs)), 1000) {
		keys := mapped.List(refs, func(ref casstore.Ref) string { return events.BlobKey(ref.Hex()) })
		rs, err := records.Records(ctx, keys...)
		if err != nil {
			return err
		}
		for i, r := range rs {
			if !r.Exists() {
				continue
			}
			b, err := record.DecodeBlob(r.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Key, err)
			}
			if !b.Gone {
				f(refs[i], b)
			}
		}
	}
	return nil
}

// look finds what of it is still stored. already is what is known of other sessions that have something.
func (ev *evidence) look(
	ctx context.Context, records natsio.Records, packs casstore.PackGetter, already []client.Kept,
) (kept []client.Kept, err error) {
	var users []string
	for _, k := range already {
		if k.What != client.KeptName {
			users = append(users, k.Sessions...)
		}
	}
	slices.Sort(users)
	users = slices.Compact(users)
	const why = "threads of other sessions refer to them, or to the same bytes"
	nodes, blobs := client.Kept{What: "nodes", Why: why, Sessions: users}, client.Kept{What: "blobs", Why: why, Sessions: users}
	for id, refs := range ev.nodes {
		p, err := packs.Pack(ctx, id)
		if errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for ref := range refs {
			if b, err := p.Encoded(ref); err == nil {
				nodes.Count, nodes.Bytes = nodes.Count+1, nodes.Bytes+int64(len(b))
			}
		}
	}
	err = ev.eachBlob(ctx, records, func(_ casstore.Ref, b record.Blob) {
		blobs.Count, blobs.Bytes = blobs.Count+1, blobs.Bytes+b.Object.Size
	})
	for _, k := range []client.Kept{nodes, blobs} {
		if k.Count > 0 {
			kept = append(kept, k)
		}
	}
	return kept, err
}

// remains says where bytes can be that no name leads to, and that nobody can write over.
func remains(r *client.Receipt) []string {
	list := []string{
		"KV_spool: earlier revisions of the session's records, among them its title and the beginning of its first prompt, " +
			"until the server rewrites their blocks",
		"OBJ_spool_inbox, and packs that were repacked before: what went through them was dropped then, " +
			"and is in their blocks until the server rewrites those",
		fmt.Sprintf("the record %s: the session's name, when it was deleted and by whom", events.DeletedKey(r.Session)),
		"outside of Spool: backups, exports, what subscribers have read, prompt histories and indexes of items on other machines",
	}
	if n := r.Collected.Unnamed; n > 0 {
		list = append([]string{fmt.Sprintf("%s in %d objects that no record names, and that are not of the session: "+
			"cycles of gc take them in a day",
			text.Bytes(r.Collected.UnnamedBytes), n)}, list...)
	}
	if r.Collected.Refused != "" {
		list = append([]string{"OBJ_spool_nodes, OBJ_spool_blobs: not all was collected: " + r.Collected.Refused}, list...)
	}
	return list
}

// Forget makes prompt histories, and the indexes of items beside them, forget a session, also in their files. Those that are not there
// have nothing to forget.
func Forget(ctx context.Context, files []string, session string) error {
	var errs []error
	for _, kept := range files {
		for _, file := range []string{kept, history.ItemsFile(kept)} {
			if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
				continue
			}
			errs = append(errs, history.With(file, func(db *history.DB) error { return db.Erase(ctx, session) }))
		}
	}
	return errors.Join(errs...)
}
