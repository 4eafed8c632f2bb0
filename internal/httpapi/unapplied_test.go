package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/httpapi"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// What was acknowledged is never said to be nowhere: while no persister comes to it, whoever asks for it, or takes it away, is told
// to come again, at every route.
func TestWhatNoPersisterCameTo(t *testing.T) {
	_, url := unattended(t)

	var spec struct {
		Paths map[string]map[string]struct{} `json:"paths"`
	}
	_, _, text := get(t, url, "/v1/openapi.json")
	must.Do(t, json.Unmarshal([]byte(text), &spec))
	fill := strings.NewReplacer("{session}", "s", "{thread}", "main", "{n}", "1", "{run}", "r1", "{prompt}", "q1", "{output}", "o1")
	spec.Paths["/v1/read?session={session}&url=artifact://1"] = spec.Paths["/v1/read"]
	spec.Paths["/v1/read?session={session}&url=agent://0-Review"] = spec.Paths["/v1/read"]
	var routes sync.WaitGroup
	for path, verbs := range spec.Paths {
		if !strings.Contains(path, "{session}") {
			continue
		}
		for verb := range verbs {
			routes.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				req := must.Get(http.NewRequestWithContext(ctx, strings.ToUpper(verb), url+fill.Replace(path), strings.NewReader("{}")))(t)
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil { // it is still waiting
					return
				}
				defer res.Body.Close()
				body := must.Get(io.ReadAll(res.Body))(t)
				if res.StatusCode == 404 && !bytes.Contains(body, []byte("spool_artifacts")) {
					t.Errorf("%s %s = 404 %s", verb, path, body)
				}
			})
		}
	}
	routes.Wait()
}

// TestAppliedAndNotAcked: a thread that is committed while somebody reads it is found, although the ack of its partition waits for
// another session (AckAll): a large body, a purge, a backlog that it overtook.
func TestAppliedAndNotAcked(t *testing.T) {
	conn, url := unattended(t)
	time.AfterFunc(500*time.Millisecond, func() { // the commit; nothing is acked
		at := casstore.Located{Ref: casstore.NodeRef([32]byte{1}), Pack: casstore.PackID{1}}
		head := threads.Head{Start: at, Recent: []casstore.Located{at}, Updated: time.Now().UnixMilli(), Applied: 1}
		_, _ = conn.Records().Write(t.Context(), record.Put{
			Key: events.HeadKey(events.Thread{Session: "s", Name: "main"}), Value: head.Encode(), Expect: record.Any})
	})
	if status, _, body := get(t, url, "/v1/sessions/s/threads/main/items"); status == 503 {
		t.Errorf("GET items = %d %s", status, body)
	}
	if status, _, body := get(t, url, "/v1/sessions/s/threads/nowhere/items"); status != 404 {
		t.Errorf("a thread to which nothing was published = %d %s, want 404: nobody is waited for", status, body)
	}
}

// unattended is a store without a persister that has taken an entry of s/main, and its API.
func unattended(t *testing.T) (conn *natsio.Conn, url string) {
	conn = natstest.Conn(t)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	status, _, _ := do(t, srv.URL, request{path: "/v1/sessions/s/threads/main/entries?dialect=item", kind: "application/json",
		body: `{"content":[{"type":"text","text":"hello"}]}`})
	must.Same(t, status, 202, "the entry = %d, want %d")
	return conn, srv.URL
}

// Those who wait for what no persister came to hold no place of a lane: beside them others are answered.
func TestWaitingHoldsNoPlace(t *testing.T) {
	conn := natstest.Conn(t)
	srv := httptest.NewServer(httpapi.For(conn, httpapi.Config{Requests: 2}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	status, _, _ := do(t, srv.URL, request{path: "/v1/sessions/s/threads/main/entries?dialect=item", kind: "application/json",
		body: `{"content":[{"type":"text","text":"hello"}]}`})
	must.Same(t, status, 202, "the entry = %d, want %d")
	var waiting sync.WaitGroup
	for _, path := range []string{"/v1/read?session=s&url=artifact://1", "/v1/sessions/s/threads/main/items", "/v1/sessions/s/artifacts"} {
		waiting.Go(func() {
			if status, _, body := get(t, srv.URL, path); status != 503 {
				t.Errorf("%s = %d %s, want 503", path, status, body)
			}
		})
	}
	over := make(chan struct{})
	go func() { waiting.Wait(); close(over) }()
	for at, answered := time.NewTicker(50*time.Millisecond), 0; ; answered++ {
		status, _, body := get(t, srv.URL, "/v1/sessions")
		must.Same(t, status, 200, "%.100s: a list beside those that wait = %d, want %d", body)
		select {
		case <-over:
			at.Stop()
			if answered < 20 {
				t.Errorf("%d lists were answered while others waited, want one every little while", answered)
			}
			return
		case <-at.C:
		}
	}
}
