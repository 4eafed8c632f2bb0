package subscriptions

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"spool/internal/dstreams"
)

// tell tells of a wake that this process began, or that nobody told of.
func (s *Service) tell(ctx context.Context, sub *subscription) {
	switch w := sub.Wake; {
	case w == nil || w.Told != "" || w.Holder != "", time.Now().UnixMilli() < sub.Next:
	case sub.Config.Type == byPull:
		s.tellStream(ctx, sub)
	case w.secret != "":
		go func() {
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(sub.Config.Lease)*time.Millisecond+mostWait)
			defer stop()
			if err := s.deliver(ctx, sub); err != nil && !isCode(err, "SUBSCRIPTION_NOT_FOUND") {
				s.Log.Warn("note what became of a wake", "subscription", sub.ID, "error", err)
			}
		}()
	}
}

// tellStream appends a wake to the wake stream, and notes that it has it. Appended twice, it is claimed once.
func (s *Service) tellStream(ctx context.Context, sub *subscription) {
	name := ""
	for _, of := range sub.names() {
		if tail := sub.Wake.Tails[of]; name == "" && tail > sub.Links[of].Acked {
			name = of
		}
	}
	value, err := json.Marshal(map[string]any{
		"type": "wake", "subscription_id": sub.ID, "stream": name, "generation": sub.Generation, "ts": time.Now().UnixMilli(),
	})
	var in dstreams.Tail
	if err == nil {
		in, err = s.Streams.Tail(ctx, sub.Config.WakeStream)
	}
	if err == nil {
		err = s.Streams.Append(ctx, sub.Config.WakeStream, value)
	}
	_, changed := s.change(ctx, sub.ID, func(now *subscription) (bool, error) {
		if now.Wake == nil || now.Wake.ID != sub.Wake.ID {
			return false, nil
		}
		if err == nil {
			now.Wake.Told, now.Failed, now.Next = in.ID, 0, 0
		} else {
			now.later()
		}
		return true, nil
	})
	if err = cmp.Or(err, changed); err != nil && ctx.Err() == nil {
		s.Log.Warn("a wake is told again", "subscription", sub.ID, "stream", sub.Config.WakeStream, "error", err)
	}
}

// later puts off the next try: 1 s, then twice as long each time, up to a minute, and a fifth more or less.
func (s *subscription) later() {
	wait := min(time.Second<<min(s.Failed, 10), mostWait)
	s.Failed++
	s.Next = time.Now().Add(wait + time.Duration((rand.Float64()*2-1)*0.2*float64(wait))).UnixMilli()
}

// told is a stream as a worker is told of it.
type told struct {
	Path    string `json:"path"`
	Link    string `json:"link_type"`
	Acked   string `json:"acked_offset"`
	Tail    string `json:"tail_offset"`
	Pending bool   `json:"has_pending"`
}

func (s *subscription) told() []told {
	out := []told{}
	for _, name := range s.names() {
		l := s.Links[name]
		out = append(out, told{name, l.kind(), l.Acked, l.tail.Offset, l.pending()})
	}
	return out
}

func (l *link) kind() string {
	if l.Explicit {
		return "explicit"
	}
	return "glob"
}

// deliver tells a webhook of a wake that this process began, and takes its answer.
func (s *Service) deliver(ctx context.Context, sub *subscription) error {
	done, err := s.post(ctx, sub)
	if err != nil {
		s.Log.Warn("a webhook did not take a wake, and is woken again", "subscription", sub.ID, "generation", sub.Generation, "error", err)
	}
	now, changed := s.change(ctx, sub.ID, func(now *subscription) (bool, error) {
		if now.Wake == nil || now.Wake.ID != sub.Wake.ID { // it called back, or its lease was over
			return false, nil
		}
		if err != nil {
			now.later()
			now.Wake = nil
			return true, nil
		}
		wrote := now.Failed != 0
		now.Failed, now.Next = 0, 0
		if !done {
			return wrote, nil
		}
		for name, tail := range now.Wake.Tails {
			if l := now.Links[name]; l != nil && !l.Anew && l.Acked < tail {
				l.Acked = tail
			}
		}
		now.Wake = nil
		_, err := s.advance(ctx, now, moved{all: true})
		return true, err
	})
	if changed == nil {
		s.tell(ctx, now)
	}
	return changed
}

func (s *Service) post(ctx context.Context, sub *subscription) (done bool, err error) {
	ctx, stop := context.WithDeadline(ctx, time.UnixMilli(sub.Wake.Until-sub.Config.Lease/10)) // before the next wake
	defer stop()
	select {
	case s.under <- struct{}{}:
		defer func() { <-s.under }()
	case <-ctx.Done():
		return false, fmt.Errorf("%d others were under way all the time", mostDeliveries)
	}
	body, err := json.Marshal(map[string]any{
		"subscription_id": sub.ID, "wake_id": sub.Wake.ID, "generation": sub.Generation, "streams": sub.told(),
		"callback_url": s.at(sub, "/callback"), "callback_token": sub.Wake.secret,
	})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.Config.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "spool")
	t := time.Now().Unix()
	sig := ed25519.Sign(s.Key, fmt.Appendf(nil, "%d.%s", t, body))
	req.Header.Set("Webhook-Signature", fmt.Sprintf("t=%d,kid=%s,ed25519=%s", t, s.kid, base64.RawURLEncoding.EncodeToString(sig)))
	res, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if res.StatusCode/100 != 2 {
		return false, fmt.Errorf("%s: %.200q", res.Status, said)
	}
	if err != nil { // it took the wake, and did not say that it is done
		return false, nil
	}
	var says struct {
		Done bool `json:"done"`
	}
	_ = json.Unmarshal(said, &says) // what says nothing is not done
	return says.Done, nil
}
