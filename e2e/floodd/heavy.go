package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/pkg/client"
	"spool/pkg/events"
)

// letters is that many bytes of text that compresses to three quarters.
func letters(n int) string {
	r := rand.NewChaCha8([32]byte{byte(n)})
	b := make([]byte, n/4*3)
	_, _ = r.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// heavy are floods that go on for as long as the others publish: size is of an entry. One is made again for each, so
// that no two are the same.
func (f *flood) heavy() (body func(i int) []byte, ok bool) {
	part := func(text string) string { return `{"type":"text","text":"` + text + `"}` }
	var pieces []string
	switch f.kind {
	case "text": // one string, of which the cut leaves little
		pieces = []string{part(letters(f.size))}
	case "parts": // strings that no rule cuts
		for range f.size / 8192 {
			pieces = append(pieces, part(letters(8192)))
		}
	case "images":
		for i := range 10 {
			pieces = append(pieces, `{"type":"image","mimeType":"image/png","data":"`+letters(f.size/10+16*i)+`"}`)
		}
	case "tiny":
		pieces = []string{part("x")}
	default:
		return nil, false
	}
	var all bytes.Buffer
	for i, p := range pieces {
		if i > 0 {
			all.WriteByte(',')
		}
		all.WriteString(p)
	}
	return func(i int) []byte {
		var b bytes.Buffer
		b.Grow(all.Len() + 100)
		fmt.Fprintf(&b, `{"content":[{"type":"text","text":"%d"},`, i)
		at := bytes.Index(all.Bytes(), []byte(`"data":"`))
		b.Write(all.Bytes())
		if at >= 0 { // another image than the one before
			copy(b.Bytes()[b.Len()-all.Len()+at+8:], fmt.Sprintf("%08d", i))
		}
		b.WriteString("]}")
		return b.Bytes()
	}, true
}

// goOn floods until the others have published: n entries at most in each of so many sessions.
func (f *flood) goOn(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	var done, sent atomic.Int64
	body, isEntry := f.heavy()
	began := time.Now()
	for k := range f.sessions {
		g.Go(func() error {
			c, err := f.connect(ctx, "flood")
			if err != nil {
				return err
			}
			defer c.Close()
			pub := c.Publisher(client.PublisherConfig{})
			t := events.Thread{Session: f.session + "-" + strconv.Itoa(k), Name: events.MainThread}
			for i := 0; i < f.n; i++ {
				switch {
				case isEntry && f.http != "":
					err = post(ctx, f.http, t, body(i))
				case isEntry && f.kind == "tiny":
					batch := make([]client.Entry, 500)
					for j := range batch {
						batch[j] = client.Entry{Thread: t, Dialect: "item", Body: []byte(`{"content":[{"type":"text","text":"x"}]}`)}
					}
					_, err = pub.Publish(ctx, batch...)
					i += len(batch) - 1
					done.Add(int64(len(batch) - 1))
				case isEntry:
					b := body(i)
					sent.Add(int64(len(b)))
					_, err = pub.Publish(ctx, client.Entry{Thread: t, Dialect: "item", Body: b})
				case f.kind == "output":
					err = stream(ctx, c, t, &sent)
				default:
					err = f.churn(ctx, c, pub, t, i)
				}
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					fmt.Println("flood:", err)
					time.Sleep(100 * time.Millisecond)
				}
				done.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	fmt.Printf("flood: %d of %q, %d MiB, in %v, %v\n", done.Load(), f.kind, sent.Load()>>20, time.Since(began).Round(time.Millisecond), err)
	return err
}

func post(ctx context.Context, url string, t events.Thread, body []byte) error {
	to := url + "/v1/sessions/" + t.Session + "/threads/" + t.Name + "/entries?dialect=item"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 300))
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return nil
}

// stream prints 64 MiB.
func stream(ctx context.Context, c *client.Client, t events.Thread, sent *atomic.Int64) error {
	o, err := c.Thread(t).Output(ctx, client.OutputConfig{Tool: "bash"})
	if err != nil {
		return err
	}
	text := []byte(letters(64 << 10))
	for range 1 << 10 {
		n, err := o.Write(text)
		sent.Add(int64(n))
		if err != nil {
			return errors.Join(err, o.Abort("gone"))
		}
	}
	return o.Close(client.OutputEnd{})
}

// churn forks, renames and deletes.
func (f *flood) churn(ctx context.Context, c *client.Client, pub *client.Publisher, t events.Thread, i int) error {
	if i == 0 {
		for j := range 20 {
			if _, err := pub.Publish(ctx, entry(t.Session, strconv.Itoa(j)+letters(4096))); err != nil {
				return err
			}
		}
	}
	to := t.Session + "-f" + strconv.Itoa(i)
	if err := c.Session(t.Session).Fork(ctx, to, client.SessionFork{}); err != nil {
		return err
	}
	_, err := c.Session(to).Delete(ctx, client.Deletion{})
	return err
}

// cpuOf is the processor time that a process took so far, in hundredths of a second. On a busy machine it says more of what
// others wait for than a clock does.
func cpuOf(pid int) time.Duration {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, stat, _ = bytes.Cut(stat, []byte(") "))
	fields := bytes.Fields(stat)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(string(fields[11]))
	system, _ := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * 10 * time.Millisecond
}
