// Package web is the page that shows a fleet to a person: who waits for an answer, which sessions run, and each thread, live.
//
// The page is static: documents, style and modules are embedded as they are written, there is no build step, and nothing is
// asked of any other host. All that it shows it reads over the JSON API and the event streams of internal/httpapi on its own
// origin, with the token that a person gives it; the files themselves hold nothing secret and need none.
//
// What agents wrote is hostile until proven otherwise (DESIGN 11). It reaches the document as text nodes alone: no module
// uses innerHTML or the like, and the policy below forbids it to all of them, forbids inline script and style, and allows
// pictures from this origin and from bytes that a module checked (assets/js/picture.js).
//
//	/                          the fleet: needs-you first
//	/s/{session}[/{thread}]    a thread; ?n=N at an item; ?with=S/T compared with another one
//	/n/{hash}?s=S&t=T[&i=K]    the K-th item of a state, in whichever thread has it: the link that survives forks
//	/history                   prompts across sessions
//	/search                    what was said and printed, in all sessions
//	/assets/…                  style and modules
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var files embed.FS

// policy of every answer. Trusted Types make each way from a string to markup an error; the policy names none that may.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// asset is a file as it is served.
type asset struct {
	body        []byte
	contentType string
	etag        string
}

// Handler serves the page and its files. It answers GET and HEAD.
func Handler() http.Handler {
	assets := load()
	page := assets["index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer") // session names are nobody else's business
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, r.Method+": use GET", http.StatusMethodNotAllowed)
			return
		}
		a, ok := page, isView(r.URL.Path)
		if name, under := strings.CutPrefix(r.URL.Path, "/assets/"); under && name != "index.html" {
			a, ok = assets[name]
		}
		if !ok {
			http.Error(w, "nothing at "+r.URL.Path+": the page is at /, the API under /v1", http.StatusNotFound)
			return
		}
		h.Set("Content-Type", a.contentType)
		h.Set("Cache-Control", "no-cache") // asked again each time, answered with 304
		h.Set("ETag", a.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	})
}

// isView reports whether the page has a view at a path: which one it is, is decided in assets/js/app.js.
func isView(p string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	switch first {
	case "":
		return p == "/"
	case "history":
		return p == "/history"
	case "search":
		return p == "/search"
	case "s", "n":
		return path.Clean(p) == p && len(p) > len("/s/")
	}
	return false
}

// load reads the embedded files. They are part of the program: one that is missing or unknown is a mistake in it.
func load() map[string]asset {
	out := map[string]asset{}
	err := fs.WalkDir(files, "assets", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(p)
		if err != nil {
			return err
		}
		kind := contentType(p)
		if kind == "" {
			return fmt.Errorf("%s: no content type for it", p)
		}
		sum := sha256.Sum256(body)
		out[strings.TrimPrefix(p, "assets/")] = asset{body, kind, `"` + hex.EncodeToString(sum[:12]) + `"`}
		return nil
	})
	if err != nil {
		panic("web: " + err.Error())
	}
	return out
}

// contentType does not ask the machine's tables: a wrong type is a module that does not load.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return mime.FormatMediaType("text/html", map[string]string{"charset": "utf-8"})
	case ".css":
		return mime.FormatMediaType("text/css", map[string]string{"charset": "utf-8"})
	case ".js":
		return mime.FormatMediaType("text/javascript", map[string]string{"charset": "utf-8"})
	case ".svg":
		return "image/svg+xml"
	}
	return ""
}
