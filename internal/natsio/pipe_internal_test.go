package natsio

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"spool/internal/record"
)

// A server that takes longer for all requests of a call than for one has its time, as long as it answers; one that stops ends the call.
func TestCallIsAnsweredSlowly(t *testing.T) {
	const requests, timeout = 20, 5 * time.Second
	for _, answered := range []int{requests, 7, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipe{bytes: semaphore.NewWeighted(window), waiting: map[uint64]*call{}}
			msgs := make([]*nats.Msg, requests)
			for i := range msgs {
				msgs[i] = &nats.Msg{}
			}
			c := p.open(msgs)
			_ = p.acquire(t.Context(), c, requests*c.sizes[0])
			go func() {
				for i := range answered {
					time.Sleep(timeout - time.Second)
					p.answer(&nats.Msg{Subject: strconv.FormatUint(uint64(i), 36)})
				}
			}()
			begun := time.Now()
			answers, err := p.await(t.Context(), c, timeout)
			p.forget(c)
			if answered == requests && (err != nil || len(answers) != requests) {
				t.Errorf("%d answers, %v, want all", len(answers), err)
			}
			if most := time.Duration(answered+2) * timeout; answered < requests && !errors.Is(err, record.ErrUnknown) || time.Since(begun) > most {
				t.Errorf("%d of %d are answered: %v after %v, want %v within %v", answered, requests, err, time.Since(begun), record.ErrUnknown, most)
			}
			if !p.bytes.TryAcquire(window) {
				t.Error("the call keeps a share of the window")
			}
		})
	}
}
