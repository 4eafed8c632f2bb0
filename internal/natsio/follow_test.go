package natsio_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"spool/internal/must"
	"spool/internal/natsio"
	"spool/internal/natstest"
	"spool/pkg/events"
)

// Who asks for the newest item of each subject gets those that are left, and what comes since, also where some are removed before
// they are given.
func TestNewestItemsBesideRemovals(t *testing.T) {
	t.Parallel()
	c := natstest.Conn(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := must.Get(c.JetStream().Stream(ctx, events.ItemsStream))(t)
	const sessions = 20
	large := bytes.Repeat([]byte(" "), 900<<10) // what is asked for ahead is less than all
	put := func(i int, body string) uint64 {
		subject := events.ItemSubject(events.Thread{Session: fmt.Sprint("s", i), Name: "main"}, "user", "")
		return must.Get(c.JetStream().Publish(ctx, subject, append(bytes.Clone(large), body...)))(t).Sequence
	}
	at := make([]uint64, sessions)
	for range 2 {
		for i := range sessions {
			at[i] = put(i, "{}")
		}
	}
	got := map[uint64]bool{}
	for it, err := range c.Items().Follow(ctx, []string{events.ItemSubjects}, natsio.Position{Last: true}, nil) {
		must.Do(t, err)
		if got[it.Seq] = true; len(got) == 1 {
			for _, i := range []int{13, 14, 17, 19} {
				must.Do(t, s.DeleteMsg(ctx, at[i]))
				delete(got, at[i])
				at[i] = 0
			}
		}
		if it.Subject == events.ItemSubject(events.Thread{Session: "s18", Name: "main"}, "user", "") {
			if it.Seq != at[18] {
				break
			}
			put(18, "{}")
		}
	}
	for i, seq := range at {
		if seq > 0 && !got[seq] {
			t.Errorf("the newest item of session %d was not given", i)
		}
	}
	must.Do(t, ctx.Err())
}
