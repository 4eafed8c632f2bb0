package transcript

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// Publisher stores events: in order, and durable when it returns. After an error a part may be stored, and publishing all of
// them again is harmless. Safe for concurrent use. natsio.Conn is one.
type Publisher interface {
	PublishEvents(ctx context.Context, evs []*events.Event) error
}

// Threads reads what is stored. Safe for concurrent use. client.Internal is one.
type Threads interface {
	// Thread reads where a thread is. threads.ErrNoThread: there is none of that name.
	Thread(ctx context.Context, t events.Thread) (threads.Head, error)
	// RawEntries are the raw entries of a thread, in the order in which they came.
	RawEntries(ctx context.Context, head threads.Head) iter.Seq2[rehydrate.Line, error]
	// SessionLines are the entries of a thread as an export of its session writes them behind the header. Not ok: it does not.
	SessionLines(ctx context.Context, head threads.Head) (lines []rehydrate.Line, ok bool, err error)
	// OwnHeader is the header of the file of a session that its harness forked; nil: it forked none of that name there.
	OwnHeader(ctx context.Context, head threads.Head, session string) ([]byte, error)
	// Await returns when a thread has what a producer published.
	Await(ctx context.Context, t events.Thread, producer string, epoch, seq uint64) error
	// Unapplied is what a producer published to a thread that the thread may lack yet, in the order in which it is stored. head is what the
	// caller knows of the thread.
	Unapplied(ctx context.Context, t events.Thread, head threads.Head, producer string, epoch uint64) ([]events.Linked, error)
	// Settled returns when what was published to a thread before is in it, or refused. An error means that nobody came to it in time.
	Settled(ctx context.Context, t events.Thread) error
	// Retire gives all that a thread holds the name of a former one, which it returns, and frees the thread's own. head is what
	// the caller knows of the thread; those who retire it from one head do it once. After an error it can be done again.
	Retire(ctx context.Context, t events.Thread, head threads.Head) (former events.Thread, err error)
	// Beside are the other threads of a thread's session, with where they are.
	Beside(ctx context.Context, t events.Thread) (iter.Seq2[events.Thread, threads.Head], error)
	// ExportAs writes a thread as an export does, in a form. An error of w ends it.
	ExportAs(ctx context.Context, t events.Thread, form rehydrate.Form, w io.Writer, warn func(rehydrate.Missing)) (entries int, err error)
}

// Blobs brings what entries refer to by its hash from where it lies beside their file. Safe for concurrent use.
type Blobs interface {
	// Fetch makes sure that a blob is stored. An error that is not the context's means that it cannot be had.
	Fetch(ctx context.Context, from Source, ref casstore.Ref) error
}

// Config of an importer. The zero value is good.
type Config struct {
	Dialect string // of every file; empty: detected in each
	User    string // user_id stamped on items (SPEC I6)
	Host    string // machine the agents ran on
	By      string // the home of who imports: no other one has the name, be it on a machine of the same; empty: unknown
	Home    string // where that is
	// Place, if not nil, is where a harness keeps a session's file, by its name: <kind>:<path below its directory>, or "".
	Place func(dialect, session, name string) string
	Blobs Blobs // of the files of oh-my-pi; nil: what they refer to is not looked for
	Inbox Inbox // of lines that are too large for memory, more than 4 MiB; nil: they are held all the same
	Files int   // files at a time; 0 = 4. Each holds one batch in memory

	// SessionExport, if not nil, writes a thread as an export of its session does: a file of that is no rewritten one.
	SessionExport func(ctx context.Context, t events.Thread, w io.Writer) error

	// Said, if not nil, is when somebody gave a session its title or directory in Spool; zero: nobody did. A file that was written before and
	// has no entry more than its thread is an older one.
	Said func(ctx context.Context, session string) (time.Time, error)

	// Progress, if not nil, is told how far the import is, often. It is called by one goroutine at a time.
	Progress func(Progress)
	// Retry, if not nil, is told of every try to publish that failed and will be repeated.
	Retry func(err error, wait time.Duration)
}

// Progress is how far an import is.
type Progress struct {
	Bytes, Total int64 // of the files on the disk
	Lines        int64
}

// Importer puts transcripts into threads.
type Importer struct {
	stored Threads
	out    Publisher
	cfg    Config

	waits int // for forks, since one was answered

	mu       sync.Mutex
	claims   map[events.Thread]*claim
	progress Progress
}

// New makes an importer.
func New(stored Threads, out Publisher, cfg Config) *Importer {
	cfg.Files = cmp.Or(max(cfg.Files, 0), 4)
	return &Importer{stored: stored, out: out, cfg: cfg, claims: map[events.Thread]*claim{}}
}

// Import stores what the sources hold and is not stored yet. A file that cannot be imported does not stop the others; its
// error is in its result.
//
// 1. Identify every file. Those of one source, copies and former versions, make a group, the one that was written
// last behind
//
//	   the others: where they part, it is the session.
//	2. In the order of the paths, each group claims its thread: so a second import decides as the first did.
//	3. Import the groups, several at a time; the files of a group one after the other. Forks come behind what they branch off from,
//	   and subagents last: a session is what its main thread says.
func (im *Importer) Import(ctx context.Context, sources []Source) Result {
	files := make([]*file, len(sources))
	groups := map[Identity][]*file{}
	var order []Identity
	for i, s := range sources {
		f := &file{src: s, disk: s.size()}
		f.res.File = s.Path
		files[i] = f
		if !im.identify(ctx, f) {
			continue
		}
		if groups[f.id] == nil {
			order = append(order, f.id)
		}
		groups[f.id] = append(groups[f.id], f)
	}
	for _, f := range files {
		im.progress.Total += f.disk
	}
	main := slices.DeleteFunc(slices.Clone(order), func(id Identity) bool { return id.Agent != "" })
	agents := slices.DeleteFunc(order, func(id Identity) bool { return id.Agent == "" })
	isFork := func(id Identity) bool { return groups[id][0].src.Fork != nil }
	forks := slices.DeleteFunc(slices.Clone(main), func(id Identity) bool { return !isFork(id) })
	inOrder(forks, groups)
	im.groups(ctx, groups, slices.DeleteFunc(main, isFork))
	for i := range forks {
		im.groups(ctx, groups, forks[i:i+1])
	}
	im.groups(ctx, groups, agents)
	return total(files)
}

// groups imports groups, several at a time.
func (im *Importer) groups(ctx context.Context, files map[Identity][]*file, order []Identity) {
	var g errgroup.Group
	g.SetLimit(im.cfg.Files)
	for _, id := range order {
		group := files[id]
		slices.SortStableFunc(group, func(a, b *file) int {
			return cmp.Or(b.former()-a.former(), a.src.Modified().Compare(b.src.Modified()), cmp.Compare(a.disk, b.disk))
		})
		c, err := im.first(ctx, id, group[len(group)-1])
		if c != nil {
			c.group = group
		}
		g.Go(func() error {
			for _, f := range group {
				if err != nil {
					f.fail(err)
					continue
				}
				f.fail(im.file(ctx, f, c))
				if said := c.place(id); said != "" && f.res.ID() == c.thread {
					f.warn(said)
				}
			}
			if c != nil {
				c.release()
			}
			return nil
		})
	}
	_ = g.Wait()
}

// former is 1 for a file with the name of a former generation, as an export of all threads gives it, else 0: it was written before the
// file that replaced it, whatever the time of the export.
func (f *file) former() int {
	if events.HasFormer(f.id.Thread, events.Thread{Session: f.id.Thread.Session, Name: stem(f.src.Path)}) {
		return 1
	}
	return 0
}

// identify reports whether there is something to import.
func (im *Importer) identify(ctx context.Context, f *file) bool {
	if ctx.Err() != nil {
		f.fail(ctx.Err())
		return false
	}
	id, err := Identify(f.src, im.cfg.Dialect)
	switch {
	case errors.Is(err, ErrEmpty):
		f.res.Unbegun = true
		f.warn("there is no complete line in it: nothing to import")
	case errors.Is(err, ErrNotTranscript) && f.src.Walked:
		f.warn(err.Error())
	case err != nil:
		f.fail(err)
	default:
		f.id, f.res.Harness = id, id.Dialect
		f.name()
		fork, err := f.named()
		if err != nil {
			f.fail(err)
			break
		}
		if fork != nil {
			f.src.Fork = fork
		}
		if im.cfg.Place != nil && id.Thread.Name == events.MainThread {
			f.place = im.cfg.Place(id.Dialect, id.Thread.Session, f.src.Path)
		}
		return true
	}
	f.disk = 0
	return false
}

// report adds to the progress.
func (im *Importer) report(bytes, lines int) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.progress.Bytes = min(im.progress.Bytes+int64(bytes), im.progress.Total) // a rewritten file is read twice
	im.progress.Lines += int64(lines)
	if im.cfg.Progress != nil {
		im.cfg.Progress(im.progress)
	}
}
