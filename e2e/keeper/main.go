// Command keeper is an agent with an offline directory: keeper DIR SESSION. Each of its writers publishes entries 1, 2,
// 3, … over the one client, to a thread that it shares with every third writer, and says which are durable. With -n it
// publishes so many, and then does nothing until it is killed; without, it goes on until its standard input ends, and
// ends once a server has everything. Between two entries a writer rests for -pause. NATS_URL names the server.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"spool/pkg/client"
	"spool/pkg/events"
)

func main() {
	writers := flag.Int("writers", 1, "goroutines that publish")
	n := flag.Int("n", 0, "entries of each; 0 = until the input ends")
	pause := flag.Duration("pause", 0, "rest of a writer between two entries")
	flag.Parse()
	if err := keep(flag.Arg(0), flag.Arg(1), *writers, *n, *pause); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

func keep(dir, session string, writers, n int, pause time.Duration) error {
	ctx, log := context.Background(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := client.Connect(ctx, client.Config{Offline: dir, URL: os.Getenv("NATS_URL"), Logger: log})
	if err != nil {
		return err
	}
	defer c.Close()
	stop := make(chan struct{})
	if n == 0 {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(stop)
		}()
	}
	var all errgroup.Group
	for w := range writers {
		all.Go(func() error {
			p := c.Publisher(client.PublisherConfig{Producer: fmt.Sprintf("keeper-%s-%d", session, w)})
			th := events.Thread{Session: session, Name: fmt.Sprintf("t%d", w%3)}
			for i := 1; n == 0 || i <= n; i++ {
				body := fmt.Sprintf(`{"id":"%d-%d","role":"coder","content":"entry %d"}`, w, i, i)
				e := client.Entry{Thread: th, Dialect: "step", Body: []byte(body), Seq: uint64(i)}
				if _, err := p.Publish(ctx, e); err != nil {
					return fmt.Errorf("writer %d, entry %d: %w", w, i, err)
				}
				fmt.Printf("acked %d %d\n", w, i)
				select {
				case <-stop:
					return nil
				case <-time.After(pause):
				}
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	if n > 0 {
		fmt.Println("kept")
		select {}
	}
	return c.Flush(ctx)
}
