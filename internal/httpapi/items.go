package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"spool/internal/access"
	"spool/internal/jsonscan"
	"spool/internal/rehydrate"
	"spool/internal/view"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// How many items a page usually has at most, and how many bytes: it ends behind the item that reaches them.
const (
	usualItems = 100
	pageBytes  = 8 << 20
)

// pageOut is a page of a thread's items.
type pageOut struct {
	First int64       `json:"first"` // of the thread; 0 when it has none
	Last  int64       `json:"last"`
	Items []view.Item `json:"items"`
	Next  int64       `json:"next,omitempty"` // "from" of the next page
}

// items gives a page of items from the thread's nodes: whatever SPOOL_ITEMS still has.
func (a *api) items(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	if err != nil {
		return err
	}
	from, most, err := span(r, head.N)
	if err != nil {
		return err
	}
	page := pageOut{First: min(1, head.N), Last: head.N, Items: []view.Item{}}
	if most > 0 {
		size := 0
		for p, err := range a.cfg.Client.Thread(t).ItemsFrom(r.Context(), head, from) {
			if err != nil {
				return err
			}
			if int64(len(page.Items)) == most || size > pageBytes {
				page.Next = p.N
				break
			}
			size += len(p.Data)
			page.Items = append(page.Items, view.OfItem(p.Data))
		}
	}
	if !wantsLines(r) {
		answer(w, http.StatusOK, page)
		return nil
	}
	next := ""
	if page.Next > 0 {
		next = strconv.FormatInt(page.Next, 10)
	}
	return list(w, r, "items", page.Items, next)
}

// span reads which items are asked for: from=N, before=N, last=K; none: from the first.
func span(r *http.Request, end int64) (from, most int64, err error) {
	if most, err = limit(r, usualItems, mostItems); err != nil {
		return 0, 0, err
	}
	from, given, err := number(r, "from")
	before, toBefore, err2 := number(r, "before")
	ofLast := r.URL.Query().Has("last")
	last, err3 := upTo(r, "last", usualItems, mostItems)
	if err := errors.Join(err, err2, err3); err != nil {
		return 0, 0, err
	}
	switch {
	case given && toBefore, given && ofLast, toBefore && ofLast:
		return 0, 0, fmt.Errorf("%w: give one of from, before and last", ErrRequest)
	case ofLast:
		return max(1, end-last+1), last, nil
	case toBefore:
		from = max(1, before-most)
		return from, max(0, min(most, before-from)), nil
	}
	return max(1, from), most, nil
}

// item gives one item; with ?full as it was before any cut.
func (a *api) item(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	n, err := strconv.ParseInt(r.PathValue("n"), 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%w: item %.50q: want its number, from 1", ErrRequest, r.PathValue("n"))
	}
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	if err != nil {
		return err
	}
	if n > head.N {
		return fmt.Errorf("%w: %s has the items 1 to %d", errNothing, t, head.N)
	}
	if isSet(r, "full") {
		raw, err := a.cfg.Client.Internal().Warning(a.named(w, r)).Thread(t).FullItem(r.Context(), head, n)
		if errors.Is(err, client.ErrTooLong) {
			err = fmt.Errorf("%w: %w", errTooLarge, err)
		}
		if err == nil {
			answer(w, http.StatusOK, view.OfItem(raw))
		}
		return err
	}
	for p, err := range a.cfg.Client.Thread(t).ItemsFrom(r.Context(), head, n) {
		if err == nil {
			answer(w, http.StatusOK, view.OfItem(p.Data))
		}
		return err
	}
	return fmt.Errorf("%w: item %d of %s", errNothing, n, t)
}

// node says where a state is: a link that holds for every thread that has it.
func (a *api) node(w http.ResponseWriter, r *http.Request) error {
	text := r.PathValue("hash")
	if !strings.Contains(text, ":") {
		text = "node:sha256:" + text
	}
	ref, err := casstore.ParseRef(text)
	if err != nil || ref.Kind() != casstore.KindNode {
		return fmt.Errorf("%w: %.100q is no hash of a node: want 64 hex digits, or node:sha256: and those", ErrRequest, r.PathValue("hash"))
	}
	hint := events.Thread{Session: r.URL.Query().Get("session"), Name: cmp.Or(r.URL.Query().Get("thread"), events.MainThread)}
	t, n, err := a.cfg.Client.FindNode(r.Context(), ref, hint)
	if err == nil && !access.From(r.Context()).Session(t.Session) {
		err = fmt.Errorf("%w: %s is in no thread that the token is for", errNothing, ref)
	}
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"session": t.Session, "thread": t.Name, "n": n, "hash": ref.String()})
	return nil
}

// matchOut is an item that a search found.
type matchOut struct {
	N       int64  `json:"n"`
	Hash    string `json:"hash"`
	Type    string `json:"type"`
	Time    string `json:"time,omitempty"`
	Snippet string `json:"snippet"`

	Stats json.RawMessage `json:"stats,omitempty"` // of the end of a turn, as it told them
}

// mostOfType is how many items a search by type looks at: a thread of any length answers as fast, and "next" leads on.
const mostOfType = 2000

// search finds the items of a thread that hold a text, letter case aside, or are of some types, newest first.
func (a *api) search(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	most, err := limit(r, 50, mostMatches)
	if err != nil {
		return err
	}
	query, detail := strings.TrimSpace(r.URL.Query().Get("q")), r.URL.Query().Get("detail")
	var types []string
	if text := r.URL.Query().Get("type"); text != "" {
		types = strings.Split(text, ",")
	}
	if len(query) > 1000 || query == "" && types == nil {
		return fmt.Errorf("%w: q: what to look for, at most 1,000 bytes; or a type", ErrRequest)
	}
	if types == nil && detail != "" {
		return fmt.Errorf("%w: detail: say of which type", ErrRequest)
	}
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	if err != nil {
		return err
	}
	before, given, err := number(r, "before")
	if err != nil {
		return err
	}
	if !given || before > head.N {
		before = head.N + 1
	}
	var found []matchOut
	next := ""
	for p, err := range a.cfg.Client.Thread(t).ItemsBack(r.Context(), head, before) {
		if err != nil {
			return err
		}
		if types != nil && before-p.N > mostOfType {
			next = strconv.FormatInt(p.N+1, 10)
			break
		}
		kind, of := view.ItemKind(jsonscan.Get(p.Data, "metadata"))
		kind = cmp.Or(kind, events.TypeMessage)
		if types != nil && !slices.Contains(types, kind) || detail != "" && of != detail {
			continue
		}
		snippet, ok := find(p.Data, query)
		if !ok {
			continue
		}
		if int64(len(found)) == most {
			next = strconv.FormatInt(found[most-1].N, 10)
			break
		}
		it := view.OfItem(p.Data)
		found = append(found, matchOut{p.N, it.Hash, kind, it.Time, snippet, nil})
		if kind == events.TypeTurnEnd {
			found[len(found)-1].Stats = jsonscan.Get(p.Data, "metadata", "stats")
		}
	}
	return list(w, r, "matches", found, next)
}

// find looks for a text in what an item says: the strings of its content, and of its metadata. Without a text it is how the content begins.
func find(item []byte, query string) (snippet string, ok bool) {
	if query == "" {
		_ = jsonscan.Array(jsonscan.Get(item, "content"), func(part []byte) bool {
			snippet = jsonscan.FirstLine(jsonscan.Get(part, "text"), 2*beside)
			return snippet == ""
		})
		return snippet, true
	}
	var look func(raw []byte) bool
	look = func(raw []byte) bool {
		switch jsonscan.KindOf(raw) {
		case jsonscan.KindString:
			text, _ := jsonscan.Text(raw)
			if at, end := indexFold(text, query); at >= 0 {
				snippet, ok = around(text, at, end), true
			}
		case jsonscan.KindArray:
			_ = jsonscan.Array(raw, look)
		case jsonscan.KindObject:
			_ = jsonscan.Object(raw, func(_, value []byte) bool { return look(value) })
		}
		return !ok
	}
	look(jsonscan.Get(item, "metadata"))
	if !ok {
		look(jsonscan.Get(item, "content"))
	}
	return snippet, ok
}

// indexFold is where a text has another one, letter case aside.
func indexFold(text, query string) (at, end int) {
	if i := strings.Index(text, query); i >= 0 {
		return i, i + len(query)
	}
	wanted := []rune(strings.ToLower(query))
	for i, first := range text {
		if unicode.ToLower(first) != wanted[0] {
			continue
		}
		k, size := 0, 0
		for _, c := range text[i:] {
			if k == len(wanted) || unicode.ToLower(c) != wanted[k] {
				break
			}
			k, size = k+1, size+utf8.RuneLen(c)
		}
		if k == len(wanted) {
			return i, i + size
		}
	}
	return -1, -1
}

// beside is how many bytes of text a snippet shows on each side.
const beside = 80

func around(text string, at, end int) string {
	from, to := max(0, at-beside), min(len(text), end+beside)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	s := text[from:to]
	if from > 0 {
		s = "…" + s
	}
	if to < len(text) {
		s += "…"
	}
	return s
}

// lostHeader names the blobs that an answer should have in line and that are missing or corrupt, the first of them.
const (
	lostHeader = "Spool-Missing"
	mostLost   = 16
)

// lost notes in the log that an image is not there; its ref stays in the answer (SPEC P9).
func (a *api) lost(r *http.Request) func(rehydrate.Missing) {
	return func(m rehydrate.Missing) {
		a.cfg.Log.WarnContext(r.Context(), "image is not in line", "path", r.URL.Path, "ref", m.Ref.String(), "error", m)
	}
}

// named is lost that names the blob in the answer, too, in its header.
func (a *api) named(w http.ResponseWriter, r *http.Request) func(rehydrate.Missing) {
	lost := a.lost(r)
	return func(m rehydrate.Missing) {
		lost(m)
		if h := w.Header(); len(h[lostHeader]) < mostLost {
			h[lostHeader] = append(h[lostHeader], m.Ref.String())
		}
	}
}

// missing are blobs that were noted by whoever reads a body, until the answer names them. Safe for concurrent use.
type missing struct {
	mu   sync.Mutex
	refs []string
}

func (s *missing) note(m rehydrate.Missing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refs) < mostLost {
		s.refs = append(s.refs, m.Ref.String())
	}
}

// name names those that were noted since the last time.
func (s *missing) name(h http.Header, as string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refs) > 0 {
		h[as], s.refs = s.refs, nil
	}
}

// context gives what the model is sent at the leaf, or at another entry.
func (a *api) context(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	c, err := a.cfg.Client.Thread(t).Context(r.Context(), sessions.At(r.URL.Query().Get("leaf")), a.named(w, r))
	if errors.Is(err, client.ErrNoContext) {
		steps, err := a.cfg.Client.Thread(t).StepContext(r.Context(), sessions.At(r.URL.Query().Get("leaf")))
		if err == nil {
			answer(w, http.StatusOK, steps)
		}
		return err
	}
	if err != nil {
		return err
	}
	body, err := a.withPrompt(r.Context(), t, c.JSON())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", typeJSON)
	if _, err = w.Write(append(body, '\n')); err != nil {
		return begunError{err}
	}
	return nil
}

// withPrompt puts the task that a thread began with before the members of its context.
func (a *api) withPrompt(ctx context.Context, t events.Thread, body []byte) ([]byte, error) {
	head, err := a.cfg.Client.Thread(t).AwaitHead(ctx)
	if err != nil {
		return nil, err
	}
	prompt, err := a.cfg.Client.Reader().Prompt(ctx, head.Start)
	if err != nil || prompt == "" {
		return body, err
	}
	return slices.Concat([]byte(`{"prompt":`), encode(prompt), []byte(","), body[1:]), nil
}
