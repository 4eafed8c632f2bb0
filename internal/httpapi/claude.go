package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spool/internal/access"
	"spool/internal/claudestore"
	"spool/internal/quota"
	"spool/pkg/events"
)

const (
	claudePath    = "/v1/claude/{project}"
	claudeSession = claudePath + "/{key}"
	claudeSub     = claudeSession + "/{subpath...}"
)

// claudeRoutes are what adapters of the Claude Agent SDK need.
var claudeRoutes = []route{
	{
		method: "GET", path: claudePath, need: access.Read, in: reading, about: "Sessions of a project of the Claude Agent SDK.",
		gives: either("claude_sessions", "claude_session"), do: (*api).claudeList,
	},
	{
		method: "GET", path: claudeSession, need: access.Read, in: reading, about: "The transcript of a session of the SDK, an entry a line.",
		query: []param{{name: "subkeys", kind: "boolean", about: "its subpaths, in the place of entries"},
			{name: "summary", kind: "boolean", about: "its summary, in the place of entries; the ETag names it"}},
		gives: []body{{typeNDJSON, "entry"}, {typeJSON, "claude_other"}}, do: (*api).claudeLoad,
	},
	{
		method: "POST", path: claudeSession, need: access.Write, in: storing,
		about: "Append entries, one a line, that the transcript does not have by their uuids; answered when they are applied.",
		takes: []body{{typeNDJSON, "entry"}}, gives: object("claude_appended"), also: []int{409, 413, 415, 503}, paced: true,
		do: (*api).claudeAppend,
	},
	{
		method: "PUT", path: claudeSession, need: access.Write, in: storing,
		about: "Replace the summary of a session, which is any JSON; 412: it is another one than If-Match names.",
		query: []param{{name: "summary", kind: "boolean", about: "required"},
			{name: "If-Match", kind: "string", about: "the ETag of the one that is replaced; none: there is none yet", header: true}},
		takes: object("entry"), gives: object("ok"), also: []int{412, 413, 415, 503}, do: (*api).claudeSummarize,
	},
	{
		method: "DELETE", path: claudeSession, need: access.Admin, in: storing,
		about: "Delete a session of the SDK with its subpaths, and all else that Spool has of it.",
		gives: object("claude_deleted"), also: []int{409, 503}, do: (*api).claudeDelete,
	},
	{
		method: "GET", path: claudeSub, need: access.Read, in: reading, about: "The transcript of a subpath, an entry a line.",
		gives: []body{{typeNDJSON, "entry"}}, do: (*api).claudeLoad,
	},
	{
		method: "POST", path: claudeSub, need: access.Write, in: storing,
		about: "Append entries to the transcript of a subpath, as to a session's.",
		takes: []body{{typeNDJSON, "entry"}}, gives: object("claude_appended"), also: []int{409, 413, 415, 503}, paced: true,
		do: (*api).claudeAppend,
	},
	{
		method: "DELETE", path: claudeSub, need: access.Admin, in: storing, about: "Delete the transcript of a subpath, and nothing else.",
		gives: object("claude_deleted"), also: []int{409, 503}, do: (*api).claudeDelete,
	},
}

// unescaped is a name as an adapter spells it: one that begins with "=" stands for what is behind that, so that "." and ".." can be spelt,
// which clients take out of paths.
func unescaped(name string) string { return strings.TrimPrefix(name, "=") }

// keyOf is the key that a path names, which the token is for.
func keyOf(r *http.Request) (claudestore.Key, error) {
	k := claudestore.Key{Project: unescaped(r.PathValue("project")), Session: unescaped(r.PathValue("key")),
		Subpath: unescaped(r.PathValue("subpath"))}
	if strings.HasSuffix(r.URL.EscapedPath(), "/") {
		return k, fmt.Errorf("%w: the subpath is empty", claudestore.ErrKey)
	}
	if err := k.Validate(); err != nil {
		return k, err
	}
	if g := access.From(r.Context()); !g.Session(k.Name()) {
		return k, fmt.Errorf("%w: %s is for sessions that begin with %s, and this one is %s", errForbidden, g.Name,
			strings.Join(g.Sessions, ", "), k.Name())
	}
	return k, nil
}

// body reads what a request sends, as far as there is room for it; leave gives that back.
func (a *api) body(w http.ResponseWriter, r *http.Request, most int64) (b []byte, leave func(), err error) {
	memory := a.hold(w, r, a.memory)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(entryTime))
	in := early{http.MaxBytesReader(w, r.Body, most)}
	if r.ContentLength > most {
		return nil, memory.close, &http.MaxBytesError{Limit: most}
	}
	for piece := make([]byte, 64<<10); ; {
		n, err := io.ReadFull(in, piece)
		if n > 0 {
			if err := memory.Take(r.Context(), n, len(b)); err != nil {
				return nil, memory.close, err
			}
			b = append(b, piece[:n]...)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return b, memory.close, nil
		case err != nil:
			return nil, memory.close, err
		}
	}
}

func (a *api) claudeAppend(w http.ResponseWriter, r *http.Request) error {
	k, err := keyOf(r)
	if err != nil {
		return err
	}
	if mediaType(r) != typeNDJSON {
		return a.wrongType(r, typeNDJSON)
	}
	lines, leave, err := a.body(w, r, min(a.cfg.MaxBody, bodyInMemory))
	defer leave()
	if err != nil {
		return err
	}
	out, err := a.cfg.claude.Append(r.Context(), k, lines, func(entries, bytes int) error {
		return a.chargeEntries(r.Context(), k.Name(), entries, bytes)
	})
	if err == nil {
		answer(w, http.StatusOK, out)
	}
	return err
}

// chargeEntries makes entries that are stored together take of the quotas, and waits for that as a stream of lines does.
func (a *api) chargeEntries(ctx context.Context, session string, entries, bytes int) error {
	if a.cfg.Quotas == nil {
		return nil
	}
	return a.cfg.Quotas.Wait(ctx, a.cfg.Patience, quota.Use{Session: session, User: events.UserFrom(ctx), Token: access.From(ctx).Name,
		Entries: int64(entries), Bytes: int64(bytes)})
}

func (a *api) claudeLoad(w http.ResponseWriter, r *http.Request) error {
	k, err := keyOf(r)
	if err != nil {
		return err
	}
	switch {
	case isSet(r, "subkeys"):
		subkeys, err := a.cfg.claude.Subkeys(r.Context(), k)
		if err != nil {
			return err
		}
		answer(w, http.StatusOK, struct {
			Subkeys []string `json:"subkeys"`
		}{append([]string{}, subkeys...)})
		return nil
	case isSet(r, "summary"):
		value, tag, err := a.cfg.claude.Summary(r.Context(), k)
		if err != nil {
			return err
		}
		w.Header().Set("ETag", `"`+tag+`"`)
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(value)
		return nil
	}
	out := &begun{w: w}
	if err := a.cfg.claude.Load(r.Context(), k, out); err != nil && out.some {
		return begunError{err}
	} else if err != nil {
		return err
	}
	return nil
}

// begun notes that an answer has begun.
type begun struct {
	w    http.ResponseWriter
	some bool
}

func (b *begun) Write(p []byte) (int, error) {
	if !b.some {
		b.some = true
		b.w.Header().Set("Content-Type", typeNDJSON)
	}
	return b.w.Write(p)
}

func (a *api) claudeList(w http.ResponseWriter, r *http.Request) error {
	may := access.From(r.Context()).Session
	sessions, err := a.cfg.claude.List(r.Context(), unescaped(r.PathValue("project")), may)
	if err != nil {
		return err
	}
	return list(w, r, "sessions", sessions, "")
}

func (a *api) claudeSummarize(w http.ResponseWriter, r *http.Request) error {
	k, err := keyOf(r)
	switch {
	case err != nil:
		return err
	case !isSet(r, "summary"):
		return fmt.Errorf("%w: a transcript is appended to, with POST; only its summary is put, with ?summary", ErrRequest)
	case mediaType(r) != typeJSON:
		return a.wrongType(r, typeJSON)
	}
	value, leave, err := a.body(w, r, claudestore.MaxSummary)
	defer leave()
	if err != nil {
		return err
	}
	tag, err := a.cfg.claude.SetSummary(r.Context(), k, value, strings.Trim(r.Header.Get("If-Match"), `"`))
	if err == nil {
		w.Header().Set("ETag", `"`+tag+`"`)
		answer(w, http.StatusOK, okay{OK: true})
	}
	return err
}

func (a *api) claudeDelete(w http.ResponseWriter, r *http.Request) error {
	k, err := keyOf(r)
	if err != nil {
		return err
	}
	was, err := a.cfg.claude.Remove(r.Context(), k, cmp.Or(events.UserFrom(r.Context()), access.From(r.Context()).Name))
	if err == nil {
		answer(w, http.StatusOK, struct {
			Deleted bool `json:"deleted"`
		}{was})
	}
	return err
}
