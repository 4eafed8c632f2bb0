package claudestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"spool/internal/interchange"
	"spool/internal/mapped"
	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// Key is what the SDK calls a transcript: of a session, or with Subpath of something in it, as a subagent.
type Key struct{ Project, Session, Subpath string }

// maxName is the longest name, in bytes.
const maxName = 2048

// Validate refuses what is no key; the error wraps ErrKey.
func (k Key) Validate() error {
	for what, name := range map[string]string{"project": k.Project, "session": k.Session, "subpath": k.Subpath} {
		switch {
		case name == "" && what != "subpath":
			return fmt.Errorf("%w: the %s is empty", ErrKey, what)
		case len(name) > maxName:
			return fmt.Errorf("%w: the %s has %d bytes: at most %d", ErrKey, what, len(name), maxName)
		case !utf8.ValidString(name):
			return fmt.Errorf("%w: the %s is not UTF-8", ErrKey, what)
		case strings.Contains(name, "\x00"): // what stands between names where they are hashed
			return fmt.Errorf("%w: the %s has a NUL", ErrKey, what)
		}
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// names are what the session may be called here: as its file's import calls it, where that is named by a UUID, unless another project has
// that one; else by a hash too, which is this key's alone.
func (k Key) names() (plain, apart string) {
	apart = hashed(k.Session, k.Project+"\x00"+k.Session)
	if plain = apart; uuid.MatchString(k.Session) {
		plain = k.Session
	}
	return plain, apart
}

// Name begins with what every name has that the session may get: who may not have sessions of that name may not have this one.
func (k Key) Name() string {
	plain, _ := k.names()
	return plain
}

// subagent is what an import calls the thread of a subagent's file; "" for another subpath.
func (k Key) subagent() string {
	name := path.Base(k.Subpath)
	t := events.Thread{Session: "s", Name: name}
	if !strings.HasPrefix(k.Subpath, "subagents/") || !strings.HasPrefix(name, "agent-") || t.Validate() != nil || events.FormerOf(t) != "" {
		return ""
	}
	return name
}

// hashed begins with what can be read of a name, and ends with what makes it unique.
func hashed(name, of string) string {
	sum := sha256.Sum256([]byte(of))
	hash := "-" + hex.EncodeToString(sum[:16])
	name = events.Token(name)
	return name[:min(len(name), events.MaxToken-len(hash))] + hash
}

// file is where Claude Code has the session, as an import says it; "" where it would be no file of its.
func (k Key) file() string {
	file := interchange.PlaceOf("claude", k.Session, "projects/"+k.Project+"/"+k.Session+".jsonl")
	if strings.ContainsFunc(k.Project, unicode.IsControl) || strings.ContainsAny(k.Project, `/\`) {
		return ""
	}
	return file
}

// imported tells whether a session that an import began is the key's: by where its file lay, or else would lie.
func (k Key) imported(info sessions.Info) bool {
	project, ok := projectOf(info)
	return ok && project == k.Project
}

// projectOf is the project in which Claude Code has a session; false of one that is none of its.
func projectOf(info sessions.Info) (string, bool) {
	file, ok := strings.CutPrefix(info.File, "claude:projects/")
	switch {
	case ok:
		project, _, _ := strings.Cut(file, "/")
		return project, true
	case info.File != "" || info.Harness != "claude" || info.Cwd == "":
		return "", false
	}
	return interchange.ProjectKey(info.Cwd), true
}

// named is a name here, and the record that says whose it is.
type named struct {
	name string
	rec  record.Record
	is   record.Claude // what the record says, of its own key
	held bool          // the key has it: by the record, or as an import began it
}

// session finds what a key's session is called, or would be.
func (s *Store) session(ctx context.Context, k Key) (n named, err error) {
	plain, apart := k.names()
	main := func(session string) string {
		return events.ClaudeKey(events.Thread{Session: session, Name: events.MainThread})
	}
	rs, err := s.records.Records(ctx, main(plain), events.SessionKey(plain), main(apart), events.SessionKey(apart))
	if err != nil {
		return n, err
	}
	is := func(r record.Record) (record.Claude, bool, error) {
		if !r.Exists() {
			return record.Claude{}, false, nil
		}
		c, err := record.DecodeClaude(r.Value)
		return c, c.Project == k.Project && c.Session == k.Session, err
	}
	if plain != apart {
		var info sessions.Info
		c, ours, err := is(rs[0])
		if err != nil {
			return n, err
		}
		if rs[1].Exists() {
			if info, err = sessions.DecodeInfo(rs[1].Value); err != nil {
				return n, err
			}
		}
		free := !rs[0].Exists() && !rs[1].Exists() && !rs[2].Exists() && !rs[3].Exists()
		switch {
		case ours:
			return named{plain, rs[0], c, true}, nil
		case !rs[0].Exists() && rs[1].Exists() && k.imported(info), free:
			return named{plain, rs[0], c, !free}, nil
		}
	}
	c, _, err := is(rs[2])
	if err == nil && rs[3].Exists() { // whose session cannot be read is nobody's
		_, err = sessions.DecodeInfo(rs[3].Value)
	}
	return named{apart, rs[2], c, rs[2].Exists() || rs[3].Exists()}, err
}

// sub finds what a subpath's thread is called, or would be: as an import would call it, unless another subpath has that name.
func (s *Store) sub(ctx context.Context, session string, k Key) (n named, err error) {
	names := []string{k.subagent(), hashed("sub", k.Subpath)}
	keys := mapped.List(names, func(name string) string { return events.ClaudeKey(events.Thread{Session: session, Name: name}) })
	if names[0] == "" {
		names, keys = names[1:], keys[1:]
	}
	rs, err := s.records.Records(ctx, keys...)
	if err != nil {
		return n, err
	}
	last := len(names) - 1
	if last > 0 && !rs[last].Exists() {
		c, err := record.DecodeClaude(rs[0].Value)
		if !rs[0].Exists() || err == nil && c.Subpath == k.Subpath {
			return named{names[0], rs[0], c, rs[0].Exists()}, nil
		}
		if err != nil {
			return n, err
		}
	}
	return named{name: names[last], rec: rs[last], held: rs[last].Exists()}, nil
}

// find is the thread of a key; false where it has none.
func (s *Store) find(ctx context.Context, k Key) (t events.Thread, ok bool, err error) {
	n, err := s.session(ctx, k)
	if err != nil || !n.held {
		return t, false, err
	}
	t = events.Thread{Session: n.name, Name: events.MainThread}
	if k.Subpath == "" {
		return t, true, nil
	}
	sub, err := s.sub(ctx, n.name, k)
	t.Name = sub.name
	return t, err == nil, err
}

// tries is how often something is decided anew when others write at the same time.
const tries = 16

// claim is the thread of a key, which has it from then on: nobody else is given its name. first: it had none before, and what is in the
// thread came by a file.
func (s *Store) claim(ctx context.Context, k Key) (t events.Thread, first bool, err error) {
	for range tries {
		n, err := s.session(ctx, k)
		if err != nil {
			return t, false, err
		}
		t = events.Thread{Session: n.name, Name: events.MainThread}
		if first = n.is.Project == ""; first {
			said := n.name == k.Session && k.file() != "" // by the event itself
			first, err = s.note(ctx, t, record.Claude{Project: k.Project, Session: k.Session}, n.rec.Seq, said)
		}
		if err == nil && k.Subpath != "" {
			if n, err = s.sub(ctx, t.Session, k); err != nil {
				return t, false, err
			}
			t.Name = n.name
			if first = !n.rec.Exists(); first {
				first, err = s.note(ctx, t, record.Claude{Subpath: k.Subpath}, n.rec.Seq, k.Subpath == "subagents/"+n.name)
			}
		}
		if !errors.Is(err, record.ErrConflict) {
			return t, first, err
		}
	}
	return t, false, fmt.Errorf("%w: too many others begin %s", record.ErrBusy, t)
}

// note writes what a thread is called. Who may write no records goes without, if the name says it.
func (s *Store) note(ctx context.Context, t events.Thread, c record.Claude, expect uint64, said bool) (written bool, err error) {
	if _, err = s.write(ctx, t, c, expect); said && errors.Is(err, record.ErrDenied) {
		return false, nil
	}
	return err == nil, err
}

// write puts a record in the place of the one of a revision.
func (s *Store) write(ctx context.Context, t events.Thread, c record.Claude, expect uint64) (rev uint64, err error) {
	if natsio.Stamped(s.events) {
		return 0, fmt.Errorf("%w: an ingest user writes no records, and %s needs one: ask spool up or spool serve", record.ErrDenied, t)
	}
	return s.records.Write(ctx, record.Put{Key: events.ClaudeKey(t), Value: c.Encode(), Expect: expect})
}
