package ledger_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"spool/e2e/internal/proc"
	"spool/internal/faulttest"
	"spool/internal/natsio"
	"spool/pkg/client"
)

// ways is how producers publish, one after another: with the SDK from the test, with the SDK from processes that are killed, and
// over HTTP.
func ways(f *fleet, children []*child) func(producer string, c *client.Client) faulttest.Publisher {
	var n int
	var mu sync.Mutex
	return func(producer string, c *client.Client) faulttest.Publisher {
		mu.Lock()
		defer mu.Unlock()
		switch n++; n % 3 {
		case 0:
			return faulttest.ByClient{Publisher: c.Publisher(client.PublisherConfig{Producer: producer})}
		case 1:
			return &remote{producer: producer, child: children[n/3%len(children)]}
		}
		return &poster{producer: producer, url: "http://" + f.http + "/v1/events"}
	}
}

// poster publishes over HTTP, and again after any error: producer and sequence say that it is the same.
type poster struct{ producer, url string }

// envelope is a line of POST /v1/events.
type envelope struct {
	Session string          `json:"session"`
	Thread  string          `json:"thread"`
	Dialect string          `json:"dialect"`
	Seq     uint64          `json:"seq"`
	Body    json.RawMessage `json:"body"`
}

func (p *poster) Publish(ctx context.Context, entries ...client.Entry) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for _, e := range entries {
		if err := enc.Encode(envelope{e.Thread.Session, e.Thread.Name, e.Dialect, e.Seq, e.Body}); err != nil {
			return err
		}
	}
	for {
		again, err := p.post(ctx, body.Bytes(), len(entries))
		if err == nil || !again {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// post sends a batch once; again says that sending it again may help.
func (p *poster) post(ctx context.Context, body []byte, lines int) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Spool-Producer", p.producer)
	req.Header.Set("Spool-Seq", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode >= 500:
		return true, errors.Join(err, fmt.Errorf("%s: %.300s", resp.Status, answer))
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s: %.300s", resp.Status, answer)
	case bytes.Count(answer, []byte(`"ok":true`)) != lines:
		return true, fmt.Errorf("%d lines: %.300s", lines, answer)
	}
	return false, nil
}

// batch is what a child is asked to publish.
type batch struct {
	Producer string
	Entries  []client.Entry
}

// remote publishes through a child. When that dies nobody knows what became of the batch.
type remote struct {
	producer string
	child    *child
}

func (r *remote) Publish(ctx context.Context, entries ...client.Entry) error {
	return r.child.publish(ctx, batch{r.producer, entries})
}

// child is a process of this test's binary that publishes, one batch at a time. It is started when it is needed.
type child struct {
	f *fleet

	turn sync.Mutex // held while a batch is under way; owns what follows
	enc  *gob.Encoder
	dec  *gob.Decoder

	mu    sync.Mutex
	p     *proc.Process // nil: none runs
	pipe  io.Closer
	kills int
}

const childEnv = "SPOOL_LEDGER_PUBLISHER"

// serveChild is what a child does: it publishes what it is sent, and answers with an error's text or "".
func serveChild(url string) error {
	ctx := context.Background()
	conn, err := natsio.Dial(ctx, natsio.Config{URL: url})
	if err != nil {
		return err
	}
	defer conn.Close()
	cl, pubs := client.New(conn), map[string]*client.Publisher{}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var b batch
		if err := in.Decode(&b); err != nil {
			return err // the parent is gone
		}
		if pubs[b.Producer] == nil {
			pubs[b.Producer] = cl.Publisher(client.PublisherConfig{Producer: b.Producer})
		}
		answer := ""
		if _, err := pubs[b.Producer].Publish(ctx, b.Entries...); err != nil {
			answer = err.Error()
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

func (c *child) publish(ctx context.Context, b batch) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.open(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.kill)()
	answer := ""
	err := c.enc.Encode(b)
	if err == nil {
		err = c.dec.Decode(&answer)
	}
	switch {
	case err != nil:
		c.close()
		return fmt.Errorf("%w: %w", faulttest.ErrUnknown, err)
	case strings.Contains(answer, "connect"): // it was started while there was no server
		c.close()
		return fmt.Errorf("%w: %s", faulttest.ErrUnknown, answer)
	case answer != "":
		return errors.New(answer)
	}
	return nil
}

// open starts a process if there is none.
func (c *child) open() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil {
		return nil
	}
	cmd := c.f.command("")
	cmd.Path, cmd.Args = os.Args[0], os.Args[:1]
	cmd.Env = append(cmd.Env, childEnv+"="+c.f.url())
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p, err := proc.Begin(c.f.t, cmd)
	if err != nil {
		return err
	}
	c.p, c.pipe, c.enc, c.dec = p, in, gob.NewEncoder(in), gob.NewDecoder(out)
	return nil
}

func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil {
		c.kills++
		c.p.Kill()
	}
}

// close ends the process.
func (c *child) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil {
		c.p.Kill()
		_ = c.pipe.Close()
		c.p = nil
	}
}
