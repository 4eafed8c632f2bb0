package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"spool/e2e/internal/proc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/pkg/events"
)

// stops is the header that stops a replicated stream (docs/security.md, "Not defended").
const stops = "Nats-Expected-Last-Msg-Id"

// acked is how many events are stored before the stream stops, half of them without one of the servers.
const acked = 6

// raftGroup is what a server calls the group of a stream's copies.
func (n *node) raftGroup(ctx context.Context, stream string) (group string, last uint64, err error) {
	var jsz struct {
		Accounts []struct {
			Streams []struct {
				Name  string `json:"name"`
				Group string `json:"stream_raft_group"`
				State struct {
					Last uint64 `json:"last_seq"`
				} `json:"state"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := n.get(ctx, "/jsz?accounts=true&streams=true&raft=true", &jsz); err != nil {
		return "", 0, err
	}
	for _, a := range jsz.Accounts {
		for _, s := range a.Streams {
			if s.Name == stream && s.Group != "" {
				return s.Group, s.State.Last, nil
			}
		}
	}
	return "", 0, fmt.Errorf("%s has no group of %s", n.name(), stream)
}

// TestStoppedStream: a message that stops SPOOL_EVENTS in a cluster is told, and what docs/operations.md says ends it:
// everything that was acked is there, on every server, also on one that was away, and what is published goes on behind
// it. If this server does not stop any more, the documents have to say so.
func TestStoppedStream(t *testing.T) {
	if os.Getenv("SPOOL_CLUSTER") == "" {
		t.Skip("three servers: set SPOOL_CLUSTER=ci or full")
	}
	dir := t.TempDir()
	must.Do(t, proc.Build(dir, "github.com/nats-io/nats-server/v2"))
	c := newCluster(t, &network{}, dir, dir)
	publish := func(ctx context.Context, seq uint64) error {
		return c.conn.Events().PublishEvents(ctx, []*events.Event{{
			Producer: "p", Seq: seq, Kind: events.KindEntry, Dialect: "step", Body: []byte(`{"role":"user","content":"x"}`),
			Thread: events.Thread{Session: "s", Name: events.MainThread},
		}})
	}
	away := c.nodes[servers-1]
	for seq := range uint64(acked) {
		if seq == acked/2 {
			away.Stop()
		}
		c.await("an event", func(ctx context.Context) error { return publish(ctx, seq+1) })
	}
	evil := nats.NewMsg(events.EventSubject(events.Thread{Session: "s", Name: events.MainThread}, events.KindEntry))
	evil.Header.Set(stops, "x")
	must.Do(t, c.conn.JetStream().Conn().PublishMsg(evil))
	var group string
	c.await("every server stops", func(ctx context.Context) error {
		for _, n := range c.nodes[:servers-1] {
			if err := n.get(ctx, "/healthz", nil); err == nil {
				return fmt.Errorf("%s is healthy", n.name())
			}
			var last uint64
			var err error
			if group, last, err = n.raftGroup(ctx, events.EventsStream); err != nil || last != acked {
				return fmt.Errorf("%s is at %d, %v", n.name(), last, err)
			}
		}
		return nil
	})
	c.await("doctor tells it", func(ctx context.Context) error {
		places, err := natsadmin.New(c.conn).Placements(ctx)
		if err == nil && places[0].Leader != "" && len(places[0].Lost) < servers-1 { // one of them is away
			err = fmt.Errorf("%+v is said to be well", places[0])
		}
		return err
	})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := publish(short, acked+1); err == nil {
		t.Error("an event is stored: the stream has not stopped")
	}
	for _, n := range c.nodes {
		if n != away {
			n.Stop()
		}
		must.Do(t, os.RemoveAll(filepath.Join(n.data(), "jetstream", "OPS", "_js_", group)))
	}
	held := func(n *node) string {
		return filepath.Join(n.data(), "jetstream", "SPOOL", "streams", events.EventsStream, "msgs")
	}
	must.Do(t, errors.Join(os.RemoveAll(held(away)), os.CopyFS(held(away), os.DirFS(held(c.nodes[0])))))
	for _, n := range c.nodes {
		n.start()
	}
	c.await("an event goes on", func(ctx context.Context) error { return publish(ctx, acked+1) })
	c.await("all copies are current", func(ctx context.Context) error {
		if err := c.current(ctx); err != nil {
			return err
		}
		if differ := c.copies(ctx); differ != nil {
			return fmt.Errorf("copies differ: %v", differ)
		}
		return nil
	})
	s, err := c.conn.JetStream().Stream(t.Context(), events.EventsStream)
	if err != nil || s.CachedInfo().State.Msgs < acked+1 {
		t.Errorf("%s has %+v, %v, want what was acked and the one behind it", events.EventsStream, s, err)
	}
}
