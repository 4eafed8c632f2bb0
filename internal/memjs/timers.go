package memjs

import (
	"container/heap"
	"time"
)

// timer is something that the server does at a time. Its owner sets and stops it; it is in the heap while it is set.
type timer struct {
	at    time.Time
	order int // among timers of one time: when they were made
	place int // in the heap, from 1; 0 = not set
	fire  func()

	what, stream string // for who reads Ready
}

type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *timers) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.place = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.place = 0
	return t
}

// setTimer has a timer fire at a time, once, in place of what it was set to.
func (s *Server) setTimer(t *timer, at time.Time) {
	t.at = at
	if t.place > 0 {
		heap.Fix(&s.timers, t.place-1)
		return
	}
	heap.Push(&s.timers, t)
}

func (s *Server) stopTimer(t *timer) {
	if t.place > 0 {
		heap.Remove(&s.timers, t.place-1)
	}
}

// setAlarm wakes a server that runs by itself for its next timer. An alarm that is set for earlier is left to ring in
// vain: setting one costs more.
func (s *Server) setAlarm() {
	if s.cfg.Manual || len(s.timers) == 0 {
		return
	}
	at := s.timers[0].at
	if !s.alarmAt.IsZero() && !at.Before(s.alarmAt) {
		return
	}
	s.alarmAt = at
	wait := max(time.Until(at), 0)
	if s.alarm == nil {
		s.alarm = time.AfterFunc(wait, s.ring)
		return
	}
	s.alarm.Reset(wait)
}

func (s *Server) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Manual {
		return
	}
	s.alarmAt = time.Time{}
	s.now = time.Now()
	for len(s.timers) > 0 && !s.timers[0].at.After(s.now) {
		s.ops++
		heap.Pop(&s.timers).(*timer).fire()
		s.settle()
	}
	s.setAlarm()
}

// NextTimer is when the server's next timer is due; false: it waits for nothing.
func (s *Server) NextTimer() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.timers) == 0 {
		return time.Time{}, false
	}
	return s.timers[0].at, true
}
