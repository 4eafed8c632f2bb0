package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"spool/internal/apply"
	"spool/internal/memjs"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/internal/persist/persistnats"
	"spool/internal/record"
	"spool/internal/retry"
	"spool/internal/scrub"
	"spool/internal/share"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// World is one run of a program: a server, the processes that speak to it, and what is known of them.
type World struct {
	p      Program
	srv    *memjs.Server
	ledger *Ledger
	trace  *Trace
	log    *slog.Logger
	dir    string // of this world, for what processes keep on disk
	procs  int    // that were ever started: numbers their names

	agents     []*agent
	persisters []*persister
	operator   *process // runs gc, fsck and the like; never dies
	readers    []*reader

	events, letters, posted map[uint64]memjs.Msg // of SPOOL_EVENTS, SPOOL_DEAD and SPOOL_ITEMS, also those that were purged

	deleted map[uint64]bool // by sequence in SPOOL_EVENTS, deletions that were carried out, as their records say

	// By sequence, the lives of persisters that tried the event alone and did not end in order, and the last one that began to.
	tried map[uint64]map[record.Life]bool
	tries map[uint64]record.Life
	// untaken are those of them that were to apply it, before a thread had it, by its place in its message; reached is how far
	// names are dealt with, as the records of their threads say.
	untaken map[place]map[record.Life]bool
	reached map[events.Thread]uint64

	busy, commands atomic.Int64 // operations under way, and those of them that are an operator's

	mu sync.Mutex // guards steps, stale and counts of
	pace
}

// process is something that can die: a name at the server, connections, a context.
type process struct {
	name   string
	w      *World
	ctx    context.Context
	cancel context.CancelFunc
	dead   atomic.Bool

	mu   sync.Mutex
	conn *natsio.Conn
	cl   *client.Client
}

func (w *World) process(kind string) *process {
	w.procs++
	p := &process{name: fmt.Sprintf("%s.%d", kind, w.procs), w: w}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *process) config() natsio.Config {
	return natsio.Config{InProcess: p.w.srv.Process(p.name), Name: p.name, Logger: p.w.log}
}

// connect gives the process's connection.
func (p *process) connect() (*natsio.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		return p.conn, nil
	}
	if p.dead.Load() {
		return nil, context.Canceled
	}
	c, err := natsio.Dial(p.ctx, p.config())
	if err == nil {
		p.conn = c
	} else if c != nil {
		c.Close()
	}
	return p.conn, err
}

// client gives the process's client, with the offline directory if the program has one.
func (p *process) client() (*client.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cl != nil {
		return p.cl, nil
	}
	if p.dead.Load() {
		return nil, context.Canceled
	}
	cfg := p.config()
	if p.w.p.Offline {
		cfg.Offline = filepath.Join(p.w.dir, "offline")
	}
	c, err := client.Connect(p.ctx, cfg)
	if err == nil {
		p.cl = c
	}
	return c, err
}

// kill ends a process without a word: what it sent and the server has not read is lost, and nothing of it is heard
// again.
func (p *process) kill() {
	p.dead.Store(true)
	p.w.srv.Freeze(p.name)
	p.w.srv.Cut(p.name)
	p.end()
}

// end gives back what the process has. The connections end by themselves when the calls that use them have.
func (p *process) end() {
	p.dead.Store(true)
	p.cancel()
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.conn != nil {
			p.conn.Close()
		}
		if p.cl != nil {
			p.cl.Close()
		}
	}()
}

// persister is a process that applies events.
type persister struct {
	*process
	stopped chan struct{} // closed when it has ended
	err     error         // why, by itself; read after stopped
	killed  atomic.Bool
	fell    atomic.Bool // it was killed at a step
	began   atomic.Bool // it got as far as to take events
}

// kill ends a persister without a word.
func (p *persister) kill() {
	p.killed.Store(true)
	p.process.kill()
}

// startPersister runs a persister as internal/service does, for the partitions that the program's sessions are in:
// the others would only cost time. What watches for a server that lost something runs where the program has one.
func (w *World) startPersister(i int) *persister {
	p := &persister{process: w.process(fmt.Sprintf("persister%d", i)), stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		p.err = p.run()
	}()
	return p
}

func (p *persister) run() error {
	conn, err := p.connect()
	if err != nil {
		return err
	}
	deps := persistnats.Deps(conn, 0, 32<<20)
	deps.Link, deps.Log = conn.Events().Link, p.w.log
	deps.At = func(step persist.Step) error {
		if !p.killed.Load() && p.w.atStep(p.ctx, string(step)) {
			p.fell.Store(true)
			p.kill()
		}
		if p.killed.Load() { // nothing that is left of it may wait for a server
			return errKilled
		}
		return nil
	}
	var begin func(context.Context)
	if p.w.p.wants(Crash) {
		look := &lookout{conn: conn, log: p.w.log, one: make(chan struct{}, 1)}
		deps.Reused, begin = look.reused, look.begin
		look.begin(p.ctx)
	}
	// So few that the nodes of heads have their part in every schedule.
	small := threads.HeadRoom{Tips: 1, Producers: 1}
	ps := persist.New(deps, persist.Config{
		BatchEvents: p.w.p.BatchMax, Head: small, QueueBytes: queueBytes(p.w.p.Seed), HeadBytes: headBytes(p.w.p.Seed),
	})
	g, ctx := errgroup.WithContext(p.ctx)
	g.Go(func() error { return ps.Run(ctx) })
	sh := share.New(share.Config{
		ID: p.name, Peers: p.peers(conn), Partitions: usedPartitions, Log: p.w.log,
		Begin: func(ctx context.Context, part int, _ bool) (of share.Partition, err error) {
			err = retry.Do(ctx, nil, func() error {
				of, err = persistnats.Consume(ctx, conn.Events(), ps, part, begin)
				return err
			})
			if err == nil {
				p.began.Store(true)
			}
			return of, err
		},
	})
	g.Go(func() error { return sh.Run(ctx) })
	err = g.Wait()
	if !p.killed.Load() {
		sh.Bye()
	}
	if p.ctx.Err() == nil {
		return err
	}
	return nil
}

// peers is where a persister hears the others: in one of four schedules. Else each takes what it is given, and more goes wrong.
func (p *persister) peers(conn *natsio.Conn) share.Peers {
	if p.w.p.Seed%4 == 3 {
		return natsio.PeersOf(conn)
	}
	return nobody{}
}

// nobody is as if a persister might not speak to the others.
type nobody struct{}

func (nobody) Alone(context.Context) (bool, error)                { return false, record.ErrDenied }
func (nobody) Say([]byte) error                                   { return nil }
func (nobody) Hear(string, func([]byte)) (stop func(), err error) { return nil, record.ErrDenied }
func (nobody) Gone(context.Context, string) (bool, error)         { return false, record.ErrDenied }
func (nobody) Connected() bool                                    { return true }

func (p *persister) hasEnded() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

var errKilled = errors.New("the process was killed")

// lookout notices that the server lost something, as the watch of internal/service does.
type lookout struct {
	conn  *natsio.Conn
	log   *slog.Logger
	marks atomic.Pointer[scrub.Marks]

	one   chan struct{} // holds a token while somebody looks: who waits for a mutex is not blocked as synctest sees it
	begun uint64
}

func (l *lookout) begin(ctx context.Context) {
	l.one <- struct{}{}
	defer func() { <-l.one }()
	if n := l.conn.Events().Link() + 1; l.begun != n {
		l.begun = n
		if m, err := scrub.Look(ctx, natsadmin.Of(l.conn), natsadmin.Of(l.conn), l.log); err == nil {
			l.marks.Store(&m)
		}
	}
}

func (l *lookout) reused(seq uint64, stored int64) bool {
	m := l.marks.Load()
	return m != nil && m.Reused(seq, stored)
}

// stored keeps the messages of streams from which a deletion purges. Events is told under the server's lock.
func (w *World) stored(stream string, m memjs.Msg) {
	switch stream {
	case events.EventsStream:
		w.events[m.Seq] = m
	case events.DeadStream:
		at, _ := strconv.ParseUint(m.Header(natsio.HeaderEventSeq), 10, 64)
		if m.Header(natsio.HeaderUnread) == "" || w.shared(at) || !w.has(at) { // else its thread says what became of it
			w.letters[m.Seq] = m
		}
	case events.ItemsStream:
		w.posted[m.Seq] = m
	case events.RecordsStream:
		if strings.HasPrefix(m.Subject, events.RecordSubject("tried.")) {
			w.noteTried(m.Data)
		}
		w.noteReached(strings.TrimPrefix(m.Subject, events.RecordSubject("")), m.Data)
		if !strings.HasPrefix(m.Subject, events.RecordSubject(events.DeletedKey(""))) {
			return
		}
		if d, err := record.DecodeDeleted(m.Data); err == nil {
			w.deleted[d.Seq] = true
		}
	}
}

// noteTried keeps who tries an event alone. Who ends in order says so without its name.
func (w *World) noteTried(value []byte) {
	t, err := record.DecodeTried(value)
	if err != nil || !t.Alone {
		return
	}
	at := place{t.Lo, uint64(t.Index)}
	if t.Life == (record.Life{}) {
		delete(w.tried[t.Lo], w.tries[t.Lo])
		delete(w.untaken[at], w.tries[t.Lo])
		return
	}
	if w.tried[t.Lo] == nil {
		w.tried[t.Lo] = map[record.Life]bool{}
	}
	if !w.tried[t.Lo][t.Life] && len(t.Died) < enoughDied && !w.has(t.Lo) {
		if w.untaken[at] == nil {
			w.untaken[at] = map[record.Life]bool{}
		}
		w.untaken[at][t.Life] = true
	}
	w.tried[t.Lo][t.Life], w.tries[t.Lo] = true, t.Life
}

// enoughDied persisters died over an event alone: whoever tries it then is to make a dead letter of it.
const enoughDied = 3

// noteReached keeps how far a name is, whatever became of the thread that had it.
func (w *World) noteReached(key string, value []byte) {
	t, ok := events.ParseHeadKey(key)
	if !ok {
		t, _, ok = events.ParseHistoryKey(key)
	}
	head, err := threads.DecodeHead(value)
	if !ok {
		t, ok = events.ParseLeftKey(key)
		if !ok {
			return
		}
		var left *apply.Left
		if left, err = apply.DecodeLeft(value); err == nil {
			head = left.Head
		}
	}
	if err == nil {
		w.reached[t] = max(w.reached[t], head.Applied)
	}
}

// has reports whether a name was dealt with as far as an event under it, when that had no letter yet.
func (w *World) has(seq uint64) bool {
	t, _, err := events.ParseStored(w.events[seq].Subject)
	return err == nil && w.reached[t] >= seq
}

// shared reports whether a message holds several events: how far a name is says nothing of each.
func (w *World) shared(seq uint64) bool {
	e, err := events.Open(w.events[seq].Subject, w.events[seq].Data)
	return err == nil && len(e.More) > 0
}

func tempDir() (string, error) {
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = os.TempDir()
	}
	// MkdirTemp would draw names until one is free: chance must not follow from what other processes keep there.
	dir := filepath.Join(base, fmt.Sprintf("spool-sim-%d-%d", os.Getpid(), dirs.Add(1)))
	if err := os.RemoveAll(dir); err != nil { // of a process that was killed, and had our id
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

var dirs atomic.Int64 // that this process made

// queueBytes is what a persister has in hand in a schedule: in two of three so little that sessions are parked.
func queueBytes(seed uint64) int64 { return [...]int64{0, 6 << 10, 12 << 10}[seed%3] }

// headBytes is room for all heads, for some, or for none but those at work.
func headBytes(seed uint64) int { return [...]int{0, 6 << 10, 1}[seed/3%3] }
