package interchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/natsio"
	"spool/internal/transcript"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// An export writes what Spool knows of a session into the header of its file. Whoever changes that there says it as with spool session
// name and move, and an import does so for him where no entry does:
//
//   - A session that Spool began has no header of its own that the file's could replace.
//   - Of a file with a title slot the slot counts, as the program writes it in place; the header's title does where it alone was changed.

// heads are the lines before the entries of a session's file.
type heads struct {
	slot, slotSource string
	sessions.Header
}

func parseHeads(text []byte) (h heads) {
	for line := range bytes.Lines(text) {
		if jsonscan.Valid(line) != nil {
			continue
		}
		if one, err := sessions.ParseHeader(line); err == nil {
			h.Header = one
			return h
		}
		if typ, _ := jsonscan.Text(jsonscan.Get(line, "type")); typ == sessions.TypeTitleSlot {
			h.slot, _ = jsonscan.Text(jsonscan.Get(line, "title"))
			h.slotSource, _ = jsonscan.Text(jsonscan.Get(line, "source"))
		}
	}
	return h
}

// title is a title and who gave it.
type title struct{ text, source string }

// is tells whether a session's title is that: an operation gives it with single spaces.
func (t title) is(other string) bool {
	var given sessions.Info
	_ = given.Name(t.text, t.source) // of one that cannot be given it is empty
	return t.text == other || given.Title != "" && given.Title == other
}

// fewSessions are looked at one by one.
const fewSessions = 8

// writtenBefore is when the records of the sessions of files were written last, by session. An import asks before it adds anything, for it
// writes them itself where it is new to a session. What cannot be found out now is not there.
func writtenBefore(ctx context.Context, conn *natsio.Conn, sources []transcript.Source, force string) map[string]time.Time {
	var keys []string
	for _, s := range sources {
		if id, err := transcript.Identify(s, force); err == nil && id.Dialect == ompDialect && id.Agent == "" {
			keys = append(keys, events.SessionKey(id.Thread.Session))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) > fewSessions {
		keys = []string{events.SessionKeys}
	}
	at, asked := map[string]time.Time{}, time.Now()
	for _, key := range keys {
		ages, err := conn.Records().Ages(ctx, key, 0)
		if err != nil {
			return at
		}
		for key, aged := range ages {
			at[events.SessionOf(key)] = asked.Add(-aged.Age)
		}
	}
	return at
}

// takeHeaders gives the sessions that were imported the titles and directories that were changed in the headers of their files.
// A crash before leaves what a header beside a title slot says untaken.
func takeHeaders(
	ctx context.Context, conn *natsio.Conn, sources []transcript.Source, res transcript.Result, written map[string]time.Time,
) error {
	cl := client.New(conn)
	for i, src := range sources {
		f := &res.Files[i]
		if f.Harness != ompDialect || f.Err != nil || f.Thread != events.MainThread || len(f.Heads) == 0 {
			continue
		}
		var err error
		switch h := parseHeads(f.Heads); {
		case f.Exported:
			err = takeExported(ctx, cl, src, f, h, written[f.Session])
		case f.Former != "" && h.slot != "":
			err = takeBesideSlot(ctx, cl, f, h)
		}
		if errors.Is(err, events.ErrControl) {
			f.Warnings = append(f.Warnings, fmt.Sprintf("what its header says is not taken: %v", err))
			continue
		}
		if err != nil {
			return fmt.Errorf("what the header of %s says: %w", f.File, err)
		}
	}
	return nil
}

// takeExported takes what the header of a file says otherwise than an export does now, unless the file may be older than that: written is
// when something was said of the session last, before the import.
func takeExported(
	ctx context.Context, cl *client.Client, src transcript.Source, f *transcript.FileResult, h heads, written time.Time,
) error {
	info, err := cl.Internal().SessionInfo(ctx, f.Session)
	if err != nil {
		return err
	}
	head, err := cl.Thread(f.ID()).Head(ctx)
	if err != nil {
		return err
	}
	now, err := cl.Internal().Source().Header(ctx, f.ID(), head, info)
	if err != nil {
		return err
	}
	var to title
	for _, said := range []title{{h.slot, h.slotSource}, {h.Title, h.TitleSource}} {
		if to.text == "" && !said.is(info.Title) && !said.is(now.Title) {
			to = said
		}
	}
	cwd := h.Cwd
	if cwd == info.Cwd || cwd == now.Cwd {
		cwd = ""
	}
	if to.text == "" && cwd == "" {
		return nil
	}
	if written.IsZero() || !src.Modified().After(written) {
		f.Warnings = append(f.Warnings, fmt.Sprintf("its title and directory are not taken: something was said of %s since it was written; "+
			"set them with: spool session name, spool session move", f.Session))
		return nil
	}
	if cwd != "" {
		if err := cl.Session(f.Session).Move(ctx, cwd); err != nil {
			return err
		}
	}
	return name(ctx, cl, f.Session, info, to)
}

// recorded is when a session's record was written last, or a little earlier.
func recorded(ctx context.Context, conn *natsio.Conn, session string) (time.Time, error) {
	asked := time.Now()
	ages, err := conn.Records().Ages(ctx, events.SessionKey(session), 0)
	return asked.Add(-ages[events.SessionKey(session)].Age), err
}

// said is the latest time at which somebody may have named or moved a session in Spool; zero if nobody has.
func said(ctx context.Context, conn *natsio.Conn, cl *client.Client, session string) (time.Time, error) {
	info, err := cl.Internal().SessionInfo(ctx, session)
	if err != nil || !info.Named && !info.Moved {
		return time.Time{}, err
	}
	return recorded(ctx, conn, session)
}

// takeBesideSlot takes the title of the header of a file that was rewritten, where that was changed and the title slot was not.
func takeBesideSlot(ctx context.Context, cl *client.Client, f *transcript.FileResult, h heads) error {
	head, err := cl.Thread(events.Thread{Session: f.Session, Name: f.Former}).Head(ctx)
	if err != nil {
		return err
	}
	var text []byte
	for line, err := range cl.Internal().RawEntries(ctx, head) {
		if err != nil {
			return err
		}
		text = append(append(text, bytes.TrimSpace(line.Head)...), '\n')
		if was := parseHeads(text); was.ID != "" || was.slot == "" {
			break
		}
	}
	if err := cl.Thread(f.ID()).Await(ctx, f.Last.Producer, f.Last.Epoch, f.Last.Seq); err != nil {
		return err
	}
	info, err := cl.Internal().SessionInfo(ctx, f.Session)
	if err != nil {
		return err
	}
	was, to := parseHeads(text), title{h.Title, h.TitleSource}
	exported := info.Named && h.slot == info.Title // an export wrote it there
	if to.is(was.Title) || to.is(info.Title) || h.slot != was.slot && !exported {
		return nil
	}
	return name(ctx, cl, f.Session, info, to)
}

// name gives a session a title: as its user, unless the file says that a program made it up.
func name(ctx context.Context, cl *client.Client, session string, info sessions.Info, to title) error {
	auto := to.source == sessions.TitleAuto
	if to.text == "" || auto && !info.TakesTitle(to.source) {
		return nil
	}
	return cl.Session(session).Name(ctx, to.text, auto)
}
