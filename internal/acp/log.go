package acp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// Spool is a Log in Spool. While no server takes what is published, it is on this machine's disk, where the client was given an offline
// directory.
type Spool struct {
	cl     *client.Client
	config client.PublisherConfig

	mu  sync.Mutex
	out *client.Async
}

// NewSpool makes a log; config says who records.
func NewSpool(cl *client.Client, config client.PublisherConfig) *Spool {
	config.File = sessions.FileACP
	l := &Spool{cl: cl, config: config}
	l.out = l.publisher()
	return l
}

// window is how many bytes of what an agent streams may be not durable, before its editor waits.
const window = 4 << 20

func (l *Spool) publisher() *client.Async {
	return l.cl.Async(client.AsyncConfig{PublisherConfig: l.config, Window: window})
}

func thread(session string) events.Thread {
	return events.Thread{Session: session, Name: events.MainThread}
}

// Publish takes an entry. Behind one that can never be stored none is taken before the next Flush.
func (l *Spool) Publish(ctx context.Context, session string, entry []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Publish(ctx, client.Entry{Thread: thread(session), Dialect: "omp", Body: entry, Time: time.Now()})
}

// Flush returns when all that was taken is durable.
func (l *Spool) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.out.Flush(ctx)
	if err != nil && ctx.Err() == nil {
		l.out = l.publisher()
	}
	return err
}

// Sessions lists sessions by their names' beginning, the newest first.
func (l *Spool) Sessions(ctx context.Context, prefix string) (all []Recorded, err error) {
	found, err := l.cl.Sessions(ctx, "")
	for _, s := range found {
		if !strings.HasPrefix(s.ID, prefix) {
			continue
		}
		row := s.Row()
		title := row.Title
		if title == "" {
			title = row.Prompt
		}
		all = append(all, Recorded{Name: s.ID, Cwd: s.Cwd, Title: title, Updated: time.UnixMilli(s.Row().Modified)})
	}
	slices.SortFunc(all, func(a, b Recorded) int { return b.Updated.Compare(a.Updated) })
	return all, err
}

// Waiting gives the ids of the prompts of a session that nobody settled.
func (l *Spool) Waiting(ctx context.Context, session string) (ids []string, err error) {
	all, err := l.cl.Session(session).Prompts(ctx)
	for _, p := range all {
		if !p.Answerable && p.Thread == thread(session) {
			ids = append(ids, p.ID)
		}
	}
	return ids, err
}

// Lines gives the entries of a session, as they were recorded.
func (l *Spool) Lines(ctx context.Context, session string, take func(line []byte) error) error {
	sent, cancel := context.WithTimeout(ctx, durableWithin)
	err := l.cl.Flush(sent) // what waits on disk is part of it
	cancel()
	if err != nil {
		return fmt.Errorf("entries wait on this machine for a server: %w", err)
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	go func() {
		_, err := l.cl.Thread(thread(session)).Export(ctx, w)
		w.CloseWithError(err)
	}()
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := take(line); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, threads.ErrNoThread):
			return ErrNoSession
		case err != nil:
			return err
		}
	}
}
