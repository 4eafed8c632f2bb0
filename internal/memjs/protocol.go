package memjs

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// command is what a client wrote. Of a publish, the bytes belong to the client's buffer unless the command was kept.
type command struct {
	n       uint64
	verb    string // PUB (also HPUB), SUB, UNSUB, PING, PONG, CONNECT
	subject string
	reply   string
	queue   string
	sid     string
	most    int // UNSUB: after that many messages
	hdr     []byte
	data    []byte
	stream  string // that it is for, once Ready has told it
}

// keep makes the bytes of a publish its own.
func (cmd *command) keep() {
	n := len(cmd.hdr)
	if n+len(cmd.data) == 0 {
		return
	}
	own := append(append(make([]byte, 0, n+len(cmd.data)), cmd.hdr...), cmd.data...)
	if cmd.data = own[n:]; n > 0 {
		cmd.hdr = own[:n:n]
	}
}

// take executes what a client wrote, or keeps it for the driver. What follows an incomplete command waits with it.
func (c *conn) take(p []byte) {
	if len(c.partial) > 0 {
		p = append(c.partial, p...)
		c.partial = nil
	}
	for len(p) > 0 && !c.gone {
		cmd, n, ok := c.parse(p)
		if !ok {
			c.protocolError()
			return
		}
		if n == 0 {
			c.partial = append([]byte(nil), p...)
			return
		}
		p = p[n:]
		if c.waits(cmd) {
			cmd.keep()
			c.done++
			cmd.n = c.done
			c.in = append(c.in, cmd)
			c.s.notify()
			continue
		}
		c.s.execute(c, cmd)
	}
}

// waits reports whether a command is left to the driver. What only this connection and the server see is not, as long
// as nothing is queued before it: it would order nothing.
func (c *conn) waits(cmd *command) bool {
	if c.s.processes[c.process] || len(c.in) > 0 {
		return true
	}
	if !c.s.cfg.Manual {
		return false
	}
	switch cmd.verb {
	case "CONNECT", "PONG":
		return false
	case "PING":
		return len(c.out) > 0
	}
	return true
}

// drain executes what was kept while the process was frozen, and hands out what there is for it.
func (c *conn) drain() {
	for len(c.in) > 0 && !c.gone {
		cmd := c.in[0]
		c.in = c.in[1:]
		c.s.execute(c, cmd)
	}
	for _, o := range c.out {
		c.receiveBytes(o.bytes)
	}
	c.out = nil
}

func (c *conn) protocolError() {
	c.receive("-ERR 'Unknown Protocol Operation'\r\n")
	c.disconnect()
}

var crlf = []byte("\r\n")

// parse reads one command; n is its length, 0 while it is incomplete.
func (c *conn) parse(p []byte) (cmd *command, n int, ok bool) {
	end := bytes.Index(p, crlf)
	if end < 0 {
		return nil, 0, len(p) < 64<<10
	}
	line := p[:end]
	n = end + 2
	verb, rest, _ := strings.Cut(string(line), " ")
	cmd = &command{verb: strings.ToUpper(verb)}
	var fields [5]string
	args := splitFields(rest, fields[:0])
	switch cmd.verb {
	case "PUB", "HPUB":
		return c.parsePublish(cmd, args, p, n)
	case "SUB":
		if len(args) != 2 && len(args) != 3 {
			return nil, 0, false
		}
		cmd.subject, cmd.sid = args[0], args[len(args)-1]
		if len(args) == 3 {
			cmd.queue = args[1]
		}
	case "UNSUB":
		if len(args) != 1 && len(args) != 2 {
			return nil, 0, false
		}
		cmd.sid = args[0]
		if len(args) == 2 {
			cmd.most, _ = strconv.Atoi(args[1])
		}
	case "CONNECT":
		cmd.data = []byte(rest)
	case "PING", "PONG":
	default:
		return nil, 0, false
	}
	return cmd, n, true
}

func (c *conn) parsePublish(cmd *command, args []string, p []byte, n int) (*command, int, bool) {
	sizes := 1
	if cmd.verb == "HPUB" {
		sizes = 2
	}
	if len(args) != sizes+1 && len(args) != sizes+2 {
		return nil, 0, false
	}
	cmd.subject = args[0]
	if len(args) == sizes+2 {
		cmd.reply = args[1]
	}
	total, err := strconv.Atoi(args[len(args)-1])
	if err != nil || total < 0 {
		return nil, 0, false
	}
	hdr := 0
	if sizes == 2 {
		if hdr, err = strconv.Atoi(args[len(args)-2]); err != nil || hdr < 0 || hdr > total {
			return nil, 0, false
		}
	}
	if total > c.s.cfg.MaxPayload {
		c.receive("-ERR 'Maximum Payload Violation'\r\n")
		return nil, 0, false
	}
	if len(p) < n+total+2 {
		return nil, 0, true
	}
	cmd.verb = "PUB"
	if hdr > 0 {
		cmd.hdr = p[n : n+hdr : n+hdr]
	}
	cmd.data = p[n+hdr : n+total : n+total]
	return cmd, n + total + 2, true
}

func splitFields(s string, fields []string) []string {
	for len(s) > 0 && len(fields) < cap(fields) {
		i := strings.IndexByte(s, ' ')
		if i < 0 {
			return append(fields, s)
		}
		if i > 0 {
			fields = append(fields, s[:i])
		}
		s = s[i+1:]
	}
	return fields
}

// execute does what a client asked for.
func (s *Server) execute(c *conn, cmd *command) {
	s.ops++
	switch cmd.verb {
	case "PUB":
		s.publish(c, cmd)
	case "SUB":
		s.subscribe(c, cmd)
	case "UNSUB":
		s.unsubscribe(c, cmd)
	case "PING":
		c.send("", "PONG\r\n")
	case "CONNECT":
		var opts struct {
			Echo         *bool `json:"echo"`
			NoResponders bool  `json:"no_responders"`
		}
		if json.Unmarshal(cmd.data, &opts) == nil {
			c.noEcho, c.responder = opts.Echo != nil && !*opts.Echo, opts.NoResponders
		}
	}
}

// send gives bytes to a client, or keeps them for the driver.
func (c *conn) send(subject, b string) {
	if c.keeps(subject) {
		c.done++
		c.out = append(c.out, outgoing{c.done, subject, []byte(b)})
		c.s.notify()
		return
	}
	c.receive(b)
}

// keeps reports whether a message waits for the driver.
func (c *conn) keeps(subject string) bool {
	return len(c.out) > 0 || c.s.processes[c.process] || c.s.cfg.Manual && subject != ""
}
