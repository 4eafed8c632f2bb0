package claudestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// thread is the thread of a key and where it is; the error wraps ErrNone where there is none.
func (s *Store) thread(ctx context.Context, k Key) (t events.Thread, head threads.Head, err error) {
	if err := k.Validate(); err != nil {
		return t, head, err
	}
	t, ok, err := s.find(ctx, k)
	if err == nil && ok {
		head, err = s.client.Thread(t).Head(ctx)
	}
	if err == nil && !ok || errors.Is(err, threads.ErrNoThread) && !errors.As(err, new(*client.Renamed)) {
		err = ErrNone
	}
	return t, head, err
}

// Load writes the entries of a key, a line each, as they were appended. The error wraps ErrNone: there is none, and nothing is written.
func (s *Store) Load(ctx context.Context, k Key, w io.Writer) error {
	_, head, err := s.thread(ctx, k)
	if err != nil {
		return err
	}
	some := false
	var line bytes.Buffer
	for step, err := range s.client.Reader().Entries(ctx, head) {
		if err != nil {
			return err
		}
		if step.Entry.Dialect != dialectName {
			continue
		}
		line.Reset()
		if _, err := s.client.Internal().Source().RawTo(ctx, step, &line); err != nil {
			return err
		}
		text := bytes.TrimSpace(line.Bytes())
		if bytes.IndexByte(text, '\n') >= 0 { // an object over some lines of a file that was imported
			var one bytes.Buffer
			if err := json.Compact(&one, text); err != nil {
				return err
			}
			text = one.Bytes()
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
		some = true
	}
	if !some {
		return ErrNone
	}
	return nil
}

// Listed is a session of a project. Times are the server's, in Unix milliseconds.
type Listed struct {
	Session string          `json:"session"`
	Mtime   int64           `json:"mtime"` // when the transcript was written last
	Summary json.RawMessage `json:"summary,omitempty"`
	Folded  int64           `json:"summary_mtime,omitempty"` // when the summary was

	name string
}

// List is the sessions of a project that have a main transcript, of those that may be seen.
func (s *Store) List(ctx context.Context, project string, may func(name string) bool) ([]Listed, error) {
	if err := (Key{Project: project, Session: "s"}).Validate(); err != nil {
		return nil, err
	}
	var out []Listed
	claimed := map[string]bool{}
	records, err := s.records.List(ctx, events.ClaudeMains)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		t, _ := events.ParseClaudeKey(r.Key)
		c, err := record.DecodeClaude(r.Value)
		if claimed[t.Session] = true; err == nil && c.Project == project && may(t.Session) {
			out = append(out, Listed{Session: c.Session, Summary: c.Summary, name: t.Session})
		}
	}
	if records, err = s.records.List(ctx, events.SessionKeys); err != nil {
		return nil, err
	}
	for _, r := range records {
		info, err := sessions.DecodeInfo(r.Value)
		if err != nil || claimed[info.ID] || !uuid.MatchString(info.ID) || !may(info.ID) {
			continue
		}
		if (Key{Project: project}).imported(info) {
			out = append(out, Listed{Session: info.ID, name: info.ID})
		}
	}
	var keys []string
	for _, l := range out {
		t := events.Thread{Session: l.name, Name: events.MainThread}
		keys = append(keys, events.HeadKey(t), events.ClaudeKey(t))
	}
	if len(keys) == 0 {
		return nil, nil
	}
	times, err := natsio.Written(ctx, s.records, keys...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if at := times[2*i]; !at.IsZero() {
			out[i].Mtime = at.UnixMilli()
		}
		if out[i].Summary != nil {
			out[i].Folded = times[2*i+1].UnixMilli()
		}
	}
	return slices.DeleteFunc(out, func(l Listed) bool { return l.Mtime == 0 }), nil
}

// Subkeys are the subpaths of a session that have a transcript.
func (s *Store) Subkeys(ctx context.Context, k Key) ([]string, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	t, ok, err := s.find(ctx, Key{Project: k.Project, Session: k.Session})
	if err != nil || !ok {
		return nil, err
	}
	records, err := s.records.List(ctx, events.ClaudeKeys(t.Session))
	if err != nil {
		return nil, err
	}
	subpaths := map[string]string{}
	for _, r := range records {
		if c, err := record.DecodeClaude(r.Value); err == nil {
			of, _ := events.ParseClaudeKey(r.Key)
			subpaths[of.Name] = c.Subpath
		}
	}
	all, err := s.client.Session(t.Session).Threads(ctx)
	var out []string
	for _, of := range all {
		sub, ok := subpaths[of.Name]
		if !ok && strings.HasPrefix(of.Name, "agent-") && events.FormerOf(of.Thread) == "" { // as an import names it
			sub = "subagents/" + of.Name
		}
		if sub != "" {
			out = append(out, sub)
		}
	}
	slices.Sort(out)
	return out, err
}

// Remove takes a transcript away; of a session all that is below it, and all else that Spool has of it. It reports whether there was one.
func (s *Store) Remove(ctx context.Context, k Key, by string) (bool, error) {
	t, _, err := s.thread(ctx, k)
	switch {
	case k.Subpath != "" && err == nil:
		err = s.client.Thread(t).Remove(ctx)
	case k.Subpath == "" && t.Session != "" && (err == nil || errors.Is(err, ErrNone)): // subpaths may be there without it
		_, err = s.client.Session(t.Session).Delete(ctx, client.Deletion{By: by, Plain: true})
	}
	if none := errors.Is(err, ErrNone) || errors.Is(err, client.ErrSessionNotFound) || errors.Is(err, threads.ErrNoThread); none &&
		!errors.Is(err, client.ErrBehind) {
		return false, nil
	}
	return err == nil, err
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
