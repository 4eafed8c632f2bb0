package httpapi

import (
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
	"time"

	"spool/internal/ingest"
	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// read adds what is read.
func (a *api) read(mux *http.ServeMux) {
	mux.Handle("GET /v1/artifacts/{id}", a.reading(a.artifact))
	mux.Handle("GET /v1/sessions/{session}/artifacts", a.reading(a.artifacts))
	mux.Handle("POST /v1/sessions/{session}/artifacts", a.storing(func(w http.ResponseWriter, r *http.Request) {
		if err := a.putArtifact(w, r); err != nil {
			a.failRead(w, r, err)
		}
	}))
	mux.Handle("GET /v1/sessions/{session}/threads/{thread}/logs/thread.log", a.reading(a.log))
	mux.Handle("GET /v1/read", a.reading(a.resolve))
	mux.Handle("GET /v1/prompts", a.reading(a.prompts))
	mux.Handle("GET /v1/sessions/{session}/threads/{thread}/prompts/{id}", a.reading(a.prompt))
	mux.Handle("/v1/sessions/{session}/threads/{thread}/prompts/{id}/answer", a.storing(func(w http.ResponseWriter, r *http.Request) {
		if err := a.answer(w, r); err != nil {
			a.failRead(w, r, err)
		}
	}))
}

// reading guards a handler that reads: token, room; and answers its error.
func (a *api) reading(next func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.admit(w, r, a.readers) {
			return
		}
		defer func() { <-a.readers }()
		if err := next(w, r); err != nil {
			a.failRead(w, r, err)
		}
	})
}

// failRead answers with what an error of reading means. What has begun is cut off: its client sees that it is incomplete.
func (a *api) failRead(w http.ResponseWriter, r *http.Request, err error) {
	var begun begunError
	if errors.As(err, &begun) {
		if r.Context().Err() == nil {
			a.cfg.Log.ErrorContext(r.Context(), "read", "path", r.URL.Path, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, artifacts.ErrURL), errors.Is(err, artifacts.ErrRecord), errors.Is(err, events.ErrToken), errors.Is(err, events.ErrControl):
		status = http.StatusBadRequest
	case errors.Is(err, artifacts.ErrNotFound), errors.Is(err, artifacts.ErrUnavailable), errors.Is(err, threads.ErrNoThread),
		errors.Is(err, client.ErrNoPrompt), errors.Is(err, record.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, artifacts.ErrPastEnd):
		status = http.StatusRequestedRangeNotSatisfiable
	case errors.Is(err, client.ErrEnded):
		status = http.StatusConflict
	default:
		a.fail(w, r, err)
		return
	}
	refuse(w, status, err.Error())
}

// begunError: an answer that began with a status of success.
type begunError struct{ error }

func (e begunError) Unwrap() error { return e.error }

// artifact gives the bytes of an artifact: for download, never to be shown by a browser (DESIGN 11).
func (a *api) artifact(w http.ResponseWriter, r *http.Request) error {
	cl := a.cfg.Client
	rec, err := cl.Artifact(r.Context(), artifacts.ID(r.PathValue("id")))
	if err != nil {
		return err
	}
	body, _, err := cl.OpenArtifact(r.Context(), rec)
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
	http.ServeContent(&patient{w, http.NewResponseController(w)}, r, "", time.UnixMilli(rec.Created), seeker)
	return nil
}

// download makes a browser save the answer instead of showing it.
func download(w http.ResponseWriter, name, contentType string) {
	if _, _, err := mime.ParseMediaType(contentType); err != nil {
		contentType = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", cmp.Or(mime.FormatMediaType("attachment", map[string]string{"filename": name}), "attachment"))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
}

// patient gives a client answerTime for each piece of an answer.
type patient struct {
	http.ResponseWriter
	ctl *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	_ = p.ctl.SetWriteDeadline(time.Now().Add(answerTime))
	return p.ResponseWriter.Write(b)
}

// putArtifact stores the body as an artifact, however long. A client that goes away in the middle leaves none.
func (a *api) putArtifact(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	n := client.NewArtifact{Tool: q.Get("tool"), Record: artifacts.Record{
		Session: r.PathValue("session"), Filename: q.Get("filename"), Agent: q.Get("agent"), Run: q.Get("run"), ToolCall: q.Get("tool_call"),
		Summary: q.Get("summary"), Category: artifacts.Category(q.Get("category")), MIME: r.Header.Get("Content-Type"),
	}}
	if n.Agent != "" && n.Tool == "" {
		n.Writer = artifacts.FromAgent
	}
	rec, err := a.cfg.Client.PutArtifact(r.Context(), n, &unhurried{r.Body, http.NewResponseController(w)})
	if err == nil {
		answer(w, http.StatusCreated, client.ArtifactJSON(rec))
	}
	return err
}

// unhurried gives a client entryTime for each piece of a body.
type unhurried struct {
	io.Reader
	ctl *http.ResponseController
}

func (u *unhurried) Read(b []byte) (int, error) {
	_ = u.ctl.SetReadDeadline(time.Now().Add(entryTime))
	return u.Reader.Read(b)
}

// artifacts lists the artifacts of a session, oldest first.
func (a *api) artifacts(w http.ResponseWriter, r *http.Request) error {
	session := r.PathValue("session")
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	list, err := a.cfg.Client.Artifacts(r.Context(), session)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b artifacts.Record) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return lines(w, list, client.ArtifactJSON)
}

// lines answers with a JSON object a line.
func lines[T any](w http.ResponseWriter, list []T, form func(T) any) error {
	w.Header().Set("Content-Type", typeNDJSON)
	enc := json.NewEncoder(&patient{w, http.NewResponseController(w)})
	for _, one := range list {
		if err := enc.Encode(form(one)); err != nil {
			return begunError{err}
		}
	}
	return nil
}

// log gives the items of a thread as they were before any cut (SPEC I5).
func (a *api) log(w http.ResponseWriter, r *http.Request) error {
	t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
	if err := t.Validate(); err != nil {
		return err
	}
	return a.write(w, r, "", project.LocalLog(t))
}

// resolve gives what an address leads to.
func (a *api) resolve(w http.ResponseWriter, r *http.Request) error {
	return a.write(w, r, r.URL.Query().Get("session"), r.URL.Query().Get("url"))
}

func (a *api) write(w http.ResponseWriter, r *http.Request, session, address string) error {
	var sel artifacts.Lines
	for name, p := range map[string]*int64{"offset": &sel.Offset, "limit": &sel.Limit} {
		text := r.URL.Query().Get(name)
		n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %s %q: want a whole number", ingest.ErrEntry, name, text)
		}
		*p = n
	}
	res, err := a.cfg.Client.Resolve(r.Context(), session, address, sel)
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
	if _, err = io.Copy(&patient{w, http.NewResponseController(w)}, res.Body); err != nil {
		return begunError{err}
	}
	return nil
}

// prompts lists those that wait (SPEC I8).
func (a *api) prompts(w http.ResponseWriter, r *http.Request) error {
	session := r.URL.Query().Get("session")
	if session != "" {
		if err := events.CheckToken("session", session); err != nil {
			return err
		}
	}
	list, err := a.cfg.Client.Prompts(r.Context(), session)
	if err != nil {
		return err
	}
	return lines(w, list, client.PromptJSON)
}

func (a *api) prompt(w http.ResponseWriter, r *http.Request) error {
	t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
	p, err := a.cfg.Client.Prompt(r.Context(), t, r.PathValue("id"))
	if err == nil {
		answer(w, http.StatusOK, client.PromptJSON(p))
	}
	return err
}

// maxAnswer is the largest body of an answer, in bytes: a little over the largest answer.
const maxAnswer = 70_000

// answer settles a prompt. The first answer does; to any other the status is 409, with how the prompt was settled.
func (a *api) answer(w http.ResponseWriter, r *http.Request) error {
	if t := mediaType(r); t != typeJSON {
		a.wrongType(w, r, typeJSON)
		return nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTime))
	var got struct {
		Answer json.RawMessage `json:"answer"`
		By     string          `json:"by"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&got); err != nil {
		return fmt.Errorf(`%w: want {"answer":…,"by":"name"}: %w`, ingest.ErrEntry, err)
	}
	t := events.Thread{Session: r.PathValue("session"), Name: r.PathValue("thread")}
	res, err := a.cfg.Client.Answer(r.Context(), t, events.Answer{Prompt: r.PathValue("id"), Answer: got.Answer, By: got.By})
	out := struct {
		OK         bool   `json:"ok"`
		Error      string `json:"error,omitempty"`
		Resolution any    `json:"resolution"`
	}{err == nil, "", client.ResolutionJSON(res)}
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
