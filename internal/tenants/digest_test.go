package tenants_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// digests are those of all that is stored, as they may be told.
func (s *scoped) digests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	add := func(b []byte) {
		if !bytes.Equal(b, make([]byte, len(b))) {
			all[hex.EncodeToString(b)], all[base64.RawStdEncoding.EncodeToString(b)] = true, true
		}
	}
	rs := must.Get(s.admin.Records().List(t.Context(), ">"))(t)
	for _, r := range rs {
		class := must.Get(record.ClassOf(r.Key))(t)
		if name, id, _ := strings.Cut(r.Key, "."); name == "pack" || name == "blob" {
			b := must.Get(hex.DecodeString(id))(t)
			add(b)
		}
		if o, err := class.Object(r.Value); err == nil {
			add(o.Sum[:])
		}
		if head, err := threads.DecodeHead(r.Value); class.Name == "thread" && err == nil {
			sum := head.Head().Ref.Sum()
			add(sum[:])
		}
	}
	return all
}

// TestDigestsAreNotTold: a digest is the right to its bytes. An agent, and a token that only writes, are told none, and
// not whether one is there, whatever they ask for: by no ack, no error and no other message.
func TestDigestsAreNotTold(t *testing.T) {
	s := newScoped(t)
	blob := must.Get(s.acme.PutBlob(t.Context(), []byte(secret)))(t)
	own := client.NewArtifact{Record: artifacts.Record{Session: "other"}}
	must.Get(s.acme.Artifacts().Put(t.Context(), own, strings.NewReader(secret)))(t)
	known := s.digests(t)
	if len(known) < 10 || !known[blob.Hex()] || !known[s.node.Hex()] {
		t.Fatalf("digests that are stored: %v", known)
	}
	told := func(what, asked, text string) {
		t.Helper()
		for d := range known {
			if strings.Contains(text, d) && !strings.Contains(asked, d) {
				t.Errorf("%s tells the digest %s: %s", what, d, text)
			}
		}
	}
	_, read := s.ask(t, http.MethodGet, "/v1/sessions/other/threads/main", opsToken, "")
	if !strings.Contains(read, s.node.Hex()) {
		t.Fatalf("who reads the thread gets %s, want its digest: what is told is looked for as it is not told", read)
	}
	heard := make(chan *nats.Msg, 10_000)
	must.Get(s.agent.ChanSubscribe("_INBOX.agent.>", heard))(t)
	publish := func(e *events.Event) string {
		t.Helper()
		at := events.Thread{Session: "mine", Name: e.Thread.Name}
		m := must.Get(s.agent.Request(events.EventSubject(at, e.Kind), e.Encode(), wait))(t)
		return string(m.Data) + fmt.Sprint(m.Header)
	}
	for _, field := range slices.Sorted(maps.Keys(foreign)) {
		row := foreign[field]
		if e := s.event(row); row.ask == nil {
			if row.change != nil {
				row.change(s, e)
			}
			told(field, string(e.Encode()), publish(e))
		}
		if row.path != "" {
			body := ""
			if row.body != nil {
				body = row.body(s)
			}
			path := cmp.Or(row.root, "/v1/sessions/") + row.path
			_, text := s.ask(t, cmp.Or(row.method, http.MethodPost), path, writingToken, body)
			told(field+" over HTTP", path+body, text)
		}
	}
	s.sameAnswers(t, blob.Hex(), publish)
	s.settle()
	must.Do(t, s.agent.Flush())
	for len(heard) > 0 {
		m := <-heard
		told("a message to the agent", "", string(m.Data)+fmt.Sprint(m.Subject, m.Header))
	}
	if letters := s.letters("mine"); !strings.Contains(strings.Join(letters, " "), "is not stored") {
		t.Errorf("dead letters = %q: nothing was refused for what it refers to, so nothing is tried here", letters)
	}
	for _, path := range []string{
		"/v1/blobs/" + blob.Hex(), "/v1/nodes/" + s.node.Hex(), "/v1/read?url=" + blob.String(), "/v1/sessions/mine/threads",
	} {
		if status, text := s.ask(t, http.MethodGet, path, writingToken, ""); status != http.StatusForbidden {
			t.Errorf("%s with a token that only writes = %d %s", path, status, text)
		}
	}
}

// sameAnswers: whoever refers to what is stored is told the same as who refers to what is not.
func (s *scoped) sameAnswers(t *testing.T, there string, publish func(*events.Event) string) {
	t.Helper()
	digits := regexp.MustCompile(`[0-9]+`)
	var acks, answers []string
	for _, digest := range []string{there, strings.Repeat("5a", 32)} {
		body := fmt.Appendf(nil, `{"role":"user","content":"x","refs":["blob:sha256:%s"]}`, digest)
		e := s.event(names{op: func(*scoped) any { return body }})
		e.Dialect = "step"
		acks = append(acks, digits.ReplaceAllString(publish(e), "N"))
		path := "/v1/sessions/mine/threads/" + e.Thread.Name + "-http/entries?dialect=step"
		status, text := s.ask(t, http.MethodPost, path, writingToken, string(body))
		text = strings.ReplaceAll(text, e.Thread.Name, "T")
		answers = append(answers, fmt.Sprint(status, digits.ReplaceAllString(text, "N")))
	}
	if acks[0] != acks[1] || answers[0] != answers[1] {
		t.Errorf("who refers to what is there gets %q, %q, and to what is not %q, %q",
			acks[0], answers[0], acks[1], answers[1])
	}
}
