package ingest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"spool/internal/ingest"
	"spool/internal/must"
	"spool/internal/record"
	"spool/pkg/events"
)

// box is an inbox that keeps what is checked in, by its name.
type box struct {
	bodies map[string]string
	err    error
}

func (b *box) CheckIn(_ context.Context, body io.Reader) (events.BodyRef, error) {
	if b.err != nil {
		return events.BodyRef{}, b.err
	}
	got, err := io.ReadAll(body)
	if err != nil {
		return events.BodyRef{}, fmt.Errorf("check in: %w", err)
	}
	if b.bodies == nil {
		b.bodies = map[string]string{}
	}
	ref := events.BodyRef{Object: fmt.Sprint("body", len(b.bodies)), Size: int64(len(got)), Sum: sha256.Sum256(got)}
	b.bodies[ref.Object] = string(got)
	return ref, nil
}

// texts are the bodies of what was published, wherever they are.
func (b *box) texts(evs []*events.Event) (out []string) {
	for _, e := range evs {
		if e.Ref != nil {
			out = append(out, "inbox:"+b.bodies[e.Ref.Object])
		} else {
			out = append(out, string(e.Body))
		}
	}
	return out
}

const room = 4 << 20

func TestGiantLinesGoToTheInbox(t *testing.T) {
	giant := func(n int) string { return `"` + strings.Repeat("x", room+n) + `"` }
	longest := giant(3 << 20)
	for name, end := range map[string]string{"newline at the end": "\n", "none": ""} {
		for name2, wrap := range map[string]func(io.Reader) io.Reader{"at once": func(r io.Reader) io.Reader { return r },
			"in halves": iotest.HalfReader} {
			t.Run(name+", "+name2, func(t *testing.T) {
				in := []string{`{"a":1}`, giant(200_000), `{"b":2}`, giant(200_001) + "\r", "", longest, giant(3<<20 + 1), `{"c":3}`, giant(131_072)}
				var out sink
				var inbox box
				cfg := config()
				cfg.Inbox, cfg.MaxBody = &inbox, int64(len(longest))
				var got []string
				cfg.Results = func(rs []ingest.Result, _ error) {
					for _, r := range rs {
						got = append(got, fmt.Sprint(r.Line, r.OK, r.Error))
					}
				}
				sum, err := ingest.Lines(t.Context(), wrap(strings.NewReader(strings.Join(in, "\n")+end)), &out, cfg)
				if err != nil || sum.Stored != 7 || sum.Refused != 1 {
					t.Errorf("Lines = %+v, %v, want 7 stored, 1 refused", sum, err)
				}
				texts := inbox.texts(out.all())
				for i, want := range []string{in[0], "inbox:" + in[1], in[2], "inbox:" + in[3], "inbox:" + in[5], in[7], "inbox:" + in[8]} {
					if texts[i] != want {
						t.Errorf("entry %d = %.20s… of %d bytes, want %.20s… of %d", i, texts[i], len(texts[i]), want, len(want))
					}
				}
				if len(got) != 8 || !strings.HasPrefix(got[5], "7 false") || !strings.Contains(got[5], "too large") {
					t.Errorf("results = %.300q", got)
				}
			})
		}
	}
}

// TestGiantLineThatCannotBeStored ends the stream: its beginning is gone. What came before it is stored.
// weighing is an inbox that weighs what is still in memory of a body whose beginning it has read.
type weighing struct {
	t     *testing.T
	began uint64
}

func (w *weighing) CheckIn(_ context.Context, body io.Reader) (events.BodyRef, error) {
	must.Get(io.CopyN(io.Discard, body, room))(w.t)
	if now := live(); now > w.began+room/4 {
		w.t.Errorf("%d bytes are held of a body of which %d were read", now-w.began, room)
	}
	must.Get(io.Copy(io.Discard, body))(w.t)
	return events.BodyRef{Object: "body"}, nil
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What the inbox has read of a giant line or entry is not kept beside what it holds itself: its room is counted once.
func TestGiantIsHeldOnce(t *testing.T) {
	giant := func() io.Reader {
		return io.MultiReader(strings.NewReader(`"`), io.LimitReader(zeros{}, room+200_000), strings.NewReader("\"\n"))
	}
	cfg, inbox := config(), &weighing{t: t}
	cfg.Inbox = inbox
	inbox.began = live()
	if sum, err := ingest.Lines(t.Context(), giant(), &sink{}, cfg); err != nil || sum.Stored != 1 {
		t.Errorf("Lines = %+v, %v, want one stored", sum, err)
	}
	inbox.began = live()
	must.Is(t, must.Err(ingest.One(t.Context(), giant(), &sink{}, cfg)), nil, "One")
}

// zeros reads the digit.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestGiantLineThatCannotBeStored(t *testing.T) {
	var out sink
	cfg := config()
	cfg.Inbox = &box{err: fmt.Errorf("%w: no room", record.ErrFull)}
	got, sum, err := lines(t, &out, cfg, "{}\n"+strings.Repeat("x", room+100_000)+"\n{}\n")
	if !errors.Is(err, record.ErrFull) || sum.Stored != 1 || len(got) != 1 {
		t.Errorf("Lines = %+v, %v, results %q, want ErrFull after one line", sum, err, got)
	}
}

func TestEnvelopesStayInMemory(t *testing.T) {
	var out sink
	cfg := config()
	cfg.Inbox, cfg.Envelopes = &box{}, true
	body := strings.Repeat("x", room+100_000)
	if _, sum, err := lines(t, &out, cfg, `{"session":"s","dialect":"raw","body":"`+body+`"}`); err != nil || sum.Stored != 1 {
		t.Fatalf("Lines = %+v, %v", sum, err)
	}
	if e := out.all()[0]; string(e.Body) != body {
		t.Errorf("body = %d bytes, want %d", len(e.Body), len(body))
	}
}

func TestOneOfAnySize(t *testing.T) {
	for _, size := range []int{room - 2, room - 1, room, 3 * room} {
		for _, end := range []string{"", "\n", "\n\n"} {
			body := `"` + strings.Repeat("x", size-1) + `"`
			var out sink
			var inbox box
			cfg := config()
			cfg.Inbox = &inbox
			must.Get(ingest.One(t.Context(), strings.NewReader(body+end), &out, cfg))(t)
			want := body + strings.TrimPrefix(end, "\n")
			if len(want) > room {
				want = "inbox:" + want
			}
			if got := inbox.texts(out.all())[0]; got != want {
				t.Errorf("%d bytes and %q: %d bytes, want %d", size, end, len(got), len(want))
			}
			cfg.MaxBody = int64(len(body) - 1)
			if _, err := ingest.One(t.Context(), strings.NewReader(body+end), &out, cfg); !errors.Is(err, ingest.ErrTooLarge) {
				t.Errorf("%d bytes of %d allowed: %v, want ErrTooLarge", len(body), cfg.MaxBody, err)
			}
		}
	}
}
