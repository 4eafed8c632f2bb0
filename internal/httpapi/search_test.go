package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/must"
)

// TestSearchIncomplete: an answer says when the index lacks much of what is stored, and nothing when it only follows.
func TestSearchIncomplete(t *testing.T) {
	newest, fails := uint64(0), error(nil)
	a := &api{cfg: Config{History: filepath.Join(t.TempDir(), "history.db"),
		newest: func(context.Context) (uint64, error) { return newest, fails }}}
	for _, c := range []struct {
		newest uint64
		fails  error
		want   bool
	}{{0, nil, false}, {farBehind, nil, false}, {farBehind + 1, nil, true}, {farBehind + 1, errors.New("no server"), false}} {
		newest, fails = c.newest, c.fails
		w := httptest.NewRecorder()
		must.Do(t, a.searchAll(w, httptest.NewRequest("GET", "/v1/search?q=x", nil)))
		got := strings.Contains(w.Body.String(), `"incomplete":true`)
		must.Same(t, got, c.want, "%+v: incomplete is %v, want %v", c)
	}
}
