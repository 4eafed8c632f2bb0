package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/internal/sessionstore"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Client speaks to Spool over one NATS connection. Safe for concurrent use.
type Client struct {
	conn     *natsio.Conn
	store    *natsio.Store
	reader   threads.Reader
	sessions *sessionstore.Store

	records natsio.Records
	inbox   natsio.Inbox
	events  natsio.Events
	items   natsio.Items
	dead    natsio.DeadLetters
	live    natsio.Outputs

	serving bool                    // see Serving
	warn    func(rehydrate.Missing) // see Warning; nil: nobody is told

	outputs *Publisher // of all tool outputs

	offline *offline // nil: none

	agents *agentCalls
	whole  chan struct{} // see mostWhole
}

// packCache is how many bytes of packs a client keeps.
const packCache = 64 << 20

// Config says where the NATS system is and who we are there.
type Config = natsio.Config

// Connect makes a client with a connection of its own, which Close ends.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	conn, err := natsio.Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c := New(conn)
	if cfg.Offline != "" {
		if c.offline, err = openOffline(conn, cfg); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close ends the connection. What is in an offline directory stays there, and the next program that uses it publishes it.
func (c *Client) Close() {
	if c.offline != nil {
		c.offline.close()
	}
	c.conn.Close()
}

// New makes a client on a connection, which stays the caller's.
func New(conn *natsio.Conn) *Client {
	store := conn.Store(0)
	c := &Client{
		conn: conn, store: store, sessions: sessionstore.Of(conn),
		reader:  threads.Reader{Packs: casstore.NewPackCache(store, packCache), Nodes: store.Search(), Hold: project.Room()},
		records: conn.Records(), inbox: conn.Inbox(), events: conn.Events(), items: conn.Items(), dead: conn.DeadLetters(), live: conn.Outputs(),
		agents: &agentCalls{of: map[string]*sessionCalls{}}, whole: make(chan struct{}, mostWhole),
	}
	c.outputs = c.Publisher(PublisherConfig{})
	return c
}

// Session is one session of a listing.
type Session struct {
	sessions.Info
	Threads []Thread
}

// Thread is one thread of a listing.
type Thread struct {
	events.Thread
	Head  threads.Head
	Ended string // UTC date of its end, yyyy-mm-dd; empty while it is active

	// Unreadable: its record is none that a persister writes. Head says so as the reason of a failure, and nothing else.
	Unreadable bool
}

// readHead reads the head of a thread of a listing. One that cannot be read is listed as such, so that all the others are.
func (t *Thread) readHead(r record.Record) {
	head, err := threads.DecodeHead(r.Value)
	if err != nil {
		t.Unreadable = true
		head = threads.Head{Status: threads.StatusFailed, Failure: fmt.Sprintf("record %s: %v", r.Key, err)}
	}
	t.Head = head
}

// Unreadable reports whether a thread of the session cannot be read, so that less is known of it than there is.
func (s Session) Unreadable() bool {
	return slices.ContainsFunc(s.Threads, func(t Thread) bool { return t.Unreadable })
}

// Updated is the time of the newest entry of any thread. A former generation says when it was replaced (SPEC P6), and counts only where
// there is nothing else.
func (s Session) Updated() time.Time {
	var now, former int64
	for _, t := range s.Threads {
		if events.FormerOf(t.Thread) != "" {
			former = max(former, t.Head.Updated)
		} else {
			now = max(now, t.Head.Updated)
		}
	}
	return whenever(cmp.Or(now, former))
}

// Row is the session's line in a listing (SPEC S10). Messages and status are the main thread's, or the first thread's if
// there is no main.
func (s Session) Row() sessions.Row {
	r := sessions.Row{Info: s.Info, Modified: events.MillisOf(s.Updated())}
	lead := 0
	for i, t := range s.Threads {
		if events.FormerOf(t.Thread) != "" {
			continue
		}
		r.Size += t.Head.BytesIn
		if t.Name == events.MainThread {
			lead = i
		}
	}
	if len(s.Threads) == 0 {
		return r
	}
	head := &s.Threads[lead].Head
	r.Messages, r.Status = head.Messages, sessions.Status(head.Standing)
	if head.Status == threads.StatusFailed {
		r.Status = sessions.StatusError
	}
	return r
}

// Sessions lists sessions with their threads, or the one that is named. It reads records, never nodes (SPEC S10). Of a cluster whose
// leader was cut off it may say, for some seconds, what was (docs/protocol.md, "How fresh").
func (c *Client) Sessions(ctx context.Context, session string) ([]Session, error) {
	var ts []Thread
	var infos map[string]sessions.Info
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) { ts, err = c.Session(session).Threads(ctx); return err })
	both.Go(func() (err error) { infos, err = c.infos(ctx, session); return err })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	return sessionsWith(ts, infos), nil
}

// sessionsWith makes sessions of threads, ordered by session, and of what their records say.
func sessionsWith(ts []Thread, infos map[string]sessions.Info) []Session {
	out := make([]Session, 0, len(infos))
	for len(ts) > 0 {
		id, n := ts[0].Session, 1
		for n < len(ts) && ts[n].Session == id {
			n++
		}
		info := infos[id]
		info.ID = id
		out = append(out, Session{Info: info, Threads: ts[:n:n]})
		ts = ts[n:]
	}
	return out
}

// Info is the record of the session: what it has by what was applied so far. ErrSessionNotFound: there is none.
func (s SessionHandle) Info(ctx context.Context) (sessions.Info, error) {
	info, err := s.c.Internal().SessionInfo(ctx, s.ID)
	if err == nil && info.ID == "" {
		err = fmt.Errorf("%w: %s", ErrSessionNotFound, s.ID)
	}
	return info, err
}

// SessionInfo is SessionHandle.Info for who goes on without a record: it is the zero Info where there is none.
func (i Internal) SessionInfo(ctx context.Context, session string) (sessions.Info, error) {
	if err := events.CheckToken("session", session); err != nil {
		return sessions.Info{}, err
	}
	rs, err := i.c.records.Records(ctx, events.SessionKey(session))
	if err != nil || !rs[0].Exists() {
		return sessions.Info{}, err
	}
	return sessions.DecodeInfo(rs[0].Value)
}

// infos reads the records of a session, or of all, by id.
func (c *Client) infos(ctx context.Context, session string) (map[string]sessions.Info, error) {
	filter := events.SessionKeys
	if session != "" {
		filter = events.SessionKey(session)
	}
	rs, err := c.records.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	infos := make(map[string]sessions.Info, len(rs))
	for _, r := range rs {
		if info, err := sessions.DecodeInfo(r.Value); err == nil { // else the session is listed without what is in there
			infos[info.ID] = info
		}
	}
	return infos, nil
}

// Threads lists the threads, the active and the completed, ordered by session
// and name. How fresh it is: as Sessions.
func (s SessionHandle) Threads(ctx context.Context) (out []Thread, err error) {
	err = natsio.BetweenDeletions(ctx, s.c.records, func() (err error) {
		out, err = s.c.threads(ctx, events.HeadKeys(s.ID), events.HistoryKeys(s.ID))
		return err
	})
	return out, err
}

// threads reads the heads whose keys match filters: of the active first, as what ends meanwhile is in both.
func (c *Client) threads(ctx context.Context, filters ...string) ([]Thread, error) {
	var found []record.Record // the last ones read first
	for _, filter := range filters {
		rs, err := c.records.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		found = slices.Concat(rs, found)
	}
	return threadsOf(found), nil
}

// threadsOf makes the threads of heads, ordered by session and name. Those of the history stand first.
func threadsOf(found []record.Record) []Thread {
	all := make([]*Thread, 0, len(found)) // a head is large: sort where it is, not it
	for _, r := range found {
		t, ok := &Thread{}, false
		if t.Thread, ok = events.ParseHeadKey(r.Key); !ok {
			if t.Thread, t.Ended, ok = events.ParseHistoryKey(r.Key); !ok {
				continue
			}
		}
		t.readHead(r)
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b *Thread) int {
		// The history wins (SPEC C4): it stands first.
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Name, b.Name), cmp.Compare(b.Ended, a.Ended))
	})
	all = slices.CompactFunc(all, func(a, b *Thread) bool { return a.Thread == b.Thread })
	out := mapped.List(all, func(t *Thread) Thread { return *t })
	return out
}

// Store is which store it is: a restore makes another one, and what was read of the one before may be otherwise in it. "": nobody knows.
func (c *Client) Store(ctx context.Context) (string, error) { return c.events.Store(ctx) }

// Head reads where the thread is, active or completed. threads.ErrNoThread: there is none of that name; a *Renamed says
// which one it has now. How fresh it is: as Sessions.
func (t ThreadHandle) Head(ctx context.Context) (threads.Head, error) {
	if err := t.Validate(); err != nil {
		return threads.Head{}, err
	}
	rs, err := t.c.records.Records(ctx, events.HeadKey(t.Thread), events.DeletingKey(t.Session))
	if err != nil {
		return threads.Head{}, err
	}
	if rs[1].Exists() && !rs[1].IsForeign() {
		return threads.Head{}, fmt.Errorf("%w: %s: its session is being deleted", threads.ErrNoThread, t.Thread)
	}
	if rs[0].Removed() {
		if rs, err = t.c.records.Records(ctx, events.HistoryOf(t.Thread)); err != nil {
			return threads.Head{}, err
		}
	}
	if !rs[0].Exists() {
		return threads.Head{}, t.c.gone(ctx, t.Thread)
	}
	return t.c.head(ctx, rs[0].Value)
}

// head reads a head with all its producers.
func (c *Client) head(ctx context.Context, value []byte) (threads.Head, error) {
	h, err := threads.DecodeHead(value)
	if err == nil {
		h, err = c.reader.Recall(ctx, h)
	}
	return h, err
}

// isUnreadable reports whether a head, or a node that holds a part of it, is there no more, is none, or is one of a later
// version.
func isUnreadable(err error) bool {
	return errors.Is(err, casstore.ErrMalformed) || errors.Is(err, casstore.ErrVersion) || errors.Is(err, casstore.ErrNotFound) ||
		errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrCorrupt)
}

// Reader reads nodes.
func (c *Client) Reader() threads.Reader { return c.reader }

// Blob reads a blob; its hash is checked.
func (c *Client) Blob(ctx context.Context, ref casstore.Ref) ([]byte, error) {
	return c.store.Blob(ctx, ref)
}

// OpenBlob reads a blob of any size in bounded memory. The reader fails where the bytes turn out to have another hash, so
// that only what was read to its end is known to be the blob.
func (c *Client) OpenBlob(ctx context.Context, ref casstore.Ref) (io.Reader, error) {
	return c.store.OpenBlob(ctx, ref)
}

// Source gives back raw entries.
func (i Internal) Source() rehydrate.Source {
	return rehydrate.Source{Reader: i.c.reader, Blobs: i.c.store, Open: i.c.store.OpenBlob}
}

// Export writes the raw entries of a thread, a line each; an imported transcript byte for byte (SPEC X1), but for the
// header of a session that SessionHandle.Name or Move changed. It has what was published before; where no persister comes
// to that within five seconds it has what there is, and the error is ErrBehind.
func (t ThreadHandle) Export(ctx context.Context, w io.Writer) (entries int, err error) {
	return t.c.Internal().ExportAs(ctx, t.Thread, rehydrate.Full, w, nil)
}

// ExportAs is ThreadHandle.Export in a form. A blob that is missing or corrupt is told to warn and its ref stays in place (SPEC T10).
func (i Internal) ExportAs(
	ctx context.Context, t events.Thread, form rehydrate.Form, w io.Writer, warn func(rehydrate.Missing),
) (entries int, err error) {
	head, behind := i.c.caughtUp(ctx, t)
	if behind != nil && (head.Entries == 0 || !errors.Is(behind, ErrBehind)) {
		return 0, behind
	}
	entries, err = i.c.exportHead(ctx, t, head, form, w, warn)
	return entries, errors.Join(err, behind)
}

// ExportState is ExportAs of what leads to a state, whether a thread has it or not: a thread was removed that had it. An error that
// wraps casstore.ErrNotFound: no pack holds it; threads.ErrShape: it is no state.
func (i Internal) ExportState(
	ctx context.Context, ref casstore.Ref, form rehydrate.Form, w io.Writer, warn func(rehydrate.Missing),
) (entries int, err error) {
	at, err := i.c.reader.Nodes.Locate(ctx, ref)
	if err != nil {
		return 0, err
	}
	src := i.c.Internal().Source()
	src.Warn = warn
	name, err := src.Dialect(ctx, at)
	if err != nil {
		return 0, err
	}
	return src.Export(ctx, threads.Head{Recent: []casstore.Located{at}, Dialect: name}, form, w)
}

func (c *Client) exportHead(
	ctx context.Context, t events.Thread, head threads.Head, form rehydrate.Form, w io.Writer, warn func(rehydrate.Missing),
) (entries int, err error) {
	info, err := c.Internal().SessionInfo(ctx, t.Session)
	if err != nil {
		return 0, err
	}
	if entries, forked, err := c.exportFork(ctx, t, head, form, w, warn, info); forked || err != nil {
		return entries, err
	}
	src := c.Internal().Source()
	src.Warn = warn
	out := &sessions.HeaderWriter{W: w}
	if t.Name == events.MainThread {
		out.Info = info
	}
	entries, err = src.Export(ctx, head, form, out)
	return entries, errors.Join(err, out.Flush())
}
