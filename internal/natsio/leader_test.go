package natsio_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/gc/gcnats"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// Single messages are read from the stream's leader, although the streams allow direct reads, which any copy answers: one that is
// behind would say that there is no such message.
func TestMessagesComeFromTheLeader(t *testing.T) {
	c := natstest.Conn(t)
	ctx, th := t.Context(), events.Thread{Session: "s", Name: events.MainThread}
	direct := must.Get(c.JetStream().Conn().SubscribeSync("$JS.API.DIRECT.GET.>"))(t)
	item := events.Posted{Subject: "spool.v1.item.s.main.message", N: 1, Data: []byte(`{"n":1}`)}
	must.Do(t, c.Items().PublishItems(ctx, []events.Posted{item}))
	o := must.Get(c.Objects().Upload(ctx, events.InboxBucket, "body", [][]byte{[]byte("abc")}))(t)
	for what, read := range map[string]func() error{
		"Stat":      func() error { _, err := c.Objects().Stat(ctx, events.InboxBucket, "body"); return err },
		"LastItem":  func() error { _, _, err := c.Items().LastItem(ctx, th); return err },
		"Extent":    func() error { _, err := c.Items().Extent(ctx, []string{events.ItemSubjects}); return err },
		"FirstItem": func() error { _, err := c.Items().First(ctx, th, 0, 1); return err },
		"LastBefore": func() error {
			_, err := c.Items().LastBefore(ctx, events.ItemFilter("", "", ""), 9, natsio.Position{})
			return err
		},
		"LastReport":  func() error { _, _, err := natsadmin.New(c).LastReport(ctx); return err },
		"Recall":      func() error { return gcnats.Of(c).Recall(ctx, new(struct{})) },
		"Claims":      func() error { _, err := gcnats.Of(c).Claims(ctx); return err },
		"NewestEvent": func() error { _, err := c.Events().NewestEvent(ctx, th); return err },
		"Records":     func() error { _, err := c.Records().Records(ctx, events.HeadKey(th)); return err },
	} {
		must.Is(t, read(), nil, "%s", what)
		if n, _, _ := direct.Pending(); n != 0 {
			m, err := direct.NextMsgWithContext(ctx)
			t.Fatalf("%s asked any copy: %v, %v", what, m, err)
		}
	}
	if _, err := c.Objects().Read(ctx, o); err != nil { // bytes that never change
		t.Error(err)
	}
	if n, _, _ := direct.Pending(); n == 0 {
		t.Error("no direct read was seen at all: the test sees nothing")
	}
}

// A copy that is behind has not got the chunks of an object: the leader is asked then, and what it has not got is not there.
func TestCopyThatIsBehind(t *testing.T) {
	c := natstest.Conn(t)
	ctx, stream := t.Context(), events.ObjectStream(events.NodesBucket)
	chunks := [][]byte{[]byte("one "), []byte("two "), []byte("three")}
	o := must.Get(c.Objects().Upload(ctx, events.NodesBucket, "pack", chunks))(t)
	s := must.Get(c.JetStream().Stream(ctx, stream))(t)
	cfg := s.CachedInfo().Config
	cfg.AllowDirect = false // the server does not answer direct reads any more: the test does
	must.Get(c.JetStream().UpdateStream(ctx, cfg))(t)
	behind := must.Get(c.JetStream().Conn().Subscribe("$JS.API.DIRECT.GET."+stream, func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"No Results"}}})
	}))(t)
	defer func() { _ = behind.Unsubscribe() }()
	want := bytes.Join(chunks, nil)
	if got, err := c.Objects().Read(ctx, o); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Read = %q, %v, want %q", got, err, want)
	}
	o.NUID = "nothing"
	must.Is(t, must.Err(c.Objects().Read(ctx, o)), record.ErrNotFound, "Read of what is not there")
}

// A connection asks the server about a stream once before it reads single messages of it, and learns from the next read
// that the stream is gone.
func TestStreamsAreAskedForOnce(t *testing.T) {
	c := natstest.Conn(t)
	ctx, th := t.Context(), events.Thread{Session: "s", Name: events.MainThread}
	asked := must.Get(c.JetStream().Conn().SubscribeSync("$JS.API.STREAM.INFO.>"))(t)
	questions := func() int {
		must.Do(t, c.JetStream().Conn().Flush())
		n := 0
		for ; ; n++ {
			if left, _, _ := asked.Pending(); left == 0 {
				return n
			}
			must.Get(asked.NextMsgWithContext(ctx))(t)
		}
	}
	read := func() error {
		_, err := c.Records().Keys(ctx, ">")
		_, _, noItem := c.Items().LastItem(ctx, th)
		_, _, noReport := natsadmin.New(c).LastReport(ctx)
		return errors.Join(err, noItem, noReport)
	}
	for i, want := range []int{4, 1} { // the keys of records are an answer to such a question, and the first time how many there are
		must.Do(t, read())
		must.Same(t, questions(), want, "reading for the %d. time asks %d times about streams, want %d", i+1)
	}
	must.Do(t, c.JetStream().DeleteStream(ctx, events.GCStream))
	must.Is(t, read(), record.ErrNoStream, "a stream that was deleted")
}
