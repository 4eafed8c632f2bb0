package httpapi

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/access"
	"spool/internal/ingest"
	"spool/internal/mapped"
	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/rehydrate"
	"spool/internal/view"
	"spool/pkg/artifacts"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
)

// artifact gives the bytes of an artifact: for download, never to be shown by a browser (DESIGN 11).
func (a *api) artifact(w http.ResponseWriter, r *http.Request) error {
	cl := a.cfg.Client
	rec, err := cl.Artifacts().Record(r.Context(), artifacts.ID(r.PathValue("id")))
	if err == nil && !access.From(r.Context()).Session(rec.Session) {
		err = fmt.Errorf("%w: artifact %s is of the session %s", errForbidden, rec.ID, rec.Session)
	}
	if err != nil {
		return err
	}
	body, _, err := cl.Artifacts().Open(r.Context(), rec)
	if err != nil {
		return err
	}
	defer body.Close()
	seeker, ok := body.(io.ReadSeeker)
	if !ok {
		return fmt.Errorf("artifact %s: its reader cannot seek", rec.ID)
	}
	if o, err := record.DecodeLocator(rec.Locator); err == nil && o.Sum != [32]byte{} {
		w.Header().Set("ETag", `"sha256-`+hex.EncodeToString(o.Sum[:])+`"`)
	}
	download(w, rec.Filename, rec.MIME)
	http.ServeContent(&ranged{ResponseWriter: w, of: r.Header.Get("Range")}, r, "", time.UnixMilli(rec.Created), seeker)
	return nil
}

// ranged says as JSON, like any refusal, that a range is not there.
type ranged struct {
	http.ResponseWriter
	of      string // what was asked for
	refused bool
}

func (w *ranged) WriteHeader(status int) {
	if w.refused = status == http.StatusRequestedRangeNotSatisfiable; !w.refused {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.Header().Del("Content-Disposition")
	why := fmt.Errorf("range %.100q: want bytes=FIRST-LAST", w.of)
	if there, ok := strings.CutPrefix(w.Header().Get("Content-Range"), "bytes */"); ok {
		why = fmt.Errorf("range %.100q: there are %s bytes", w.of, there)
	}
	answer(w.ResponseWriter, status, failureOf(why))
}

func (w *ranged) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *ranged) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// download makes a browser save the answer instead of showing it, and ask again each time: what it keeps may have been deleted, or be
// for others than whoever asks now. With its ETag it is told that it has the bytes already.
func download(w http.ResponseWriter, name, contentType string) {
	if _, _, err := mime.ParseMediaType(contentType); err != nil {
		contentType = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", cmp.Or(mime.FormatMediaType("attachment", map[string]string{"filename": name}), "attachment"))
	h.Set("Cache-Control", "private, no-cache")
}

func (a *api) blob(w http.ResponseWriter, r *http.Request) error {
	ref, err := casstore.ParseRef("blob:sha256:" + r.PathValue("sha256"))
	if err != nil {
		return fmt.Errorf("%w: %.100q is no SHA-256: want 64 hex digits in lower case", ErrRequest, r.PathValue("sha256"))
	}
	body, size, err := a.cfg.Client.SeekBlob(r.Context(), ref)
	if err != nil {
		return err
	}
	defer body.Close()
	w.Header().Set("ETag", `"sha256-`+ref.Hex()+`"`)
	kind := "application/octet-stream"
	if size > 0 && r.Header.Get("If-None-Match") == "" {
		begin := make([]byte, min(size, 512))
		if _, err := io.ReadFull(body, begin); err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
		if found := http.DetectContentType(begin); view.IsPicture(found) {
			kind = found
		}
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	download(w, ref.Hex()[:16], kind)
	http.ServeContent(&ranged{ResponseWriter: w, of: r.Header.Get("Range")}, r, "", time.Time{}, body)
	return nil
}

// putArtifact stores the body as an artifact, however long. A client that goes away in the middle leaves none.
func (a *api) putArtifact(w http.ResponseWriter, r *http.Request) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	n := client.NewArtifact{Tool: q.Get("tool"), Number: artifacts.Seq(q.Get("number")), Record: artifacts.Record{
		Session: session, Filename: q.Get("filename"), Agent: q.Get("agent"), Run: q.Get("run"), ToolCall: q.Get("tool_call"),
		Summary: q.Get("summary"), Category: artifacts.Category(q.Get("category")), MIME: typeOf(r, q.Get("filename")),
	}}
	if n.Agent != "" && n.Tool == "" {
		n.Writer = artifacts.FromAgent
		if err := events.CheckAgent("agent", n.Agent); err != nil {
			return err
		}
	}
	rec, err := a.cfg.Client.Artifacts().Put(r.Context(), n, &timed{
		in: r.Body, ctl: http.NewResponseController(w), time: func() time.Duration { return pieceTime },
	})
	if err == nil {
		answer(w, http.StatusCreated, client.ArtifactJSON(rec))
	}
	return orBegin(session, err)
}

// typeOf is what a request says of its body: nothing where it is what a client sends that was told nothing, and where the file's
// name may say more.
func typeOf(r *http.Request, filename string) string {
	said := r.Header.Get("Content-Type")
	switch kind, _, _ := mime.ParseMediaType(said); {
	case kind == "application/x-www-form-urlencoded", kind == typeBytes && filename != "":
		return ""
	}
	return said
}

// artifacts lists the artifacts of a session, oldest first.
func (a *api) artifacts(w http.ResponseWriter, r *http.Request) error {
	session, err := sessionOf(r)
	if err != nil {
		return err
	}
	all, err := a.cfg.Client.Session(session).Artifacts(r.Context())
	if len(all) > 0 && errors.Is(err, artifacts.ErrRecord) { // the others are listed
		a.cfg.Log.ErrorContext(r.Context(), "artifacts cannot be read", "session", session, "error", err)
		err = nil
	}
	if err == nil && len(all) == 0 {
		err = a.cfg.Client.Session(session).Await(r.Context())
	}
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b artifacts.Record) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return lines(w, r, "artifacts", all, client.ArtifactJSON)
}

// lines answers with a JSON object a line, or with all in one object for who accepts JSON alone: these lists were lines before
// there was another form.
func lines[T any](w http.ResponseWriter, r *http.Request, name string, all []T, form func(T) any) error {
	out := mapped.List(all, form)
	if !strings.Contains(r.Header.Get("Accept"), typeJSON) {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", typeNDJSON)
	}
	return list(w, r, name, out, "")
}

// log gives the items of a thread as they were before any cut (SPEC I5).
func (a *api) log(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	return a.give(w, r, "", project.LocalLog(t))
}

// resolve gives what an address leads to.
func (a *api) resolve(w http.ResponseWriter, r *http.Request) error {
	if t, ok := project.ParseLocalLog(strings.TrimPrefix(r.URL.Query().Get("url"),
		"/")); ok && !access.From(r.Context()).Session(t.Session) {
		return fmt.Errorf("%w: the log of the session %s", errForbidden, t.Session)
	}
	return a.give(w, r, r.URL.Query().Get("session"), r.URL.Query().Get("url"))
}

func (a *api) give(w http.ResponseWriter, r *http.Request, session, address string) error {
	var sel artifacts.Lines
	for name, p := range map[string]*int64{"offset": &sel.Offset, "limit": &sel.Limit} {
		text := r.URL.Query().Get(name)
		n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %s %q: want a whole number", ingest.ErrEntry, name, text)
		}
		*p = n
	}
	var lacks missing
	lost := a.lost(r)
	warn := func(m rehydrate.Missing) { lost(m); lacks.note(m) } // by whoever reads the body
	res, err := a.cfg.Client.Internal().Warning(warn).Session(session).Resolve(r.Context(), address, sel)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	download(w, res.Name, res.ContentType)
	if res.Size >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(res.Size, 10))
	}
	if r.Method == http.MethodHead {
		return nil
	}
	body := bufio.NewReaderSize(res.Body, ahead)
	_, _ = body.Peek(ahead) // an error is told where the body is read
	lacks.name(w.Header(), lostHeader)
	if _, err = body.WriteTo(w); err != nil {
		return begunError{err}
	}
	lacks.name(w.Header(), http.TrailerPrefix+lostHeader)
	return nil
}

// ahead is how many bytes of an answer are read before its headers are sent, which name the blobs that these bytes lack.
const ahead = 64 << 10

// prompts lists those that wait (SPEC I8).
func (a *api) prompts(w http.ResponseWriter, r *http.Request) error {
	session, err := asked(r)
	if err != nil {
		return err
	}
	all, err := a.cfg.Client.Session(session).Prompts(r.Context())
	if err != nil {
		return err
	}
	grant := access.From(r.Context())
	all = slices.DeleteFunc(all, func(p client.Prompt) bool { return !grant.Session(p.Thread.Session) })
	return lines(w, r, "prompts", all, client.PromptJSON)
}

func (a *api) prompt(w http.ResponseWriter, r *http.Request) error {
	t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
	p, err := a.cfg.Client.Thread(t).Prompt(r.Context(), r.PathValue("id"))
	if err == nil {
		answer(w, http.StatusOK, client.PromptJSON(p))
	}
	return err
}

// answerPrompt settles a prompt. The first answer does; to any other the status is 409, with how the prompt was settled.
func (a *api) answerPrompt(w http.ResponseWriter, r *http.Request) error {
	var got struct {
		Answer json.RawMessage `json:"answer"`
		By     string          `json:"by"`
		Life   uint64          `json:"life"`
	}
	if err := read(w, r, &got); err != nil {
		return err
	}
	t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
	res, err := a.cfg.Client.Thread(t).Answer(r.Context(), events.Answer{Prompt: r.PathValue("id"), Answer: got.Answer, By: got.By,
		Life: got.Life})
	out := struct {
		OK         bool   `json:"ok"`
		Error      string `json:"error,omitempty"`
		Resolution any    `json:"resolution,omitempty"`
	}{OK: err == nil}
	if sees(r) {
		out.Resolution = client.ResolutionJSON(res)
	}
	switch {
	case errors.Is(err, client.ErrAnswered):
		out.Error = err.Error()
		answer(w, http.StatusConflict, out)
	case err != nil:
		return err
	default:
		answer(w, http.StatusOK, out)
	}
	return nil
}
