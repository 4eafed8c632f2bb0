package memjs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// pull is a request for messages that waits.
type pull struct {
	reply   string
	n       int // messages that it still takes
	given   int
	bytes   int // that it still takes; 0 = any
	noWait  bool
	expires time.Time
	beat    time.Duration
	beatAt  time.Time
	group   *server.PriorityGroup
}

// status tells a request why it ends, or nearly.
func (o *consumer) status(w *pull, what string) {
	o.st.s.answer(w.reply, fmt.Appendf(nil, "NATS/1.0 %s\r\n%s: %d\r\n%s: %d\r\n\r\n", what,
		server.JSPullRequestPendingMsgs, w.n, server.JSPullRequestPendingBytes, w.bytes), nil)
}

// request takes a pull.
func (o *consumer) request(reply string, body []byte) {
	refuse := func(status string) { o.st.s.answer(reply, []byte("NATS/1.0 "+status+"\r\n\r\n"), nil) }
	w, err := o.parsePull(reply, body)
	if err != nil {
		refuse("400 Bad Request - " + err.Error())
		return
	}
	if status := o.checkPull(w); status != "" {
		refuse(status)
		return
	}
	now := o.st.s.now
	if w.noWait {
		pending := o.numPending() + uint64(len(o.again))
		if pending == 0 && w.expires.IsZero() {
			o.lastRequest = now
			refuse("404 No Messages")
			return
		}
		if pending > 0 && pending < uint64(o.processWaiting(false)) {
			o.lastRequest = now
			refuse("408 Requests Pending")
			return
		}
	}
	if len(o.waiting) >= o.cfg.MaxWaiting {
		o.processWaiting(false)
	}
	if len(o.waiting) >= o.cfg.MaxWaiting {
		if w.beat == 0 {
			refuse("409 Exceeded MaxWaiting")
		}
		return
	}
	o.lastRequest = now
	o.waiting = append(o.waiting, w)
	o.signal()
}

func (o *consumer) parsePull(reply string, body []byte) (*pull, error) {
	w := &pull{reply: reply, n: 1}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '{':
		var r server.JSApiConsumerGetNextRequest
		if !parseNext(body, &r) {
			r = server.JSApiConsumerGetNextRequest{}
			if err := json.Unmarshal(body, &r); err != nil {
				return nil, err
			}
		}
		if r.Heartbeat > 0 && r.Heartbeat*2 > r.Expires {
			return nil, errors.New("heartbeat value too large")
		}
		w.n, w.bytes, w.noWait, w.beat, w.group = r.Batch, r.MaxBytes, r.NoWait, r.Heartbeat, &r.PriorityGroup
		if r.Heartbeat > 0 {
			w.beatAt = o.st.s.now.Add(r.Heartbeat)
		}
		if r.Expires != 0 {
			w.expires = o.st.s.now.Add(r.Expires)
		}
	default:
		if n, err := strconv.Atoi(string(body)); err == nil {
			w.n = n
		}
	}
	return w, nil
}

// checkPull says why a request is refused; "" when it is not.
func (o *consumer) checkPull(w *pull) string {
	switch {
	case o.cfg.MaxRequestBatch > 0 && w.n > o.cfg.MaxRequestBatch:
		return fmt.Sprintf("409 Exceeded MaxRequestBatch of %d", o.cfg.MaxRequestBatch)
	case o.cfg.MaxRequestExpires > 0 && w.expires.After(o.st.s.now.Add(o.cfg.MaxRequestExpires)):
		return fmt.Sprintf("409 Exceeded MaxRequestExpires of %v", o.cfg.MaxRequestExpires)
	case o.cfg.MaxRequestMaxBytes > 0 && w.bytes > o.cfg.MaxRequestMaxBytes:
		return fmt.Sprintf("409 Exceeded MaxRequestMaxBytes of %v", o.cfg.MaxRequestMaxBytes)
	case w.group == nil:
		return ""
	case w.group.MinPending != 0 || w.group.MinAckPending != 0:
		return "400 Bad Request - Not a Overflow Priority consumer"
	case w.group.Id != "" && o.cfg.PriorityPolicy != server.PriorityPinnedClient:
		return "400 Bad Request - Not a Pinned Client Priority consumer"
	case o.cfg.PriorityPolicy == server.PriorityNone:
		return ""
	case w.group.Group == "":
		return "400 Bad Request - Priority Group missing"
	case !slices.Contains(o.cfg.PriorityGroups, w.group.Group):
		return "400 Bad Request - Invalid Priority Group"
	case o.pin == "":
	case w.group.Id == o.pin:
		o.armPin()
	case w.group.Id != "":
		return "423 Nats-Pin-Id mismatch"
	}
	return ""
}

func (o *consumer) armPin() { o.st.s.setTimer(&o.pinTimer, o.st.s.now.Add(o.cfg.PinnedTTL)) }

// assignPin gives the consumer to who made a request.
func (o *consumer) assignPin(w *pull) bool {
	if w.group == nil || w.group.Group == "" {
		return false
	}
	o.st.s.pins++
	o.pin = fmt.Sprintf("PIN%019d", o.st.s.pins)
	o.pinned = o.st.s.now.UTC()
	w.group.Id = o.pin
	o.armPin()
	return true
}

func (o *consumer) unpin() {
	o.pin, o.pinned = "", time.Time{}
	o.st.s.stopTimer(&o.pinTimer)
}

// nextPull finds the request that gets a message of a size, and drops those that cannot have it.
func (o *consumer) nextPull(size int) *pull {
	needPin := o.pin == "" && o.cfg.PriorityPolicy == server.PriorityPinnedClient
	passed := 0
	for len(o.waiting) > 0 {
		w := o.waiting[0]
		if !w.expires.IsZero() && !o.st.s.now.Before(w.expires) {
			o.status(w, "408 Request Timeout")
			o.expired(w.expires)
			o.waiting = o.waiting[1:]
			continue
		}
		id := ""
		if w.group != nil {
			id = w.group.Id
		}
		assigned := false
		switch {
		case needPin && id == "":
			assigned = o.assignPin(w)
		case !needPin && (o.pin == "" || id == o.pin):
		case !needPin && id == "":
			o.waiting = append(o.waiting[1:], w)
			if passed++; passed >= len(o.waiting) {
				return nil
			}
			continue
		default:
			o.status(w, "423 Nats-Wrong-Pin-Id")
			o.waiting = o.waiting[1:]
			continue
		}
		if w.bytes > 0 && size > w.bytes {
			o.status(w, "409 Message Size Exceeds MaxBytes")
			if assigned {
				o.unpin()
			}
			o.waiting = o.waiting[1:]
			continue
		}
		if w.bytes > 0 {
			if w.bytes -= size; w.bytes == 0 {
				w.n = 1
			}
		}
		if !o.st.s.interested(w.reply) {
			o.waiting = o.waiting[1:]
			continue
		}
		w.given++
		w.n--
		if o.waiting = o.waiting[1:]; w.n > 0 {
			o.waiting = append(o.waiting, w)
		}
		return w
	}
	return nil
}

func (o *consumer) expired(at time.Time) {
	if at.After(o.lastRequest) {
		o.lastRequest = at
	}
}

// processWaiting ends requests that are over or that nobody waits for, sends heartbeats, and sets the timer for the
// next of it. end: there is nothing more to deliver. It returns how many messages the requests take.
func (o *consumer) processWaiting(end bool) (take int) {
	now := o.st.s.now
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	left := o.waiting[:0]
	for _, w := range o.waiting {
		over := !w.expires.IsZero() && !now.Before(w.expires)
		switch {
		case over:
			o.status(w, "408 Request Timeout")
			o.expired(w.expires)
			continue
		case end && w.noWait && (w.expires.IsZero() || w.given > 0):
			o.st.s.answer(w.reply, []byte("NATS/1.0 404 No Messages\r\n\r\n"), nil)
			o.expired(now)
			continue
		case !o.st.s.interested(w.reply):
			continue
		}
		take += w.n
		if !w.beatAt.IsZero() && !now.Before(w.beatAt) {
			o.heartbeat(w.reply)
			w.beatAt = now.Add(w.beat)
		}
		sooner(w.beatAt)
		sooner(w.expires)
		left = append(left, w)
	}
	clear(o.waiting[len(left):])
	if o.waiting = left; next.IsZero() {
		o.st.s.stopTimer(&o.waitTimer)
	} else {
		o.st.s.setTimer(&o.waitTimer, next)
	}
	return take
}
