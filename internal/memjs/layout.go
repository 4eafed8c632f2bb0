package memjs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Layout is the streams of a server, without messages, and their consumers, which nobody has used yet. It is a value
// that any number of servers can begin with (Config.Layout).
type Layout struct{ streams []laid }

type laid struct {
	cfg       server.StreamConfig
	told      []byte // as streamInfo tells it, in brief
	consumers []laidConsumer
}

type laidConsumer struct {
	cfg  server.ConsumerConfig
	told []byte
}

// Layout is that of a server to which nothing was published. It is an error when something was.
func (s *Server) Layout() (l Layout, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams {
		if st.last > 0 && st.last >= st.cfg.FirstSeq {
			return Layout{}, fmt.Errorf("stream %s was written to", st.cfg.Name)
		}
		of := laid{cfg: st.cfg, told: brief(st.toldConfig())}
		for _, o := range st.consumers {
			if o.dseq != 1 {
				return Layout{}, fmt.Errorf("consumer %s of stream %s was used", o.name, st.cfg.Name)
			}
			of.consumers = append(of.consumers, laidConsumer{o.cfg, brief(o.toldConfig())})
		}
		l.streams = append(l.streams, of)
	}
	return l, nil
}

// brief leaves out of a JSON object what is zero. Who reads it into a structure reads the same.
func brief(object []byte) []byte {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		panic(err)
	}
	maps.DeleteFunc(fields, func(_ string, v json.RawMessage) bool {
		return slices.Contains([]string{"0", "false", `""`, "{}", "null"}, string(v))
	})
	return mustJSON(fields)
}

func (s *Server) begin(l Layout) {
	s.now = time.Now()
	for _, of := range l.streams {
		st, err := newStream(s, of.cfg)
		if err != nil {
			panic("memjs: a stream that was made cannot be made again: " + err.Error())
		}
		st.told = of.told
		s.streams = append(s.streams, st)
		for _, c := range of.consumers {
			o, err := st.makeConsumer(&c.cfg, server.ActionCreate)
			if err != nil {
				panic("memjs: a consumer that was made cannot be made again: " + err.Description)
			}
			o.told = c.told
		}
	}
	s.settle()
}

// SetManual says whether nothing happens from now on but by Do. What waits when it ends is executed and handed out, in
// the order of the connections.
func (s *Server) SetManual(manual bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Manual = manual; manual {
		if s.alarm != nil {
			s.alarm.Stop()
		}
		s.alarmAt = time.Time{}
		return
	}
	s.now = time.Now()
	for _, c := range slices.Clone(s.conns) {
		if !s.processes[c.process] {
			c.drain()
		}
	}
	s.settle()
}

// Operations is how much the server has done: commands and timers that it executed, and messages for clients.
func (s *Server) Operations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.ops + s.given)
}
