package web_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/web"
)

func get(t *testing.T, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	web.Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestPaths(t *testing.T) {
	for target, want := range map[string]int{
		"/": 200, "/history": 200, "/search": 200, "/s/a": 200, "/s/a/main": 200, "/n/00ff": 200, "/assets/js/app.js": 200,
		"/assets/style.css": 200, "/assets/icon.svg": 200,
		"/s/": 404, "/n": 404, "/nothing": 404, "/search/x": 404, "/assets/": 404, "/assets/index.html": 404, "/assets/js": 404,
		"/assets/../web.go": 404, "/index.html": 404, "/v1/x": 404, "/s//x": 404,
	} {
		must.Same(t, get(t, "GET", target).StatusCode, want, "GET %s = %d, want %d", target)
	}
	if got := get(t, "POST", "/"); got.StatusCode != 405 || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST / = %d, Allow %q", got.StatusCode, got.Header.Get("Allow"))
	}
}

func TestHeaders(t *testing.T) {
	for target, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/s/a/main": "text/html; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8",
		"/assets/js/app.js": "text/javascript; charset=utf-8", "/assets/icon.svg": "image/svg+xml",
	} {
		res := get(t, "GET", target)
		for name, want := range map[string]string{
			"Content-Type": kind, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			must.Same(t, res.Header.Get(name), want, "%s: %s is %q, want %q", target, name)
		}
		policy := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy+";", want+";") {
				t.Errorf("%s: the policy %q lacks %s", target, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy %q allows too much", target, policy)
		}
		if again := get(t, "GET", target, "If-None-Match", res.Header.Get("ETag")); again.StatusCode != 304 {
			t.Errorf("%s with its ETag = %d, want 304", target, again.StatusCode)
		}
	}
}

var (
	imported = regexp.MustCompile(`(?m)^import [^;]*?from '([^']+)'`)
	// What turns text into markup or code, or asks another host.
	forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function|import\(|setHTML|` +
		`setAttribute\('style|cssText|new EventSource|WebSocket|sendBeacon|XMLHttpRequest|fetch\(['"]http`)
)

// TestModules reads the modules as they are served: each import is there, and none does what the package forbids to all.
func TestModules(t *testing.T) {
	page, err := os.ReadFile("assets/index.html")
	must.Do(t, err)
	n := 0
	err = filepath.WalkDir("assets", func(p string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(p) != ".js" {
			return err
		}
		n++
		if !strings.Contains(string(page), `="/`+filepath.ToSlash(p)+`"`) {
			t.Errorf("index.html does not ask for %s at once", p)
		}
		source, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range imported.FindAllSubmatch(source, -1) {
			target := path.Join("/", filepath.ToSlash(filepath.Dir(p)), string(m[1]))
			if got := get(t, "GET", target).StatusCode; got != 200 {
				t.Errorf("%s imports %s: %d", p, m[1], got)
			}
		}
		if found := forbidden.Find(source); found != nil {
			t.Errorf("%s uses %s", p, found)
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Fatalf("%d modules read: %v", n, err)
	}
	if found := regexp.MustCompile(`(?i)\son\w+=|style=|<style|javascript:|https?://|<script(?:>| (?:[^>]*[^"])?>[^<])`).Find(page); found != nil {
		t.Errorf("the document has %s", found)
	}
}
