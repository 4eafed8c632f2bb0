package httpapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"spool/internal/access"
	"spool/internal/dstreams"
	"spool/internal/mapped"
	"spool/internal/subscriptions"
)

// routes are those that this process serves.
func (a *api) routes() []route {
	if a.cfg.Client == nil {
		return open
	}
	return all()
}

// all are the routes of a process that serves everything.
func all() []route { return slices.Concat(open, served, verbs, claudeRoutes, removals) }

// mux leads requests to their routes, and what is no route's to the handlers beside.
func (a *api) mux() http.Handler {
	mux := http.NewServeMux()
	byPath := map[string][]route{}
	for _, r := range a.routes() {
		byPath[r.path] = append(byPath[r.path], r)
	}
	for at, routes := range byPath {
		mux.Handle(at, a.at(routes))
	}
	if a.cfg.Streams != nil {
		mux.Handle(streamPath, a.beside(a.ofStream(a.cfg.Streams), func(r *http.Request) access.Scope {
			switch r.Method {
			case http.MethodGet, http.MethodHead:
				return access.Read
			case http.MethodDelete:
				return access.Admin
			}
			return access.Write
		}))
	}
	if a.cfg.Subscriptions != nil {
		mux.Handle(streamPath+subscriptions.Control, a.ofSubscriptions(a.cfg.Subscriptions))
	}
	if a.cfg.Metrics != nil {
		mux.Handle("/metrics", a.beside(a.cfg.Metrics, func(*http.Request) access.Scope { return access.Read }))
	}
	nothing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "nothing at "+r.URL.Path+": "+elsewhere(r.URL.Path)+"; all paths are in /v1/openapi.json")
	})
	if a.cfg.Page == nil {
		mux.Handle("/", nothing)
	} else {
		mux.Handle("/v1/", nothing)
		mux.Handle("/", a.cfg.Page) // files that hold nothing secret: they ask the API, with a token
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/")                                           // of a base address that ends in a slash
		if at := path.Clean(p); strings.HasPrefix(at+"/", "/v1/") && at != strings.TrimSuffix(p, "/") { // the mux would lead elsewhere
			refuse(w, http.StatusBadRequest, p+": a name in this path is empty, or . or ..")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// elsewhere says to who asked for a path that is none here what to ask, or whom.
func elsewhere(at string) string {
	switch {
	case strings.HasPrefix(at, streamPath):
		return "Durable Streams are at spool up and spool serve"
	case !strings.HasPrefix(at, "/v1/"):
		return "the page is at spool up and spool serve"
	}
	return "POST to /v1/events or /v1/sessions/{session}/threads/{thread}/entries"
}

// at answers at one path.
func (a *api) at(routes []route) http.Handler {
	methods := mapped.List(routes, func(r route) string { return r.method })
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		i := slices.Index(methods, method)
		if i < 0 {
			w.Header().Set("Allow", allow)
			refuse(w, http.StatusMethodNotAllowed, r.Method+": use "+allow)
			return
		}
		a.serve(routes[i], w, r)
	})
}

// serve lets a request in, or answers why not, and answers its error.
func (a *api) serve(to route, w http.ResponseWriter, r *http.Request) {
	if to.need != access.None {
		var ok bool
		if r, ok = a.admit(w, r, to.need); !ok {
			return
		}
		if err := to.knows(r); err != nil {
			a.fail(w, r, err)
			return
		}
	}
	if r.Method == http.MethodHead && len(to.gives) > 0 && to.gives[0].media == typeSSE {
		w.Header().Set("Content-Type", typeSSE)
		return
	}
	if enc := strings.Join(r.Header.Values("Content-Encoding"), ","); enc != "" && enc != "identity" && len(to.takes) > 0 {
		a.fail(w, r, fmt.Errorf("%w: Content-Encoding %.50q: send the body as it is", errMedia, enc))
		return
	}
	if len(to.takes) == 0 && r.ContentLength != 0 { // net/http would wait for it while a place is held
		if _, err := io.CopyN(io.Discard, r.Body, maxBody); err != nil && !errors.Is(err, io.EOF) {
			a.fail(w, r, fmt.Errorf("%w: a body that is not wanted did not come: %w", ErrRequest, err))
			return
		}
	}
	if to.need == access.Write || to.need == access.Answer {
		if err := a.charge(r, r.PathValue("session"), to.paced); err != nil {
			a.fail(w, r, err)
			return
		}
	}
	in := to.in
	if in == storing && mediaType(r) == typeNDJSON {
		in = piping
	}
	if room := a.lanes[in]; room != nil {
		p, at := w.(*patient), &stay{places: room, lends: in.lends()}
		if err := at.enter(r.Context(), p, false); err != nil {
			a.fail(w, r, err)
			return
		}
		defer at.leave(r.Context(), p)
		if at.lends {
			r = r.WithContext(at.aside(r.Context(), p, a.lanes[waiting]))
		}
		if r.ContentLength != 0 {
			p.rest(in == piping)
			r.Body = sent{r.Body, p, in == piping}
		}
	}
	if in == following || in == sending || in == piping {
		untime(w)
	}
	if err := to.do(a, w, r); err != nil {
		a.fail(w, r, err)
	}
}

// knows refuses a parameter that the route does not have, and one that is there twice: to take no notice of a misspelt one, or of all but
// the first, would answer another question.
func (to *route) knows(r *http.Request) error {
	q := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if len(q[name]) > 1 {
			return fmt.Errorf("%w: the parameter %.50q is there %d times: give it once", ErrRequest, name, len(q[name]))
		}
		if slices.ContainsFunc(to.query, func(p param) bool { return p.name == name && !p.header }) {
			continue
		}
		var has []string
		for _, p := range to.query {
			if !p.header {
				has = append(has, p.name)
			}
		}
		if len(has) == 0 {
			return fmt.Errorf("%w: unknown parameter %.50q: none is taken here", ErrRequest, name)
		}
		return fmt.Errorf("%w: unknown parameter %.50q: here are %s", ErrRequest, name, strings.Join(has, ", "))
	}
	return nil
}

// untime tells whoever measures requests that this one lasts as long as the client likes.
func untime(w http.ResponseWriter) {
	for {
		if m, ok := w.(interface{ Untimed() }); ok {
			m.Untimed()
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}

// beside guards a handler that is not of the table.
func (a *api) beside(next http.Handler, need func(*http.Request) access.Scope) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r, ok := a.admit(w, r, need(r)); ok {
			next.ServeHTTP(w, r)
		}
	})
}

const (
	streamPath   = dstreams.Prefix
	headerSource = "Stream-Forked-From" // a stream that a new one begins with
)

// ofStream lets a token for some sessions only at streams that are stored in these, and charges the session that a stream is stored in.
func (a *api) ofStream(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		grant := access.From(r.Context())
		t, bad := dstreams.ThreadAt(streamPath, r.URL.Path)
		may := grant.Everything() || bad == nil && grant.Session(t.Session)
		if from := r.Header.Get(headerSource); from != "" && !grant.Everything() {
			source, err := dstreams.SourceAt(streamPath, from)
			may = may && err == nil && grant.Session(source.Session)
		}
		if !may {
			refuse(w, http.StatusForbidden,
				"the token "+grant.Name+" is not for this stream: it is for those of sessions that begin with "+strings.Join(grant.Sessions, ", "))
			return
		}
		if bad == nil && (r.Method == http.MethodPut || r.Method == http.MethodPost) { // a stream without a name is refused, and stores nothing
			if err := a.charge(r, t.Session, false); err != nil {
				a.fail(w, r, err)
				return
			}
		}
		if r.URL.Query().Has("live") { // a long poll, or an event stream
			untime(w)
		}
		r = r.WithContext(dstreams.WithRoom(r.Context(), a.hold(w, r, a.streams)))
		if r.ContentLength != 0 {
			r.Body = sent{r.Body, w.(*patient), false}
		}
		next.ServeHTTP(w, r)
	})
}

// ofSubscriptions lets in who may read and write all sessions, since a subscription is to streams of any; a worker shows its wake's token.
func (a *api) ofSubscriptions(next http.Handler) http.Handler {
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if grant := access.From(r.Context()); !grant.Everything() {
			refuse(w, http.StatusForbidden, "the token "+grant.Name+" is for some sessions: subscriptions are to streams of any")
			return
		}
		next.ServeHTTP(w, r)
	})
	reads := a.beside(all, func(*http.Request) access.Scope { return access.Read })
	writes := a.beside(reads, func(*http.Request) access.Scope { return access.Write })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subscriptions.Own(streamPath, r) {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodGet {
			reads.ServeHTTP(w, r)
			return
		}
		writes.ServeHTTP(w, r)
	})
}
