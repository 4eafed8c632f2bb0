package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"spool/internal/interchange"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/internal/text"
	"spool/internal/transcript"
	"spool/internal/watch"
	"spool/pkg/client"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

type watchCmd struct {
	Paths   []string `arg:"" optional:"" name:"path" help:"Transcript files, and directories that are searched as spool import does (default: where ${harnesses} keep theirs). What is not there yet is waited for."`
	Once    bool     `help:"Capture what changed since the last time, and return."`
	Dialect string   `placeholder:"D" help:"What the files are, as of spool import."`
	UserID  string   `name:"user-id" placeholder:"U" help:"user_id stamped on the items."`
	JSON    bool     `help:"Each event as one line of JSON."`
}

func (c *watchCmd) Run(a *app) error {
	service.IgnoreHangup()
	if _, ok := dialect.Lookup(c.Dialect); c.Dialect != "" && !ok {
		return service.UsageError{Err: fmt.Errorf("--dialect %q: use one of %s", c.Dialect, strings.Join(dialect.Names(), ", "))}
	}
	roots, err := c.roots()
	if err != nil {
		return err
	}
	state, err := service.StateDir()
	if err != nil {
		return err
	}
	if c.Once {
		if _, err := a.dial(); err != nil {
			return err
		}
	}
	into := &watchedInto{app: a, cmd: c}
	if len(a.opened) > 0 {
		into.conn = a.opened[0]
	}
	place := cmp.Or(a.nats.Context, a.nats.Server)
	w := watch.New(watch.Config{
		Roots: roots, Match: transcript.IsWanted, Still: transcript.IsBeside, Store: into.store, Capture: into.capture, Tell: into.tell,
		Memory: filepath.Join(state, watch.FileName(place, c.Dialect, roots)),
	})
	if c.Once {
		return errors.Join(w.Once(a.ctx), c.absent(roots))
	}
	if err := c.absent(roots); err != nil {
		fmt.Fprintln(a.err, err)
	}
	return errors.Join(w.Run(a.ctx), into.err)
}

// absent names the paths that were given and are not there; nil: all are.
func (c *watchCmd) absent(roots []string) error {
	var errs []error
	for _, root := range roots {
		if _, err := os.Stat(root); len(c.Paths) > 0 && errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is not there", text.Printable(root)))
		}
	}
	return errors.Join(errs...)
}

func (c *watchCmd) roots() (roots []string, err error) {
	if len(c.Paths) == 0 {
		return knownPlaces()
	}
	for _, p := range c.Paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		roots = append(roots, abs)
	}
	return roots, nil
}

// watchedInto is the Spool that a watch captures into.
type watchedInto struct {
	*app
	cmd  *watchCmd
	conn *natsio.Conn // nil: it was not there yet
	err  error        // of the output

	importer interchange.Importer
}

// store is SPOOL_EVENTS: what was acknowledged is in it, or was.
func (w *watchedInto) store(ctx context.Context) (watch.Store, error) {
	if w.conn == nil {
		conn, err := w.dial()
		if err != nil {
			return watch.Store{}, err
		}
		w.conn = conn
	}
	s, err := w.conn.Streams().LeaderStream(ctx, events.EventsStream)
	if err != nil {
		return watch.Store{}, natsio.WrapErr(err)
	}
	info := s.CachedInfo()
	return watch.Store{ID: info.Created.UTC().Format(time.RFC3339Nano), Last: info.State.LastSeq}, nil
}

func fileSource(c watch.Change) transcript.Source {
	return transcript.Source{FS: watch.Disk{Change: c}, Path: c.Path, Walked: true}
}

// capture imports the files of changes. Where one fails because Spool does not answer, nothing is known of the others.
func (w *watchedInto) capture(ctx context.Context, changes []watch.Change) (took []watch.Taken, err error) {
	sources := make([]transcript.Source, len(changes))
	for i, c := range changes {
		sources[i] = fileSource(c)
		for _, path := range c.Copies {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				sources[i].Copies = append(sources[i].Copies, fileSource(watch.Change{Path: path, Until: info.Size()}))
			}
		}
	}
	lost, stop := context.WithTimeoutCause(ctx, mostPublished, errors.New("it takes nothing"))
	defer stop()
	res, _, err := w.importer.Import(lost, w.conn, sources, importing(w.cmd.Dialect, w.cmd.UserID, w.conn.Inbox()))
	if lost.Err() != nil {
		return nil, context.Cause(lost)
	}
	if err != nil {
		return nil, err
	}
	w.settle(ctx, &res)
	took = make([]watch.Taken, len(changes))
	bad := false
	for i := range res.Files {
		f := &res.Files[i]
		if f.Beside != "" && (f.Session == "" || errors.Is(f.Err, client.ErrBehind)) { // its session comes later, or never
			took[i].Wait = true
			continue
		}
		took[i].Err, took[i].Part = f.Err, f.Session
		took[i].Anew = f.Begins && changes[i].Since > 0 // its session was deleted, and its agent goes on
		bad = bad || f.Err != nil
		if f.Thread != "" {
			took[i].Of = events.Thread{Session: f.Session, Name: cmp.Or(events.FormerOf(f.ID()), f.Thread)}.String()
		}
	}
	if bad {
		if _, err := w.store(ctx); err != nil {
			return nil, err
		}
	}
	for i := range res.Files {
		w.captured(changes[i], &res.Files[i])
	}
	return took, nil
}

const (
	mostPublished = 5 * time.Minute // of a batch: longer, and Spool is taken for gone
	mostSettled   = 2 * time.Second // the same until its threads have it
)

// settle waits until threads have what was published: the next import of a file reads there how far it is. Where no
// persister runs it goes on: the import publishes again what is not applied, which is a repeat. A file that met another one of its session
// there fails, and is captured again.
func (w *watchedInto) settle(ctx context.Context, res *transcript.Result) {
	ctx, cancel := context.WithTimeout(ctx, mostSettled)
	defer cancel()
	cl := client.New(w.conn)
	for _, f := range res.Files {
		if f.Published > 0 {
			_ = cl.Thread(f.ID()).Await(ctx, f.Last.Producer, f.Last.Epoch, f.Last.Seq)
		}
	}
	_ = interchange.Collided(ctx, w.conn, res) // each file has its error
}

// watchEvent is an event as programs read it.
type watchEvent struct {
	Event string `json:"event"` // captured, failed, watching, waiting, back, forgotten, slow
	At    string `json:"at"`
	Files int    `json:"files,omitempty"` // that are known, or that wait
	Since int64  `json:"since,omitempty"` // bytes of the file that were captured before
	Until int64  `json:"until,omitempty"` // bytes that are captured now
	transcript.FileResult
}

func (w *watchedInto) write(e watchEvent) {
	e.At = events.Stamp(time.Now().UnixMilli())
	if err := json.NewEncoder(w.out).Encode(e); err != nil && w.err == nil {
		w.err = err
	}
}

// captured tells of a file that has something new.
func (w *watchedInto) captured(c watch.Change, f *transcript.FileResult) {
	if f.Err != nil || f.Session == "" || f.Published == 0 && f.Tail.Seq == 0 && f.Former == "" && (f.Beside == "" || f.Registered == 0) {
		return
	}
	if w.cmd.JSON {
		w.write(watchEvent{Event: "captured", Since: c.Since, Until: c.Until, FileResult: *f})
		return
	}
	said := text.Sprintf("%s %s %s +%d lines, %s", time.Now().Format(time.TimeOnly), f.Harness, f.ID(), f.Published,
		text.Bytes(c.Until-c.Since))
	if f.Beside != "" {
		said = text.Sprintf("%s %s %s %s, %s", time.Now().Format(time.TimeOnly), f.Harness, f.Session, f.Beside, text.Bytes(f.Bytes))
	}
	if f.Former != "" {
		said += ", rewritten: what it said before is " + f.Former
	}
	if f.Parted {
		said += ", parted from another copy, which is written too and has the name"
	}
	if _, err := fmt.Fprintf(w.out, "%s %s\n", said, text.Printable(shorten(c.Path))); err != nil && w.err == nil {
		w.err = err
	}
}

// tell tells of everything else.
func (w *watchedInto) tell(e watch.Event) {
	if w.cmd.JSON {
		event := watchEvent{Event: string(e.Kind), Files: e.Files, FileResult: transcript.FileResult{File: e.Path}}
		if e.Err != nil {
			event.Error = e.Err.Error()
		}
		w.write(event)
		return
	}
	switch e.Kind {
	case watch.KindBegun:
		text.Fprintf(w.app.err, "watching %d files\n", e.Files)
	case watch.KindAway:
		fmt.Fprintf(w.app.err, "Spool does not answer; what is written waits in its files: %v\n", e.Err)
	case watch.KindBack:
		fmt.Fprintln(w.app.err, "Spool answers again")
	case watch.KindForgotten:
		fmt.Fprintf(w.app.err, "all files are looked at anew, which adds what is not there: %v\n", e.Err)
	case watch.KindSlow:
		fmt.Fprintf(w.app.err, "not every directory can be watched, so that what is new may be seen later: %v\n", e.Err)
	case watch.KindFailed:
		fmt.Fprintln(w.app.err, e.Err)
	}
}
