package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

// behindBytes is the text of an item that a reader catches up with.
const behindBytes = 512

// catchUp reads items that were stored before: three times, of which the best counts.
func catchUp(ctx context.Context, cfg SubscribeConfig, rep *SubscribeReport) error {
	r, err := startRig(Config{Dir: cfg.Dir, Seconds: 1 + cfg.Behind*(behindBytes+500)/bytesPerSecond, TCP: true}, relaxedSync)
	if err != nil {
		return err
	}
	defer r.stop()
	conn, err := r.spool(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	t, words := events.Thread{Session: "behind", Name: events.MainThread}, newProse()
	var posted []events.Posted
	for n := 1; n <= cfg.Behind; n++ {
		at := n * 997 % (len(words) - behindBytes)
		text := strconv.Quote(string(bytes.ToValidUTF8(words[at:at+behindBytes], nil)))
		data := fmt.Appendf(nil, `{"id":"%032x-0","n":%d,"session":"behind","thread":"main","created_at":"2026-11-20T10:00:00.000Z",`+
			`"node":"node:sha256:%064x","content":[{"type":"text","text":%s}],"metadata":{"type":"text"}}`, n, n, n, text)
		posted = append(posted, events.Posted{Subject: events.ItemSubject(t, "text", ""), N: int64(n), Data: data})
		if len(posted) == 5000 || n == cfg.Behind {
			if err := conn.Items().PublishItems(ctx, posted); err != nil {
				return err
			}
			posted = posted[:0]
		}
	}
	for range 3 {
		start, cpu, got := time.Now(), cpuTime(), 0
		for _, err := range client.New(conn).Subscribe(ctx, client.Filter{Session: "behind"}, client.Position{All: true}) {
			if err != nil {
				return err
			}
			if got++; got == cfg.Behind {
				break
			}
		}
		used := float64((cpuTime() - cpu).Microseconds()) / float64(got) // of reader and server
		if was := rep.Figures["catch_up_cpu_us_per_item"]; was == 0 || used < was {
			rep.Figures["catch_up_cpu_us_per_item"] = used
		}
		rep.Figures["catch_up_items_per_s"] = max(rep.Figures["catch_up_items_per_s"], float64(got)/time.Since(start).Seconds())
	}
	return ctx.Err()
}
