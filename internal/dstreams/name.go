package dstreams

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"spool/pkg/events"
)

// A stream's name is the rest of its path. "session" and "session/thread" are what they say; any other name is written in
// base64url: the session is "_ds-" and the first 124 characters, the thread "main", or "_" and the others.
const (
	encoded  = "_ds-"
	inThread = "_"
	first    = events.MaxToken - len(encoded)
)

// maxName is the longest name that is not a thread's own, in bytes.
const maxName = (first + events.MaxToken - len(inThread)) * 3 / 4

// ThreadAt is the thread that the stream at a path is stored in, where streams are below prefix. Errors say what is wrong with its name.
func ThreadAt(prefix, path string) (events.Thread, error) {
	name, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return events.Thread{}, refuse(http.StatusNotFound, fmt.Sprintf("no stream at %.200q: streams are at %sNAME", path, prefix))
	}
	return threadOf(name)
}

// SourceAt is the thread of the stream that a new one begins with, as the header Stream-Forked-From of its PUT names it.
func SourceAt(prefix, from string) (events.Thread, error) {
	u, err := url.Parse(from)
	if err != nil {
		return events.Thread{}, refuse(http.StatusBadRequest, fmt.Sprintf("%s %.200q: want the path of a stream", hdrForked, from))
	}
	return ThreadAt(prefix, u.Path)
}

func threadOf(name string) (events.Thread, error) {
	t, err := events.ParseThread(name)
	if err == nil && !strings.HasPrefix(t.Session, encoded) && !reserved(name) {
		return t, nil
	}
	switch {
	case reserved(name):
		return t, refuse(http.StatusNotFound, fmt.Sprintf("%.200q is no stream: the protocol keeps such names for itself", name))
	case name == "":
		return t, refuse(http.StatusNotFound, "a stream has a name: use …/stream/NAME")
	case len(name) > maxName:
		return t, refuse(http.StatusBadRequest,
			fmt.Sprintf("stream name of %d bytes: at most %d; or session/thread, each of at most %d of A-Z a-z 0-9 _ -",
				len(name), maxName, events.MaxToken))
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(name))
	if len(text) <= first {
		return events.Thread{Session: encoded + text, Name: events.MainThread}, nil
	}
	return events.Thread{Session: encoded + text[:first], Name: inThread + text[first:]}, nil
}

// nameOf is the opposite of threadOf.
func nameOf(t events.Thread) string {
	if text, ok := strings.CutPrefix(t.Session, encoded); ok {
		if t.Name != events.MainThread {
			text += strings.TrimPrefix(t.Name, inThread)
		}
		if name, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			return string(name)
		}
	}
	if t.Name == events.MainThread {
		return t.Session
	}
	return t.String()
}
