package natsio_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/memjs"
	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/pkg/events"
)

// Who reads for minutes, and has said so, waits for a server that pauses, says that it waits, and misses nothing. Others are told that it
// does not answer.
func TestLongReadersWaitForAServerThatPauses(t *testing.T) {
	const records, early, pause = 120, 12, 2 * time.Minute
	value := bytes.Repeat([]byte("x"), 300_000) // so that not all of them are on their way at once
	key := func(i int) string { return fmt.Sprintf("label.%04d", i) }
	each := func(met func()) func(jetstream.Msg, *jetstream.MsgMetadata) error {
		return func(jetstream.Msg, *jetstream.MsgMetadata) error { met(); return nil }
	}
	readers := map[string]func(ctx context.Context, c *natsio.Conn, met func()) error{
		"a stream": func(ctx context.Context, c *natsio.Conn, met func()) error {
			return c.Streams().Each(ctx, events.RecordsStream, jetstream.OrderedConsumerConfig{
				FilterSubjects: []string{events.RecordSubject("label.>")}}, each(met))
		},
		"a stream up to its newest": func(ctx context.Context, c *natsio.Conn, met func()) error {
			s, err := c.Streams().LeaderStream(ctx, events.RecordsStream)
			if err != nil {
				return err
			}
			return c.Streams().EachUntilNewest(ctx, s, 1, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
				if strings.HasPrefix(natsio.RecordKey(m.Subject()), "label.") {
					met()
				}
				return nil
			})
		},
		"records": func(ctx context.Context, c *natsio.Conn, met func()) error {
			_, err := c.Records().Scan(ctx, 1, func(r record.Stamped) error {
				if strings.HasPrefix(r.Key, "label.") {
					met()
				}
				return nil
			})
			return err
		},
		"records one by one": func(ctx context.Context, c *natsio.Conn, met func()) error {
			for i := range records {
				if _, err := c.Records().Records(ctx, key(i)); err != nil {
					return err
				}
				met()
			}
			return nil
		},
		"messages one by one": func(ctx context.Context, c *natsio.Conn, met func()) error {
			s, err := natsio.MessagesOf(ctx, c.Streams(), events.RecordsStream)
			for i := 0; i < records && err == nil; i++ {
				_, err = s.GetLastMsgForSubject(ctx, events.RecordSubject(key(i)))
				met()
			}
			return err
		},
	}
	readers["a list of records"] = func(ctx context.Context, c *natsio.Conn, met func()) error {
		for range early {
			met()
		}
		rs, err := c.Records().List(ctx, "label.>")
		for range len(rs) - early {
			met()
		}
		return err
	}
	readers["an object"] = func(ctx context.Context, c *natsio.Conn, met func()) error {
		o, err := c.Objects().Stat(ctx, events.NodesBucket, "o")
		if err != nil {
			return err
		}
		return c.Objects().ReadChunks(ctx, o, 0, func([]byte) error { met(); return nil })
	}
	for name, read := range readers {
		for how, stop := range map[string]func(*memjs.Server) (goOn func()){
			"is silent": func(s *memjs.Server) func() { s.Freeze("reader"); return func() { s.Thaw("reader") } },
			"is away":   func(s *memjs.Server) func() { s.SetDown(true); return func() { s.SetDown(false) } },
		} {
			for _, patient := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, how, patient), func(t *testing.T) {
					memjs.Bubble(t, func(t *testing.T) {
						s := memjs.New(memjs.Config{})
						defer s.Close()
						cfg := natsio.Config{InProcess: s}
						writer := must.Get(natsio.Dial(t.Context(), cfg))(t)
						must.Do(t, writer.Ensure(t.Context(), natsio.Limits{}))
						for i := range records {
							must.Get(writer.Records().Write(t.Context(), record.Put{Key: key(i), Value: value, Expect: record.Any}))(t)
						}
						must.Get(writer.Objects().Upload(t.Context(), events.NodesBucket, "o", slices.Repeat([][]byte{value}, records)))(t)
						writer.Close()
						var said natstest.Log
						cfg = natsio.Config{InProcess: s.Process("reader"), Logger: slog.New(slog.NewTextHandler(&said, nil))}
						ctx := t.Context()
						if patient {
							ctx = natsio.Patient(ctx)
						}
						c := must.Get(natsio.Dial(t.Context(), cfg))(t)
						defer c.Close()
						must.Get(c.Records().Records(t.Context(), key(0)))(t) // a server that never answered is no server that pauses
						n := 0
						err := read(ctx, c, func() {
							if n++; n == early {
								time.AfterFunc(pause, stop(s))
							}
						})
						if !patient {
							if !record.Temporary(natsio.WrapErr(err)) {
								t.Errorf("read %d of %d: %v, want that the server does not answer", n, records, err)
							}
							return
						}
						if err != nil || n != records {
							t.Errorf("read %d of %d: %v", n, records, err)
						}
						if !strings.Contains(said.String(), "waiting for an answer") {
							t.Errorf("it waited and said %q", &said)
						}
					})
				})
			}
		}
	}
}
