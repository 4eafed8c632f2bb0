package main

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/events"
)

// TestBusyPersister: who has much in hand asks for nothing, and serves its partition all the same. Nobody is told otherwise, by whatever
// command.
func TestBusyPersister(t *testing.T) {
	s, conn := plain(t)
	busy := events.Thread{Session: "s", Name: events.MainThread}
	const first, more = 252, 4000 // more than a persister takes ahead
	for range first + more {
		must.Get(conn.JetStream().PublishAsync(events.EventSubject(busy, events.KindEntry), make([]byte, 4000)))(t)
	}
	<-conn.JetStream().PublishAsyncComplete()
	block := make(chan struct{})
	for p := range events.Partitions {
		defer must.Get(conn.Events().Consume(t.Context(), p, nil, func(natsio.Delivery) { <-block }))(t).Stop()
	}
	defer close(block)
	at := must.Get(conn.Events().NewestEvent(t.Context(), busy))(t).Partition
	must.Until(t, "one has much in hand, and the others ask", func() bool {
		asking := 0
		for p := range events.Partitions {
			info := must.Get(conn.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(p)))(t).CachedInfo()
			if asks := info.NumWaiting > 0; asks != (p == at) {
				asking++
			}
			if p == at && (info.NumPending == 0 || info.NumAckPending == 0) {
				return false
			}
		}
		return asking == events.Partitions
	})
	for _, args := range [][]string{{"check", "partitions"}, {"doctor"}, {"top", "--once"}} {
		out, code := spool(t, append(args, "--nats", s.ClientURL())...)
		if strings.Contains(out, "nobody serves") || strings.Contains(out, "15 of 16") || args[0] == "check" && code != service.ExitOK {
			t.Errorf("spool %v = %d where a persister is busy:\n%s", args, code, out)
		}
	}
}
