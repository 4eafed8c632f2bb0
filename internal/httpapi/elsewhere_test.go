package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spool/internal/httpapi"
)

// TestElsewhere: who asks a process for what others serve is told who does.
func TestElsewhere(t *testing.T) {
	api := httpapi.New(httpapi.Config{Publisher: &sink{}})
	for path, says := range map[string]string{"/": "spool serve", "/v1/stream/notes": "spool serve", "/v1/nosuch": "POST to /v1/events"} {
		answer := httptest.NewRecorder()
		ask := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		ask.RemoteAddr = "127.0.0.1:1"
		api.ServeHTTP(answer, ask)
		if answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), says) {
			t.Errorf("%s: %d %s, want 404 and %q", path, answer.Code, answer.Body, says)
		}
	}
}

// TestNothingAsAName: of a name in a path that is empty, or leads elsewhere, it is said that it is none, whoever asks: a client that is sent
// elsewhere asks there for something else, or publishes nothing.
func TestNothingAsAName(t *testing.T) {
	api := httpapi.New(httpapi.Config{Publisher: &sink{}})
	for _, path := range []string{"/v1/sessions//threads/main/entries", "/v1/sessions/s/threads//entries", "/v1/sessions/../threads/main/entries",
		"/v1/sessions/./threads/main/entries", "/v1//events", "//v1/sessions//threads/main/entries", "//v1/sessions/s/threads/..",
		"/proxy/../v1/sessions/s"} {
		answer := httptest.NewRecorder()
		ask := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader("{}"))
		ask.RemoteAddr = "127.0.0.1:1"
		api.ServeHTTP(answer, ask)
		if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "empty") {
			t.Errorf("%s: %d %s, want 400, and why", path, answer.Code, answer.Body)
		}
	}
}
