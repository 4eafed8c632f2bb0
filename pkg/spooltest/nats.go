package spooltest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wire is a connection of the NATS protocol: what docs/protocol.md needs of a client, and no more, so that the kit needs none.
type wire struct {
	r     *run
	conn  net.Conn
	in    *bufio.Reader
	inbox string
	sid   int
	early []message // of subscriptions: they came before the answer to a request
}

type message struct {
	subject, head string
	data          []byte
}

// dial connects to the server's NATS side, for as long as the case runs.
func (r *run) dial() *wire {
	at, err := url.Parse(r.server.NATS)
	r.do(err)
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(r.ctx, "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "4222")))
	r.do(err)
	r.open = append(r.open, conn)
	w := &wire{r: r, conn: conn, in: bufio.NewReader(conn), inbox: "_INBOX." + rand.Text()}
	options := map[string]any{"verbose": false, "headers": true, "no_responders": true, "lang": "go", "version": "1", "protocol": 1}
	if at.User != nil {
		options["user"] = at.User.Username()
		options["pass"], _ = at.User.Password()
	}
	b, _ := json.Marshal(options)
	w.line() // INFO
	w.send("CONNECT %s\r\n", b)
	w.subscribe(w.inbox + ".>")
	return w
}

func (w *wire) send(format string, args ...any) {
	_, err := fmt.Fprintf(w.conn, format, args...)
	w.r.do(err)
}

func (w *wire) line() string {
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.r.fail("from NATS: %w", err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

func (w *wire) subscribe(subject string) {
	w.sid++
	w.send("SUB %s %d\r\n", subject, w.sid)
}

func (w *wire) publish(subject, reply string, payload []byte, header ...string) {
	head := "NATS/1.0\r\n"
	for i := 0; i < len(header); i += 2 {
		head += header[i] + ": " + header[i+1] + "\r\n"
	}
	head += "\r\n"
	w.send("HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(head), len(head)+len(payload), head, payload)
}

// receive is the next message.
func (w *wire) receive() message {
	for {
		words := strings.Fields(w.line())
		switch kind := slices.Concat(words, []string{""})[0]; kind {
		case "PING":
			w.send("PONG\r\n")
		case "-ERR":
			w.r.fail("NATS says %s", strings.Join(words[1:], " "))
		case "MSG", "HMSG":
			size, _ := strconv.Atoi(words[len(words)-1])
			head := 0
			if kind == "HMSG" {
				head, _ = strconv.Atoi(words[len(words)-2])
			}
			b := make([]byte, size+2)
			_, err := io.ReadFull(w.in, b)
			w.r.do(err)
			return message{words[1], string(b[:head]), b[head:size]}
		}
	}
}

// next is the next message of a subscription.
func (w *wire) next() message {
	if len(w.early) > 0 {
		m := w.early[0]
		w.early = w.early[1:]
		return m
	}
	return w.receive()
}

// request is the answer to one.
func (w *wire) request(subject string, payload []byte, header ...string) message {
	reply := w.inbox + "." + rand.Text()
	w.publish(subject, reply, payload, header...)
	for {
		m := w.receive()
		if m.subject == reply {
			return m
		}
		w.early = append(w.early, m)
	}
}

// ack is JetStream's answer to a publish.
type ack struct {
	Stream string
	Seq    uint64
	Error  struct {
		Code        int
		ErrCode     int `json:"err_code"`
		Description string
	}
}

// store publishes until the answer is an ack.
func (w *wire) store(subject string, payload []byte, header ...string) ack {
	for begun, rest := time.Now(), 10*time.Millisecond; ; rest = min(2*rest, 2*time.Second) {
		m := w.request(subject, payload, header...)
		var a ack
		busy := strings.HasPrefix(m.head, "NATS/1.0 503")
		if !busy {
			w.r.do(json.Unmarshal(m.data, &a))
			busy = a.Error.ErrCode == 10077 || a.Error.Code == 429 || a.Error.Code == 503
		}
		switch {
		case !busy && a.Stream == "":
			w.r.fail("a publish to %s is answered with %s, want an ack", subject, m.data)
		case !busy:
			return a
		case time.Since(begun) > patience:
			w.r.fail("a publish to %s is answered with %s %s", subject, m.head, m.data)
		}
		w.r.rest(rest)
	}
}

// event publishes an event of the case's session. In body {id} stands for the session.
func (w *wire) event(thread, kind, body string) ack {
	return w.store("spool.v1.event."+w.r.session+"."+thread+"."+kind, []byte(w.r.fill(body)), "Content-Type", "application/json")
}

// consume makes a consumer of items. In filter {id} stands for the session.
func (w *wire) consume(filter, policy string) {
	deliver := "_INBOX." + rand.Text()
	w.subscribe(deliver)
	config, _ := json.Marshal(map[string]any{"stream_name": "SPOOL_ITEMS", "config": map[string]any{"deliver_subject": deliver,
		"filter_subject": w.r.fill(filter), "deliver_policy": policy, "ack_policy": "none"}})
	made := w.request("$JS.API.CONSUMER.CREATE.SPOOL_ITEMS", config)
	if bytes.Contains(made.data, []byte(`"error"`)) {
		w.r.fail("a consumer of %s is refused: %s", filter, made.data)
	}
}

// wireItem is an item, with the subject and the life that it came with.
type wireItem struct {
	subject, life string
	N             int64
	Content       []struct{ Text string }
	Metadata      struct {
		Type string
		Tool struct {
			Invocation string `json:"invocation_id"`
			IsError    bool   `json:"is_error"`
			Output     json.RawMessage
		}
	}
	User    string `json:"user_id"`
	Created string `json:"created_at"`
}

func (it wireItem) text() (s string) {
	for _, part := range it.Content {
		s += part.Text
	}
	return s
}

// items are the next ones that a consumer gives, each once.
func (w *wire) items(count int) (all []wireItem) {
	last := map[string]int64{}
	for len(all) < count {
		m := w.next()
		if !strings.HasPrefix(m.subject, "spool.v1.item.") {
			continue
		}
		it := wireItem{subject: m.subject, life: header(m.head, "Spool-Life")}
		w.r.do(json.Unmarshal(m.data, &it))
		of := strings.Join(strings.Split(m.subject, ".")[3:5], ".") + it.life
		if it.N > last[of] { // else it is stored again, behind a crash
			last[of] = it.N
			all = append(all, it)
		}
	}
	return all
}

func header(head, name string) string {
	for line := range strings.SplitSeq(head, "\r\n") {
		if key, value, ok := strings.Cut(line, ": "); ok && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// letter waits for the newest dead letter of a thread to have these bytes in it, and is why it is one.
func (w *wire) letter(thread, kind, has string) string {
	asked, _ := json.Marshal(map[string]string{"last_by_subj": "spool.v1.dead." + w.r.session + "." + thread + "." + kind})
	for begun := time.Now(); ; w.r.rest(50 * time.Millisecond) {
		m := w.request("$JS.API.DIRECT.GET.SPOOL_DEAD", asked)
		if why := header(m.head, "Spool-Reason"); why != "" && bytes.Contains(m.data, []byte(has)) {
			return why
		}
		if time.Since(begun) > patience {
			w.r.fail("no dead letter of %s has %q: %s %s", thread, has, m.head, m.data)
		}
	}
}

// record waits until a key of the bucket spool has a value.
func (w *wire) record(key string) {
	asked, _ := json.Marshal(map[string]string{"last_by_subj": "$KV.spool." + w.r.fill(key)})
	for begun := time.Now(); ; w.r.rest(50 * time.Millisecond) {
		m := w.request("$JS.API.STREAM.MSG.GET.KV_spool", asked)
		var got struct{ Message struct{ Data []byte } }
		if json.Unmarshal(m.data, &got) == nil && len(got.Message.Data) > 0 {
			return
		}
		if time.Since(begun) > patience {
			w.r.fail("there is no record %s: %s", key, m.data)
		}
	}
}
