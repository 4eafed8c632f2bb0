package natsio_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// What waits for its ack is as much as a consumer gives: it keeps no message in memory.
func TestAcksThatWaitKeepNoMessages(t *testing.T) {
	const messages, size = 64, 512 << 10
	c := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	body := bytes.Repeat([]byte("x"), size)
	for range messages {
		must.Get(c.JetStream().Publish(t.Context(), events.EventSubject(th, events.KindEntry), body))(t)
	}
	partition := must.Get(c.Events().NewestEvent(t.Context(), th))(t).Partition
	type freed struct{}
	came, gone := make(chan func() error, messages), make(chan freed, messages)
	stop := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
		runtime.AddCleanup(&d.Data[0], func(freed) { gone <- freed{} }, freed{})
		came <- d.Ack
	}))(t).Stop
	var acks []func() error
	for len(acks) < messages {
		acks = append(acks, must.Receive(t, came, "%d messages came, want %d", len(acks), messages))
	}
	stop()
	end := time.Now().Add(time.Minute)
	for ; len(gone) < messages*3/4; runtime.Gosched() {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("%d of %d messages are free while their acks wait, want nearly all", len(gone), messages)
		}
	}
	if err := acks[len(acks)-1](); err != nil {
		t.Error(err)
	}
}

// TestAckedWhenGivenAway: a partition is given away behind the acks that were sent for it, which the server takes when it comes to that:
// who gets it next is not given what is done.
func TestAckedWhenGivenAway(t *testing.T) {
	c := natstest.Conn(t)
	th := events.Thread{Session: "s", Name: "main"}
	partition := -1
	for i := range 300 {
		stored := must.Get(c.JetStream().Publish(t.Context(), events.EventSubject(th, events.KindEntry), []byte("x")))(t).Sequence
		if partition < 0 {
			partition = must.Get(c.Events().NewestEvent(t.Context(), th))(t).Partition
		}
		came := make(chan struct{}, 1000)
		of := must.Get(c.Events().Consume(t.Context(), partition, nil, func(d natsio.Delivery) {
			_ = d.Ack()
			if d.Seq == stored {
				came <- struct{}{}
			}
		}))(t)
		<-came
		of.Stop()
		cons := must.Get(c.JetStream().Consumer(t.Context(), events.EventsStream, events.PartitionConsumer(partition)))(t)
		if info := cons.CachedInfo(); info.NumAckPending > 0 || info.AckFloor.Stream != stored {
			t.Fatalf("round %d: given away with %d to be acknowledged, behind %d, want %d", i, info.NumAckPending, info.AckFloor.Stream, stored)
		}
	}
}
