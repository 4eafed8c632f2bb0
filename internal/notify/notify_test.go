package notify_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/notify"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// system is a server with a persister, and a client of it.
func system(t *testing.T) *client.Client {
	t.Helper()
	conn := natstest.Conn(t)
	natstest.Run(t, service.NewPersister(conn, service.PersisterConfig{}, slog.New(slog.DiscardHandler)).Run)
	return client.New(conn)
}

func thread(name string) events.Thread { return events.Thread{Session: name, Name: events.MainThread} }

// ask puts a question, and does not wait for its answer.
func ask(t *testing.T, cl *client.Client, session, id string, deadline time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"content":[{"type":"text","text":"may I? %s"}],"metadata":{"type":"pending_prompt","prompt":{"id":%q,"kind":"approval"`, id, id)
	if deadline > 0 {
		body += fmt.Sprintf(`,"deadline":%d`, time.Now().Add(deadline).UnixMilli())
	}
	p := cl.Publisher(client.PublisherConfig{})
	must.Get(p.Publish(t.Context(), client.Entry{Thread: thread(session), Dialect: "item", Body: []byte(body + "}}}")}))(t)
	must.Do(t, cl.Thread(thread(session)).Settled(t.Context()))
}

func answer(t *testing.T, cl *client.Client, session, id string) {
	t.Helper()
	must.Get(cl.Thread(thread(session)).Answer(t.Context(), events.Answer{Prompt: id, Answer: json.RawMessage("true"), By: "mira"}))(t)
}

// told is what a Teller was told.
type told struct {
	sync.Mutex
	notes []notify.Note
	more  chan struct{}
}

func newTold() *told { return &told{more: make(chan struct{}, 1000)} }

func (w *told) tell(_ context.Context, n notify.Note, _ []byte) error {
	w.Lock()
	defer w.Unlock()
	w.notes = append(w.notes, n)
	w.more <- struct{}{}
	return nil
}

// await waits for so many notes, and gives what they are about.
func (w *told) await(t *testing.T, n int) (about []string) {
	t.Helper()
	for {
		w.Lock()
		about = nil
		for _, n := range w.notes {
			about = append(about, strings.TrimSpace(n.Type+" "+n.Data.Session+" "+n.Data.Prompt))
		}
		w.Unlock()
		if len(about) >= n {
			return about
		}
		must.Receive(t, w.more, "told %q, and nothing more; want %d", about, n)
	}
}

func watch(t *testing.T, cl *client.Client, name string, cfg notify.Config) (stop func()) {
	cfg.Log = slog.New(slog.DiscardHandler)
	return natstest.Run(t, func(ctx context.Context) error {
		if err := notify.Run(ctx, cl, name, cfg); ctx.Err() == nil {
			return err
		}
		return nil
	})
}

// TestGoesOn: a named watch begins with what waits, goes on where the last one of the name stopped, and tells of nothing that was answered,
// or that nobody can answer any more.
func TestGoesOn(t *testing.T) {
	cl := system(t)
	ask(t, cl, "s1", "waits", 0)
	ask(t, cl, "s1", "answered", 0)
	answer(t, cl, "s1", "answered")
	ask(t, cl, "s1", "late", time.Millisecond)
	ask(t, cl, "s2", "waits-too", time.Hour)

	first := newTold()
	stop := watch(t, cl, "phone", notify.Config{Tell: first.tell})
	if got, want := first.await(t, 2), []string{"prompt.asked s1 waits", "prompt.asked s2 waits-too"}; !slices.Equal(got, want) {
		t.Fatalf("told %q, want %q", got, want)
	}
	ask(t, cl, "s3", "third", 0)
	first.await(t, 3)
	stop()

	ask(t, cl, "s4", "meanwhile", 0)
	ask(t, cl, "s4", "answered-meanwhile", 0)
	answer(t, cl, "s4", "answered-meanwhile")
	second := newTold()
	watch(t, cl, "phone", notify.Config{Tell: second.tell, Failed: true})
	second.await(t, 1)
	ask(t, cl, "s5", "last", 0)
	got := second.await(t, 2)
	if slices.Contains(got, "prompt.asked s3 third") { // the stop may have come before the place was kept
		got = got[1:]
	}
	if want := []string{"prompt.asked s4 meanwhile", "prompt.asked s5 last"}; !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	first.Lock()
	defer first.Unlock()
	second.Lock()
	defer second.Unlock()
	ids := map[string]bool{}
	for _, n := range first.notes {
		ids[n.ID] = true
	}
	if len(ids) != 3 || second.notes[0].Data.Text != "may I? meanwhile" || second.notes[0].Data.Kind != "approval" {
		t.Errorf("ids %v; told %+v", ids, second.notes[0])
	}
}

// TestEnds: threads that end badly are told of where that is wanted, those that end well never.
func TestEnds(t *testing.T) {
	cl := system(t)
	w := newTold()
	watch(t, cl, "ends", notify.Config{Session: "bad", Failed: true, Tell: w.tell})
	for name, code := range map[string]int{"good": 0, "other": 1, "bad": 3} {
		must.Do(t, cl.Thread(thread(name)).Start(t.Context(), events.Start{Name: "flow"}))
		must.Do(t, cl.Thread(thread(name)).End(t.Context(), events.End{ReturnCode: code, Summary: "over"}))
	}
	ask(t, cl, "bad", "never", time.Millisecond)
	if got := w.await(t, 1); got[0] != "thread.failed bad" || string(w.notes[0].Data.ReturnCode) != "3" ||
		!strings.Contains(w.notes[0].Data.Text, "over") {
		t.Errorf("told %q: %+v", got, w.notes[0])
	}
}

// TestTargets tells addresses that hang, fail, redirect and refuse: each prompt arrives, signed, once or with one id, one at a time.
func TestTargets(t *testing.T) {
	cl := system(t)
	secret := must.Get(notify.Secret("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))))(t)
	var under, most, tries atomic.Int32
	var mu sync.Mutex
	ids := map[string][]string{} // by prompt
	taken := newTold()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		body, _ := io.ReadAll(r.Body)
		var n notify.Note
		if json.Unmarshal(body, &n) != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("told %q", body)
		}
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if got := r.Header.Get("webhook-signature"); got != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q", got)
		}
		mu.Lock()
		seen := append(ids[n.Data.Prompt], r.Header.Get("webhook-id"))
		ids[n.Data.Prompt] = seen
		mu.Unlock()
		tries.Add(1)
		switch {
		case len(seen) <= 3 && n.Data.Prompt == "refused": // as one that is being set up anew
			w.WriteHeader(http.StatusForbidden)
		case len(seen) == 1 && n.Data.Prompt == "busy":
			w.WriteHeader(http.StatusTooManyRequests)
		case len(seen) == 1 && n.Data.Prompt == "moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case len(seen) == 1 && n.Data.Prompt == "cut":
			panic(http.ErrAbortHandler)
		case len(seen) == 1 && n.Data.Prompt == "answered":
			answer(t, cl, "s", "answered")
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNoContent)
			must.Do(t, taken.tell(r.Context(), n, nil))
		}
	}))
	defer srv.Close()

	want := []string{"busy", "moved", "refused", "cut", "answered", "fine"}
	for _, id := range want {
		ask(t, cl, "s", id, 0)
	}
	watch(t, cl, "web", notify.Config{Tell: must.Get(notify.Webhook(srv.URL, secret, true))(t)})
	got := taken.await(t, 5)
	if want := []string{"prompt.asked s busy", "prompt.asked s moved", "prompt.asked s refused", "prompt.asked s cut",
		"prompt.asked s fine"}; !slices.Equal(got, want) {
		t.Errorf("taken %q, want %q", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	for prompt, n := range map[string]int{"busy": 2, "moved": 2, "refused": 4, "cut": 2, "answered": 1, "fine": 1} {
		if len(ids[prompt]) != n || len(slices.Compact(slices.Clone(ids[prompt]))) != 1 {
			t.Errorf("%s was told as %q, want %d times and one id", prompt, ids[prompt], n)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d were under way at a time", most.Load())
	}
}

// TestSomeThatAreNotTaken: notes that a target does not take let those behind them go first, each once, and are told again
// meanwhile.
func TestSomeThatAreNotTaken(t *testing.T) {
	cl := system(t)
	var stuck atomic.Bool
	var tries atomic.Int32 // of those that are stuck
	stuck.Store(true)
	w := newTold()
	tell := func(ctx context.Context, n notify.Note, body []byte) error {
		if strings.HasPrefix(n.Data.Prompt, "stuck") && stuck.Load() {
			tries.Add(1)
			return errors.New("no room")
		}
		return w.tell(ctx, n, body)
	}
	must.Do(t, cl.Thread(thread("over")).Start(t.Context(), events.Start{Name: "flow"}))
	for _, id := range []string{"first", "stuck", "stuck-too", "third", "fourth"} {
		ask(t, cl, "s", id, 0)
	}
	watch(t, cl, "phone", notify.Config{Tell: tell, Failed: true})
	w.await(t, 3)
	before := tries.Load()
	ask(t, cl, "s", "fifth", 0)
	w.await(t, 4)
	must.Same(t, tries.Load(), before, "%d tries of what is not taken until one is told that comes meanwhile, want the %d before it")
	must.Do(t, cl.Thread(thread("over")).End(t.Context(), events.End{ReturnCode: 1}))
	w.await(t, 5)
	stuck.Store(false)
	w.await(t, 7)
	ask(t, cl, "s", "last", 0)
	want := []string{"prompt.asked s first", "prompt.asked s third", "prompt.asked s fourth", "prompt.asked s fifth",
		"thread.failed over", "prompt.asked s stuck", "prompt.asked s stuck-too", "prompt.asked s last"}
	must.SameAll(t, w.await(t, 8), want, "told %q, want %q")
}

// TestPublicAddressesAlone: an address of this machine or network is told nothing unless that is allowed, whatever it is written as.
func TestPublicAddressesAlone(t *testing.T) {
	reached := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer srv.Close()
	port := srv.URL[strings.LastIndex(srv.URL, ":"):]
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254",
		"100.64.0.1", "[fe80::1]", "[fd00::1]", "[::]", "2130706433", "[64:ff9b::7f00:1]", "255.255.255.255", "224.0.0.1",
	} {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		tell, err := notify.Webhook("http://"+host+port, nil, false)
		if literal := host == "localhost" || strings.ContainsAny(host, ".:"); literal != (err != nil) {
			t.Errorf("the address %s: %v before anything is told, want it refused where it is plain: %v", host, err, literal)
		}
		if err == nil {
			err = tell(ctx, notify.Note{ID: "x"}, []byte("{}"))
		}
		if err == nil || reached {
			t.Errorf("%s was told", host)
		} else if !strings.Contains(err.Error(), "--private allows it") && !strings.Contains(err.Error(), "no such host") {
			t.Errorf("%s: %v", host, err)
		}
		stop()
	}
	for _, address := range []string{"", "example.com", "ftp://example.com", "http://", "http:///x"} {
		if _, err := notify.Webhook(address, nil, false); err == nil {
			t.Errorf("the address %q is taken", address)
		}
	}
	for _, secret := range []string{"", "whsec_", "whsec_!!", "whsec_c2hvcnQ="} {
		if _, err := notify.Secret(secret); err == nil {
			t.Errorf("the secret %q is taken", secret)
		}
	}
}

// TestCommand gives a command the note, and takes its exit code.
func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	n := notify.Note{Type: notify.Asked, Data: notify.Data{Session: "s", Thread: "main", Prompt: "p", Run: "r", State: "failed", Text: "a $(touch pwned)\x00 'b'"}}
	tell := notify.Command(`{ cat; printf '%s\n' "$SPOOL_TYPE" "$SPOOL_SESSION/$SPOOL_THREAD" "$SPOOL_PROMPT" "$SPOOL_RUN $SPOOL_STATE" "$SPOOL_TEXT"; } >`+out,
		io.Discard, io.Discard)
	must.Do(t, tell(t.Context(), n, []byte(`{"a":1}`)))
	if got, want := string(must.Get(os.ReadFile(out))(t)), "{\"a\":1}\nprompt.asked\ns/main\np\nr failed\na $(touch pwned) 'b'\n"; got != want {
		t.Errorf("the command had %q, want %q", got, want)
	}
	if err := notify.Command("exit 3", io.Discard, io.Discard)(t.Context(), n, nil); err == nil {
		t.Error("exit code 3 took the note")
	}
}
