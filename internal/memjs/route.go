package memjs

import (
	"slices"
	"strconv"
	"strings"
)

// subscription is a client's interest in a subject.
type subscription struct {
	c       *conn
	sid     string
	subject pattern
	queue   string
	most    int // messages until it ends by itself; 0 = never
	got     int
}

// subscriptions are all of them: those to one subject by it, the others in the order in which they came.
type subscriptions struct {
	literal map[string][]*subscription
	wild    []*subscription
	turn    int // which member of a queue group is next
}

func (s *Server) subscribe(c *conn, cmd *command) {
	sub := &subscription{c: c, sid: cmd.sid, subject: newPattern(cmd.subject), queue: cmd.queue}
	if c.subs[cmd.sid] != nil {
		return
	}
	c.subs[cmd.sid] = sub
	if sub.subject.literal {
		s.subs.literal[cmd.subject] = append(s.subs.literal[cmd.subject], sub)
	} else {
		s.subs.wild = append(s.subs.wild, sub)
	}
}

func (s *Server) unsubscribe(c *conn, cmd *command) {
	sub := c.subs[cmd.sid]
	if sub == nil {
		return
	}
	if sub.most = cmd.most; sub.most == 0 || sub.got >= sub.most {
		s.dropSubscription(sub)
	}
}

func (s *Server) dropSubscription(sub *subscription) {
	is := func(x *subscription) bool { return x == sub }
	delete(sub.c.subs, sub.sid)
	if subject := sub.subject.text; !sub.subject.literal {
		s.subs.wild = slices.DeleteFunc(s.subs.wild, is)
	} else if left := slices.DeleteFunc(s.subs.literal[subject], is); len(left) > 0 {
		s.subs.literal[subject] = left
	} else {
		delete(s.subs.literal, subject)
	}
}

// forget drops a connection and what it subscribed to.
func (s *Server) forget(c *conn) {
	s.conns = slices.DeleteFunc(s.conns, func(x *conn) bool { return x == c })
	of := func(x *subscription) bool { return x.c == c }
	s.subs.wild = slices.DeleteFunc(s.subs.wild, of)
	for _, sub := range c.subs {
		if sub.subject.literal {
			s.subs.literal[sub.subject.text] = slices.DeleteFunc(s.subs.literal[sub.subject.text], of)
			if len(s.subs.literal[sub.subject.text]) == 0 {
				delete(s.subs.literal, sub.subject.text)
			}
		}
	}
	c.subs = map[string]*subscription{}
}

// interested reports whether somebody listens on a subject.
func (s *Server) interested(subject string) bool {
	if len(s.subs.literal[subject]) > 0 {
		return true
	}
	return slices.ContainsFunc(s.subs.wild, func(sub *subscription) bool { return sub.subject.matches(subject) })
}

// message is what is delivered: the subject says where it goes, shown what its receiver sees.
type delivery struct {
	subject, shown, reply string
	hdr, data             []byte
}

// answer sends from the server itself.
func (s *Server) answer(subject string, hdr, data []byte) {
	s.deliver(nil, delivery{subject: subject, shown: subject, hdr: hdr, data: data})
}

// deliver gives a message to everybody who listens, of a queue group to one, and returns to how many.
func (s *Server) deliver(from *conn, d delivery) (count int) {
	if s.mute != "" && d.subject == s.mute {
		return 1
	}
	var groups map[string][]*subscription
	var ended []*subscription
	give := func(sub *subscription) {
		if from != nil && from.noEcho && sub.c == from {
			return
		}
		count++
		sub.c.write(sub.sid, d)
		if sub.got++; sub.most > 0 && sub.got >= sub.most {
			ended = append(ended, sub)
		}
	}
	take := func(sub *subscription) {
		if sub.queue == "" {
			give(sub)
			return
		}
		if groups == nil {
			groups = map[string][]*subscription{}
		}
		groups[sub.queue] = append(groups[sub.queue], sub)
	}
	for _, sub := range s.subs.literal[d.subject] {
		take(sub)
	}
	for _, sub := range s.subs.wild {
		if sub.subject.matches(d.subject) {
			take(sub)
		}
	}
	for _, queue := range sortedKeys(groups) {
		members := groups[queue]
		s.subs.turn++
		give(members[s.subs.turn%len(members)])
	}
	for _, sub := range ended {
		s.dropSubscription(sub)
	}
	return count
}

// write gives a message to a client.
func (c *conn) write(sid string, d delivery) {
	c.s.given++
	keep := c.keeps(d.subject)
	if !keep {
		c.mu.Lock()
		c.unread = appendMessage(c.unread, sid, d)
		c.mu.Unlock()
		c.signal()
		return
	}
	c.done++
	c.out = append(c.out, outgoing{c.done, d.shown,
		appendMessage(make([]byte, 0, 64+len(sid)+len(d.shown)+len(d.reply)+len(d.hdr)+len(d.data)), sid, d)})
	c.s.notify()
}

func appendMessage(b []byte, sid string, d delivery) []byte {
	if len(d.hdr) > 0 {
		b = append(b, 'H')
	}
	b = append(append(b, "MSG "...), d.shown...)
	b = append(append(b, ' '), sid...)
	b = append(b, ' ')
	if d.reply != "" {
		b = append(append(b, d.reply...), ' ')
	}
	if len(d.hdr) > 0 {
		b = append(strconv.AppendInt(b, int64(len(d.hdr)), 10), ' ')
	}
	b = strconv.AppendInt(b, int64(len(d.hdr)+len(d.data)), 10)
	b = append(append(b, crlf...), d.hdr...)
	return append(append(b, d.data...), crlf...)
}

// publish executes a client's publish: for JetStream, and for who listens.
func (s *Server) publish(c *conn, cmd *command) {
	taken := false
	switch {
	case strings.HasPrefix(cmd.subject, "$JS.API."):
		taken = s.request(cmd)
	case strings.HasPrefix(cmd.subject, "$JS.ACK."):
		taken = s.acknowledge(cmd)
	default:
		for _, st := range s.streams {
			if st.takes(cmd.subject) {
				if cmd.n == 0 { // it was not kept yet
					cmd.keep()
				}
				st.inbound(cmd.subject, cmd.reply, cmd.hdr, cmd.data)
				taken = true
				break
			}
		}
	}
	n := s.deliver(c, delivery{cmd.subject, cmd.subject, cmd.reply, cmd.hdr, cmd.data})
	if !taken && n == 0 && cmd.reply != "" && c.responder {
		s.answer(cmd.reply, noResponders, nil)
	}
}

var noResponders = []byte("NATS/1.0 503\r\n\r\n")
