package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"spool/internal/artifactstore"
	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// NewArtifact is an artifact to be stored.
type NewArtifact = artifactstore.NewArtifact

// Serving is the client for a program that acts for others: registered files of this machine are not read for them.
func (i Internal) Serving() *Client {
	other := *i.c
	other.serving = true
	return &other
}

// Warning is the client that tells warn of each image that a log or a whole item should have in line and whose blob is
// missing or corrupt; its ref stands there (SPEC P9). warn is called by whatever goroutine reads.
func (i Internal) Warning(warn func(rehydrate.Missing)) *Client {
	other := *i.c
	other.warn = warn
	return &other
}

func (c *Client) artifactStore() *artifactstore.Artifacts {
	a := artifactstore.Of(c.conn, 0)
	a.Local, a.Standing = !c.serving, c.standing
	return a
}

// standing refuses a session that is not there: what belongs to a session begins none, so that a misspelt name is told. Who may not
// look for it is taken at their word, and so is who published to it what no persister comes to within five seconds. A run
// is one of the session, too, or ErrNoRun; of one that is on its way, with ErrBehind.
func (c *Client) standing(ctx context.Context, session, run string) error {
	err := c.Session(session).Await(ctx)
	switch {
	case errors.Is(err, record.ErrDenied), errors.Is(err, ErrBehind):
		err = nil
	case errors.Is(err, ErrSessionNotFound):
		err = fmt.Errorf("%w: nothing is stored: publish something to it first, or begin it", err)
	}
	if err != nil || run == "" {
		return err
	}
	if err = c.awaitRun(ctx, session, run); errors.Is(err, record.ErrDenied) {
		return nil
	}
	return err
}

// Put stores the bytes of body as an artifact (SPEC A3). It reads body once, to its end, in bounded memory. The
// artifact exists when it returns, or not at all. ErrSessionNotFound: there is no such session, and body was not read; SessionHandle.New,
// ThreadHandle.Start and whatever is published begin one. ErrNoRun: the session has no run of the id that a says.
func (s ArtifactStore) Put(ctx context.Context, a NewArtifact, body io.Reader) (artifacts.Record, error) {
	return s.c.artifactStore().Put(ctx, a, body)
}

// RegisterObject makes an artifact of an object that its tool put into the bucket spool_artifacts itself (SPEC A3).
// ErrSessionNotFound, ErrNoRun: as Put.
func (s ArtifactStore) RegisterObject(ctx context.Context, a NewArtifact, object string) (artifacts.Record, error) {
	return s.c.artifactStore().RegisterObject(ctx, a, object)
}

// RegisterFile makes an artifact of a file of this machine, which stays where it is (SPEC A3).
// ErrSessionNotFound, ErrNoRun: as Put.
func (s ArtifactStore) RegisterFile(ctx context.Context, a NewArtifact, path string) (artifacts.Record, error) {
	return s.c.artifactStore().RegisterFile(ctx, a, path)
}

// TakeNumber takes the session's next artifact number ahead of the artifact, which is put with it as Number; one
// that is not put stays a gap (SPEC A1). name is what the artifact's file is called then, if it gets no other name.
// ErrSessionNotFound: there is no such session.
func (s SessionHandle) TakeNumber(ctx context.Context, tool string) (n artifacts.Seq, name string, err error) {
	if n, err = s.c.artifactStore().TakeNumber(ctx, s.ID); err != nil {
		return "", "", err
	}
	return n, artifacts.ToolFile(n, tool), nil
}

// TakeAgentID takes the id of the next agent that parent ("" = the root) starts in a session. The agent's output is put with
// Writer artifacts.FromAgent and this id as Agent, and is found as agent://<id> (SPEC A9).
// ErrSessionNotFound: there is no such session. artifacts.ErrNoAgent: the parent's id was given to no agent of it.
func (s SessionHandle) TakeAgentID(ctx context.Context, parent, requested string) (id string, err error) {
	err = s.reaching(ctx, artifacts.ErrNoAgent, func() error { // it may have begun to work just now
		id, err = s.c.artifactStore().TakeAgent(ctx, s.ID, parent, requested)
		return err
	})
	return id, err
}

// Artifacts lists the artifacts. Where the records of some cannot be read, it lists the
// others beside an error that names these, and is an artifacts.ErrRecord.
func (s SessionHandle) Artifacts(ctx context.Context) ([]artifacts.Record, error) {
	return s.c.artifactStore().Records(ctx, s.ID, "")
}

// Record is an artifact's record; of one that was removed that of a fork, if it has one. artifacts.ErrNotFound: there is
// none of that id.
func (s ArtifactStore) Record(ctx context.Context, id artifacts.ID) (artifacts.Record, error) {
	if err := events.CheckToken("artifact_id", string(id)); err != nil {
		return artifacts.Record{}, err
	}
	return s.c.artifactStore().Find(ctx, id)
}

// Open reads an artifact's bytes, in bounded memory, and says how many there are. The reader is an io.Seeker too. Its
// end is natsio.ErrDigest when the bytes are not those that were stored.
func (s ArtifactStore) Open(ctx context.Context, r artifacts.Record) (io.ReadCloser, int64, error) {
	return s.c.artifactStore().Open(ctx, r)
}

// Delete removes an artifact (SPEC A5): its record, and its bytes unless a fork of its session has them too.
// artifacts.ErrNotFound: there is none of that id.
func (s ArtifactStore) Delete(ctx context.Context, id artifacts.ID) error {
	if id != "" {
		if err := events.CheckToken("artifact_id", string(id)); err != nil {
			return err
		}
	}
	return artifacts.Delete(ctx, s.c.artifactStore(), id)
}

// Cleanup removes the artifacts that how selects, or only says which they are: the zero value does that (SPEC A5).
// ErrSessionNotFound: there is no session of the name that how says.
func (s ArtifactStore) Cleanup(ctx context.Context, how artifacts.Cleanup) (artifacts.Report, error) {
	if how.Session != "" && !how.EverySession {
		if err := s.c.standing(ctx, how.Session, ""); err != nil {
			return artifacts.Report{}, err
		}
	}
	return artifacts.Clean(ctx, s.c.artifactStore(), how)
}

// Resolve finds what an address leads to, and selects lines of it: artifact://<number> and agent://<id> in the session (of the
// empty id: none), blob:sha256:<hex>, or the local_log of a truncated item, <session>/threads/<thread>/logs/thread.log (SPEC A8, A9,
// I5). The caller closes Body. What is nowhere in the session may be in what was published to it and no persister has come to: for that
// it waits, five seconds at most. ErrBehind: none has come by then.
func (s SessionHandle) Resolve(ctx context.Context, address string, lines artifacts.Lines) (res artifacts.Resource, err error) {
	if t, ok := project.ParseLocalLog(strings.TrimPrefix(address, "/")); ok {
		return s.c.resolveLog(ctx, t, lines)
	}
	resolve := func() error {
		sources, err := s.c.artifactStore().Sources(ctx, s.ID)
		if err == nil {
			res, err = sources.Resolve(ctx, address, lines)
		}
		return err
	}
	if s.ID == "" {
		err = resolve()
	} else {
		err = s.reaching(ctx, ErrNotFound, resolve)
	}
	return res, err
}

// LogType is the content type of a thread's log.
const LogType = "application/x-ndjson"

func (c *Client) resolveLog(ctx context.Context, t events.Thread, lines artifacts.Lines) (artifacts.Resource, error) {
	log, err := c.Thread(t).Log(ctx)
	if err != nil {
		return artifacts.Resource{}, err
	}
	selected, err := lines.Of(log)
	if err != nil {
		return artifacts.Resource{}, errors.Join(err, log.Close())
	}
	body := struct {
		io.Reader
		io.Closer
	}{selected, log}
	return artifacts.Resource{Body: body, ContentType: LogType, Size: -1, Name: project.LocalLog(t)}, nil
}

// images puts images in line. One that is missing is told to whom Warning named, and its ref stays (SPEC P9).
func (c *Client) images() rehydrate.Source {
	src := c.Internal().Source()
	if src.Warn = c.warn; src.Warn == nil {
		src.Warn = func(rehydrate.Missing) {}
	}
	return src
}

// Log reads a thread's log: every item of the thread as it was before any cut, images in line, a line of JSON each, in
// their order, made again from the nodes (SPEC I5). One that has no number, because it was too large before such items had
// stubs, is in it with the number 0. Memory is bounded, whatever the size of an entry. threads.ErrNoThread: there is no such
// thread.
func (t ThreadHandle) Log(ctx context.Context) (io.ReadCloser, error) {
	head, err := t.c.caughtUp(ctx, t.Thread)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		out := bufio.NewWriterSize(w, 64<<10)
		var err error
		for step, e := range t.c.reader.Entries(ctx, head) {
			if err = e; err == nil {
				err = t.c.writeItems(ctx, t.Thread, step, out)
			}
			if err != nil {
				break
			}
		}
		_ = w.CloseWithError(errors.Join(err, out.Flush())) // it has no error of its own
	}()
	return logReader{r, func() { cancel(); _ = r.Close(); <-done }}, nil
}

// logReader stops the writer when it is closed.
type logReader struct {
	io.Reader
	stop func()
}

func (l logReader) Close() error {
	l.stop()
	return nil
}

// giantEntry is from how many bytes on an entry of a log is read as a stream.
const giantEntry = 1 << 20

// mostWhole is how many entries that were cut a client reads whole at a time, until what it makes of one begins to go out. Were all that
// are asked for read at once, nobody would have a byte until nearly all are read, and all of them would be in memory.
const mostWhole = 4

func (c *Client) writeItems(ctx context.Context, t events.Thread, step threads.Step, to io.Writer) error {
	entry := &step.State.Entry
	if entry.Projection == "" || !dialect.IsJSON(entry.Dialect) {
		return nil // no entry: a fork point, a transcript's tail; or one that has no items
	}
	w := begins{to, func() {}}
	if !entry.Full.IsZero() {
		select {
		case c.whole <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.first = sync.OnceFunc(func() { <-c.whole })
		defer w.first()
	}
	raw := entry.Raw
	switch {
	case !entry.Full.IsZero():
		whole, size, err := c.store.SeekBlob(ctx, entry.Full)
		if err == nil && size > giantEntry {
			return c.writeGiant(ctx, t, step, whole, w)
		}
		if err == nil {
			raw, err = c.store.Blob(ctx, entry.Full)
		}
		if err != nil {
			return fmt.Errorf("entry %d of %s before it was cut: %w", entry.Index, t, err)
		}
	case raw == nil:
		content, err := step.ReadContent(ctx)
		if err != nil {
			return err
		}
		raw = content.Text
	}
	items, err := project.Full(t, step.At.Ref, step.State, raw)
	for _, it := range items {
		if e := c.images().ResolveTo(ctx, entry.Index, append(it, '\n'), w, nil); e != nil {
			return e
		}
	}
	return err
}

// writeGiant writes the full items of a step whose entry is too large for memory.
func (c *Client) writeGiant(ctx context.Context, t events.Thread, step threads.Step, whole io.ReadSeeker, w io.Writer) error {
	checked, err := c.store.OpenBlob(ctx, step.State.Entry.Full)
	if err == nil {
		each := func(line []byte, fill func([]byte) error) error {
			return c.images().ResolveTo(ctx, step.State.Entry.Index, line, w, fill)
		}
		err = project.FullTo(w, t, step.At.Ref, step.State, checked, whole, each)
	}
	if err != nil {
		return fmt.Errorf("entry %d of %s before it was cut: %w", step.State.Entry.Index, t, err)
	}
	return nil
}

// begins calls first before anything is written, since whoever takes it may be slow.
type begins struct {
	io.Writer
	first func()
}

func (b begins) Write(p []byte) (int, error) {
	b.first()
	return b.Writer.Write(p)
}
