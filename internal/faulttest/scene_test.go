package faulttest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/faulttest"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/persist"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// scene is a bit of everything that a persister does, published and not applied yet: a ledger; large entries, images, a streamed
// output, a poison, a thread that ends, a prompt and a session that is deleted.
type scene struct {
	t    *testing.T
	name string
	conn *natsio.Conn
	*client.Client
	ledger *faulttest.Ledger
	images [][]byte
	output []byte
	poison []byte
}

func newScene(t *testing.T, conn *natsio.Conn, name string) *scene {
	s := &scene{t: t, name: name, conn: conn, Client: client.New(conn)}
	s.ledger = faulttest.NewLedger(faulttest.Workload{
		Name: name, ThreadsEach: 2, ProducersEach: 2,
		Entry: func(r *rand.Rand) int {
			if r.IntN(50) == 0 {
				return 1100 << 10 // by the inbox, streamed, and cut
			}
			return 60 + r.IntN(400)
		},
		Dead: func(d faulttest.DeadLetter) bool { return bytes.Equal(d.Data, s.poison) },
	})
	return s
}

// small has a persister take many steps for a scene.
func small(_ *persist.Deps, c *persist.Config) { c.BatchEvents, c.StreamBytes = 20, 256<<10 }

func (s *scene) in(kind string) events.Thread {
	return events.Thread{Session: s.name + "-" + kind, Name: events.MainThread}
}

// publish stores all of it in SPOOL_EVENTS.
func (s *scene) publish() {
	s.t.Helper()
	ctx := within(s.t)
	must.Do(s.t, s.ledger.Publish(ctx, s.Client, 25))

	pub := s.Publisher(client.PublisherConfig{Producer: "scene"})
	seq := uint64(0)
	say := func(t events.Thread, dialect string, body []byte) {
		s.t.Helper()
		seq++
		must.Get(pub.Publish(ctx, client.Entry{Thread: t, Dialect: dialect, Body: body, Seq: seq}))(s.t)
	}
	plain := func(text string) []byte { return fmt.Appendf(nil, `{"content":[{"type":"text","text":%q}]}`, text) }
	for i := range 2 {
		data := base64.StdEncoding.EncodeToString(bytes.Repeat(fmt.Appendf(nil, "%s %d ", s.name, i), 300))
		s.images = append(s.images, fmt.Appendf(nil, `{"type":"message","id":"i%d","timestamp":"2026-11-20T10:00:00.000Z","message":{"role":"user","content":[{"type":"image","mimeType":"image/png","data":%q}]}}`, i, data))
		say(s.in("image"), "omp", s.images[i])
	}
	say(s.in("end"), "item", plain("to the history"))
	seq++
	must.Do(s.t, pub.Control(ctx, s.in("end"), seq, events.Control{Op: events.OpEnd, End: &events.End{}}))
	say(s.in("ask"), "item", []byte(`{"content":[{"type":"text","text":"ok?"}],"metadata":{"type":"pending_prompt","prompt":{"id":"q1","kind":"text"}}}`))

	out, err := s.Thread(s.in("output")).Output(ctx, client.OutputConfig{Tool: "bash", ID: "out-" + s.name})
	must.Do(s.t, err)
	for i := range 40 { // more pieces than a batch of small takes: a commit leaves the output open
		w := []io.Writer{out, out.Stderr()}[i%2]
		for n := range 100 {
			line := fmt.Sprintf("line %06d of the output of a tool that says the same again and again\n", 100*i+n)
			s.output = append(s.output, line...)
			must.Get(io.WriteString(w, line))(s.t)
		}
	}
	must.Do(s.t, out.Close(client.OutputEnd{}))

	s.poison = []byte("poison for " + s.name)
	_, err = s.conn.JetStream().PublishMsg(ctx, &nats.Msg{Subject: events.EventSubject(s.in("ledger-0"), events.KindEntry), Data: s.poison})
	must.Do(s.t, err)

	gone := s.in("gone")
	say(gone, "item", plain("to be deleted"))
	_, err = s.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: gone.Session}}, strings.NewReader("bytes of "+s.name))
	must.Do(s.t, err)
	seq++
	must.Do(s.t, pub.Control(ctx, gone, seq, events.Control{Op: events.OpDelete, Delete: &events.Delete{Force: true}}))
}

// check holds all of it against what is stored, when a persister runs that meets no faults.
func (s *scene) check() {
	s.t.Helper()
	ctx := within(s.t)
	must.Do(s.t, s.ledger.Publish(ctx, s.Client, 5))
	if err := s.ledger.Check(ctx, s.conn); err != nil {
		s.t.Error(err)
	}
	s.checkImages(ctx)
	s.checkOutput(ctx)
	s.await("a thread in the history", func() error {
		head, err := s.Thread(s.in("end")).Head(ctx)
		if err == nil && head.Status != threads.StatusCompleted {
			err = fmt.Errorf("status %v, want completed", head.Status)
		}
		return err
	})
	s.await("a prompt that waits", func() error {
		prompts, err := s.Session(s.in("ask").Session).Prompts(ctx)
		if err == nil && len(prompts) != 1 {
			err = fmt.Errorf("%d prompts, want 1", len(prompts))
		}
		return err
	})
	s.await("a dead letter", func() error {
		letters, err := s.Session(s.in("ledger-0").Session).DeadLetters(ctx)
		if err == nil && len(letters) == 0 {
			err = errors.New("there is none")
		}
		for _, d := range letters {
			if !bytes.Equal(d.Data, s.poison) {
				s.t.Errorf("dead letter %q, want %q", d.Data, s.poison)
			}
		}
		return err
	})
	gone := s.in("gone").Session
	s.await("a session that is deleted", func() error {
		list, err := s.Sessions(ctx, gone)
		if err != nil {
			return err
		}
		rows, err := s.Session(gone).Artifacts(ctx)
		if err == nil && len(list)+len(rows) != 0 {
			err = fmt.Errorf("sessions %v, artifacts %v are left", list, rows)
		}
		if rs, e := s.conn.Records().Records(ctx, events.DeletingKey(gone)); err == nil && (e != nil || rs[0].Exists()) {
			err = fmt.Errorf("it is still being deleted: %v", e)
		}
		return err
	})
}

func (s *scene) checkImages(ctx context.Context) {
	s.t.Helper()
	must.Do(s.t, s.Thread(s.in("image")).Await(ctx, "scene", 0, 2))
	var got bytes.Buffer
	must.Get(s.Thread(s.in("image")).Export(ctx, &got))(s.t)
	if want := append(bytes.Join(s.images, []byte("\n")), '\n'); !bytes.Equal(got.Bytes(), want) {
		s.t.Errorf("images come back as %.200q, want %.200q", got.Bytes(), want)
	}
}

func (s *scene) checkOutput(ctx context.Context) {
	s.t.Helper()
	var rows []artifacts.Record
	s.await("the artifact of an output", func() (err error) {
		rows, err = s.Session(s.in("output").Session).Artifacts(ctx)
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%d artifacts, want 1", len(rows))
		}
		return err
	})
	if len(rows) != 1 {
		return
	}
	r, _, err := s.Artifacts().Open(ctx, rows[0])
	if err != nil {
		s.t.Error(err)
		return
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, s.output) {
		s.t.Errorf("output of %d bytes, %v, want the %d that were written", len(got), err, len(s.output))
	}
}

// await asks again and again until there is no error any more.
func (s *scene) await(what string, f func() error) {
	s.t.Helper()
	ctx := within(s.t)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Errorf("%s: %v", what, err)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
