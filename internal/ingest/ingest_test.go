package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/ingest"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// sink keeps what is published; fail, if not nil, decides about a batch.
type sink struct {
	batches [][]*events.Event
	fail    func() error
}

func (s *sink) PublishEvents(ctx context.Context, evs []*events.Event) error {
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return err
		}
	}
	s.batches = append(s.batches, evs)
	return ctx.Err()
}

func (s *sink) all() (evs []*events.Event) {
	for _, b := range s.batches {
		evs = append(evs, b...)
	}
	return evs
}

func config() ingest.Config {
	return ingest.Config{Thread: events.Thread{Session: "s", Name: "main"}, Dialect: "claude", Producer: "p"}
}

// lines runs Lines and gives each line's result as text.
func lines(t testing.TB, out ingest.Publisher, cfg ingest.Config, in string) ([]string, ingest.Summary, error) {
	t.Helper()
	var got []string
	cfg.Results = func(rs []ingest.Result, _ error) {
		for _, r := range rs {
			got = append(got, fmt.Sprintf("%d %v %d %s", r.Line, r.OK, r.Seq, r.Error))
		}
	}
	sum, err := ingest.Lines(t.Context(), strings.NewReader(in), out, cfg)
	return got, sum, err
}

func TestLinesAreEntriesAsTheyAre(t *testing.T) {
	var out sink
	cfg := config()
	cfg.Epoch, cfg.Start, cfg.User, cfg.Host, cfg.MaxBody = 3, 10, "u", "h", 40
	got, sum, err := lines(t, &out, cfg, "{\"a\":1}\r\n\n{bad\n"+strings.Repeat("x", 41)+"\n {\"b\": 2} ")
	if err != nil || sum != (ingest.Summary{Stored: 2, Refused: 2, Next: 15}) {
		t.Fatalf("Lines = %+v, %v, want 2 stored, 2 refused, next 15", sum, err)
	}
	if len(got) != 4 || got[0] != "1 true 10 " || got[3] != "5 true 14 " || !strings.HasPrefix(got[1], "3 false") ||
		!strings.Contains(got[2], "more than 40 bytes") {
		t.Errorf("results = %q", got)
	}
	for i, want := range []struct {
		seq  uint64
		body string
	}{{10, "{\"a\":1}\r"}, {14, ` {"b": 2} `}} {
		e := out.all()[i]
		if e.Seq != want.seq || string(e.Body) != want.body || e.Epoch != 3 || e.User != "u" || e.Host != "h" || e.Producer != "p" {
			t.Errorf("event %d = %+v, want seq %d and body %q", i, e, want.seq, want.body)
		}
	}
}

func TestEnvelopes(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"session":"s1","thread":"t","dialect":"claude","body":{"x": 1}}`, `s1/t claude 0 1 "" {"x": 1}`},
		{`{"session":"s1","dialect":"raw","body":"two\nlines"}`, `s1/main raw 0 1 "" two` + "\n" + `lines`},
		{`{"session":"s1","dialect":"codex","body":"{\"x\":1}","time":1767225600000,"user":"u","seq":7}`,
			`s1/main codex 1767225600000 7 "u" {"x":1}`},
		{`{"session":"s1","dialect":"omp","body":[1],"time":"2026-01-01T00:00:00Z","thread":null}`, `s1/main omp 1767225600000 1 "" [1]`},
		{`{"session":"s1","dialect":"omp","body":[1],"time":0}`, `s1/main omp 0 1 "" [1]`},
		{`{"session":"s1","dialect":"omp","body":[1],"time":null,"seq":null,"user":null}`, `s1/main omp 0 1 "" [1]`},
		{`{"session":"s1","dialect":"omp","body":[1],"time":-5}`, `s1/main omp -5 1 "" [1]`},
		{`{"session":"s 1","dialect":"omp","body":1}`, "byte 1"},
		{`{"session":"s","dialect":"cobol","body":1}`, "use one of claude"},
		{`{"session":"s","body":1}`, "no dialect"},
		{`{"session":"s","dialect":"omp"}`, "body is missing"},
		{`{"session":"s","dialect":"omp","body":"{"}`, "invalid JSON"},
		{`{"session":1,"dialect":"omp","body":1}`, "session: want a string"},
		{`{"session":"s","dialect":"omp","body":1,"time":"noon"}`, "or RFC 3339"},
		{`{"session":"s","dialect":"omp","body":1,"seq":0}`, "from 1"},
		{`{"session":"s","dialect":"item","body":{"content":1}}`, "entry"},
		{`{"session":"s","dialect":"omp","body":1,"producer":"x"}`, "producer: all lines of a stream have one"},
		{`{"session":"s","dialect":"omp","body":1,"epoch":1}`, "epoch: all lines"},
		{`{"session":"s","dialect":"omp","body":1,"kind":"control"}`, "kind: an envelope is an entry"},
		{`{"session":"s","dialect":"omp","body":1,"body_base64":"MQ=="}`, "body_base64: no member"},
		{`{"session":"s","dialect":"omp","body":1,"Thread":"t"}`, "Thread: no member of an envelope: it has session, thread"},
		{`[1]`, "want an object"},
		{`{"session":`, "invalid JSON"},
	} {
		var out sink
		got, _ := must.Two(lines(t, &out, ingest.Config{Envelopes: true, Producer: "p"}, c.in))(t)
		if len(out.batches) == 0 {
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("%s: results %q, want a refusal with %q", c.in, got, c.want)
			}
			continue
		}
		e := out.all()[0]
		must.Same(t, fmt.Sprintf("%s %s %d %d %q %s", e.Thread, e.Dialect, e.Time, e.Seq, e.User, e.Body), c.want, "%s = %s, want %s", c.in)
	}
}

func TestSequencesGrow(t *testing.T) {
	const in = `{"session":"s","dialect":"raw","body":1,"seq":5}` + "\n" + `{"session":"s","dialect":"raw","body":2}` + "\n" +
		`{"session":"s","dialect":"raw","body":3,"seq":6}` + "\n" + `{"session":"s","dialect":"raw","body":4,"seq":9}` + "\n"
	var out sink
	got, sum, err := lines(t, &out, ingest.Config{Envelopes: true, Producer: "p"}, in)
	if err != nil || len(out.all()) != 3 || !strings.Contains(got[2], "seq 6 after 6") || sum.Next != 10 {
		t.Errorf("results %q, next %d, %v, want the third refused and next 10", got, sum.Next, err)
	}
	got, _, _ = lines(t, &out, ingest.Config{Envelopes: true, Producer: "~p"}, in)
	if !strings.Contains(got[0], "producer of your own") {
		t.Errorf("results %q, want a seq refused without a producer", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := ingest.Lines(t.Context(), strings.NewReader(""), &sink{}, ingest.Config{Thread: events.Thread{Session: "a b"}})
	if !errors.Is(err, ingest.ErrEntry) || !errors.Is(err, events.ErrToken) {
		t.Errorf("Lines = %v, want ErrEntry and ErrToken", err)
	}
	for _, part := range []string{"producer", "session", "thread", "dialect"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("Lines = %v, want it to name %s", err, part)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	var out sink
	big := `"` + strings.Repeat("x", 3<<20) + `"` + "\n"
	must.Two(lines(t, &out, config(), strings.Repeat("1\n", 2500)+big+big+big))(t)
	for _, b := range out.batches {
		size := 0
		for _, e := range b {
			size += len(e.Body)
		}
		if len(b) > 1000 || size > 4<<20 && len(b) > 1 {
			t.Errorf("a batch of %d events and %d bytes", len(b), size)
		}
	}
	must.Same(t, len(out.all()), 2503, "%d events, want %d")
}

func TestALivePipeIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var out sink
		done := make(chan error)
		go func() {
			_, err := ingest.Lines(t.Context(), r, &out, config())
			done <- err
		}()
		start := time.Now()
		for i := range 3 {
			_, _ = io.WriteString(w, "1\n2\n")
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			must.Same(t, len(out.batches), i+1, "after %v %d batches, want %d", time.Since(start))
		}
		_, _ = io.WriteString(w, `{"cut off`)
		_ = w.CloseWithError(errors.New("gone"))
		if err := <-done; err == nil || !strings.Contains(err.Error(), "read line 7: gone") || len(out.all()) != 6 {
			t.Errorf("Lines = %v with %d events, want line 7 named and 6", err, len(out.all()))
		}
	})
}

func TestTheEndOfTheContextDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var out sink
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := ingest.Lines(ctx, r, &out, config())
			done <- err
		}()
		_, _ = io.WriteString(w, "1\n2\n")
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || len(out.all()) != 2 {
			t.Errorf("Lines = %v with %d events, want Canceled and 2", err, len(out.all()))
		}
		_ = w.Close()
	})
}

func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		out := sink{fail: func() error { tries++; return record.ErrFull }}
		cfg := config()
		cfg.Patience = 3 * time.Second
		start := time.Now()
		got, sum, err := lines(t, &out, cfg, "1\n2\n")
		if !errors.Is(err, record.ErrFull) || sum.Refused != 2 || len(got) != 2 || !strings.Contains(got[0], "false") {
			t.Errorf("Lines = %q, %+v, %v, want ErrFull for both lines", got, sum, err)
		}
		if took := time.Since(start); took > 3*time.Second || tries < 3 {
			t.Errorf("%d tries in %v, want several within 3 s", tries, took)
		}
		out.fail = func() error {
			if tries++; tries < 20 {
				return record.ErrUnknown
			}
			return nil
		}
		tries = 0
		cfg.Patience = 0
		if _, sum, err = lines(t, &out, cfg, "1\n2\n"); err != nil || sum.Stored != 2 {
			t.Errorf("Lines = %+v, %v, want 2 stored", sum, err)
		}
	})
}

func TestOne(t *testing.T) {
	var out sink
	cfg := config()
	cfg.Start, cfg.MaxBody = 7, 10
	if seq, err := ingest.One(t.Context(), strings.NewReader("{\n}\n"), &out, cfg); seq != 7 || err != nil ||
		string(out.all()[0].Body) != "{\n}" {
		t.Errorf("One = %d, %v, want 7", seq, err)
	}
	must.Is(t, must.Err(ingest.One(t.Context(), strings.NewReader("{"), &out, cfg)), ingest.ErrEntry, "One of no JSON")
	must.Is(t, must.Err(ingest.One(t.Context(), strings.NewReader(`"0123456789"`), &out, cfg)), ingest.ErrTooLarge, "One of 12 bytes")
}

func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"session":"s","thread":"t","dialect":"claude","body":{"x":[1]},"time":"2026-01-01T00:00:00Z","user":"u","seq":1}`))
	f.Add([]byte(`{"session":"s","dialect":"step","body":"{\"role\":\"a\"}"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out sink
		sum, err := ingest.Lines(t.Context(), strings.NewReader(string(in)), &out, ingest.Config{Envelopes: true, Producer: "p"})
		if err != nil || int64(len(out.all())) != sum.Stored {
			t.Fatalf("Lines = %+v, %v with %d events", sum, err, len(out.all()))
		}
		for _, e := range out.all() {
			must.Do(t, e.Validate())
		}
	})
}

// A person reads a reason once, however many lines have it.
func TestPipeTellsAReasonOnce(t *testing.T) {
	var out sink
	var told strings.Builder
	in := "{\n{\n" + `{"session":"s","dialect":"raw","body":1}` + "\n[]\n"
	err := ingest.Pipe(t.Context(), strings.NewReader(in), &out, ingest.Config{Envelopes: true, Producer: "p"}, &told)
	lines := strings.Split(told.String(), "\n")
	if err == nil || len(lines) != 4 || !strings.HasPrefix(lines[0], "lines 1 to 2, 2 of them: refused: ") ||
		!strings.HasPrefix(lines[1], "line 4: refused: ") || lines[2] != "1 stored, 3 refused" {
		t.Errorf("Pipe = %v, told %q", err, told.String())
	}
}
