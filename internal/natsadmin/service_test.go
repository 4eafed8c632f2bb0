package natsadmin_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// A daemon is found, described and asked by what any client of NATS micro services sends.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	conn := natstest.Dial(t, s)
	type stats struct {
		Entries int `json:"entries"`
	}
	stop := must.Get(natsadmin.New(conn).Announce(natsadmin.Service{
		Role: "persister", Description: "applies events to threads", Version: "0.0.0-devel",
		Metadata: map[string]string{"lane": "7"}, Stats: func() any { return stats{42} },
	}))(t)
	must.Do(t, conn.JetStream().Conn().Flush()) // the server knows what it listens on
	nc := natstest.Dial(t, s).JetStream().Conn()
	ask := func(subject string, into any) {
		t.Helper()
		m, err := nc.Request(subject, nil, 5*time.Second)
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		if err := json.Unmarshal(m.Data, into); err != nil {
			t.Fatalf("%s: %v: %s", subject, err, m.Data)
		}
	}
	var info micro.Info
	ask("$SRV.INFO.spool-persister", &info)
	if info.Description != "applies events to threads" || info.Metadata["lane"] != "7" {
		t.Errorf("info = %+v", info)
	}
	var all micro.Stats
	ask("$SRV.STATS.spool-persister", &all)
	if len(all.Endpoints) != 1 || string(all.Endpoints[0].Data) != `{"entries":42}` {
		t.Errorf("stats = %+v", all)
	}
	var one stats
	ask(events.ServiceSubject("persister"), &one)
	if one.Entries != 42 {
		t.Errorf("the endpoint answers %+v", one)
	}
	stop()
	for end := time.Now().Add(time.Minute); ; { // what was asked before it stopped is still answered
		_, err := nc.Request("$SRV.PING.spool-persister", nil, 5*time.Second)
		if errors.Is(err, nats.ErrNoResponders) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a daemon that stopped is still found: %v", err)
		}
	}
}
