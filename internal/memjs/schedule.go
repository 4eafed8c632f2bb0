package memjs

import (
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// schedule is a message that another one is made of, at a time or again and again (ADR-51). There is one a subject.
type schedule struct {
	seq   uint64
	at    time.Time
	timer timer
}

// scheduleSoon: a server looks at its schedules no more often.
const scheduleSoon = 250 * time.Millisecond

// nextTime is when a schedule is due after a time. Cron patterns are not modelled: ok is false.
func nextTime(pattern string, after, now time.Time) (at time.Time, repeats, ok bool) {
	if text, is := strings.CutPrefix(pattern, "@at "); is {
		at, err := time.Parse(time.RFC3339, text)
		return at, false, err == nil
	}
	text, is := strings.CutPrefix(pattern, "@every ")
	if !is {
		return at, false, false
	}
	every, err := time.ParseDuration(text)
	if err != nil || every < time.Second {
		return at, false, false
	}
	if at = after.UTC().Round(time.Second).Add(every); at.Before(now) { // it was missed: once is enough
		at = now.UTC().Round(time.Second).Add(every)
	}
	return at, true, true
}

// checkSchedule decides about a message that is a schedule, or ends one. It adds the rollup that every schedule has.
func (st *stream) checkSchedule(d *staged, subject string, hdr []byte) ([]byte, *server.ApiError) {
	pattern := header(hdr, server.JSSchedulePattern)
	if pattern != "" {
		if !st.cfg.AllowMsgSchedules {
			return hdr, server.NewJSMessageSchedulesDisabledError()
		}
		if _, zoned := headerValue(hdr, server.JSScheduleTimeZone); zoned {
			return hdr, server.NewJSMessageSchedulesTimeZoneInvalidError()
		}
		if _, _, ok := nextTime(pattern, st.s.now, st.s.now); !ok {
			return hdr, server.NewJSMessageSchedulesPatternInvalidError()
		}
		if header(hdr, server.JSScheduleTTL) != "" {
			return hdr, server.NewJSMessageTTLDisabledError()
		}
		if r := header(hdr, server.JSScheduleRollup); r != "" && r != server.JSMsgRollupSubject {
			return hdr, server.NewJSMessageSchedulesRollupInvalidError()
		}
		target, source := header(hdr, server.JSScheduleTarget), header(hdr, server.JSScheduleSource)
		if target == "" || target == subject || !server.IsValidPublishSubject(target) || !st.takes(target) {
			return hdr, server.NewJSMessageSchedulesTargetInvalidError()
		}
		if source != "" && (source == target || source == subject || !server.IsValidPublishSubject(source) ||
			!st.takes(source)) {
			return hdr, server.NewJSMessageSchedulesSourceInvalidError()
		}
		switch header(hdr, server.JSMsgRollup) {
		case "":
			hdr = addHeader(hdr, server.JSMsgRollup, server.JSMsgRollupSubject)
		case server.JSMsgRollupSubject:
		default:
			return hdr, server.NewJSMessageSchedulesRollupInvalidError()
		}
	}
	next, scheduler := header(hdr, server.JSScheduleNext), header(hdr, server.JSScheduler)
	switch {
	case next == "" && scheduler == "":
		return hdr, nil
	case next != server.JSScheduleNextPurge, scheduler == "", scheduler == subject,
		!server.IsValidPublishSubject(scheduler):
		return hdr, server.NewJSMessageSchedulesSchedulerInvalidError()
	case !st.cfg.AllowMsgSchedules:
		return hdr, server.NewJSMessageSchedulesDisabledError()
	}
	if d != nil && d.subjects[scheduler] != nil {
		if !d.subjects[scheduler].schedule {
			return hdr, server.NewJSMessageSchedulesSchedulerInvalidError()
		}
	} else if m := st.lastOf(scheduler); m != nil && header(m.hdr, server.JSSchedulePattern) == "" {
		return hdr, server.NewJSMessageSchedulesSchedulerInvalidError()
	}
	return hdr, nil
}

// schedule looks at a message that was stored: it may be a schedule, replace one, or tell when one is due next.
func (st *stream) schedule(m *message) {
	if !st.cfg.AllowMsgSchedules {
		return
	}
	scheduler := header(m.hdr, server.JSScheduler)
	if pattern := header(m.hdr, server.JSSchedulePattern); pattern != "" {
		if at, _, ok := nextTime(pattern, time.Unix(0, m.ts), st.s.now); ok {
			st.setSchedule(m.subject, m.seq, at)
		}
	} else if scheduler == "" {
		st.unschedule(m.subject)
	}
	if sc := st.schedules[scheduler]; sc != nil {
		if at, err := time.Parse(time.RFC3339Nano, header(m.hdr, server.JSScheduleNext)); err == nil {
			st.setSchedule(scheduler, sc.seq, at)
		}
	}
}

func (st *stream) setSchedule(subject string, seq uint64, at time.Time) {
	sc := st.schedules[subject]
	if sc == nil {
		sc = &schedule{}
		sc.timer = timer{what: "schedule", stream: st.cfg.Name, fire: func() { st.runSchedule(subject, sc) }}
		st.schedules[subject] = sc
	}
	sc.seq, sc.at = seq, at
	if soon := st.s.now.Add(scheduleSoon); at.Before(soon) {
		at = soon
	}
	st.s.setTimer(&sc.timer, at)
}

func (st *stream) unschedule(subject string) {
	if sc := st.schedules[subject]; sc != nil {
		st.s.stopTimer(&sc.timer)
		delete(st.schedules, subject)
	}
}

// runSchedule stores the message that a schedule makes.
func (st *stream) runSchedule(subject string, sc *schedule) {
	m := st.load(sc.seq)
	if m == nil {
		st.unschedule(subject)
		return
	}
	next, repeats, ok := nextTime(header(m.hdr, server.JSSchedulePattern), sc.at, st.s.now)
	if !ok {
		st.unschedule(subject)
		return
	}
	target, rollup := header(m.hdr, server.JSScheduleTarget), header(m.hdr, server.JSScheduleRollup)
	from := m
	if source := header(m.hdr, server.JSScheduleSource); source != "" {
		if last := st.lastOf(source); last != nil {
			from = last
		}
	}
	hdr := dropHeaders(from.hdr, "Nats-Schedule", "Nats-Expected-", server.JSMsgId+":", server.JSMessageTTL+":",
		server.JSMsgRollup+":")
	hdr = addHeader(hdr, server.JSScheduler, subject)
	if repeats {
		hdr = addHeader(hdr, server.JSScheduleNext, next.Format(time.RFC3339Nano))
	} else {
		hdr = addHeader(hdr, server.JSScheduleNext, server.JSScheduleNextPurge)
	}
	if rollup != "" {
		hdr = addHeader(hdr, server.JSMsgRollup, rollup)
	}
	st.commit(st.transformed(target), hdr, from.data)
}
