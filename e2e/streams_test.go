package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spool/internal/must"
)

// stream asks for a stream until it is answered; pairs are headers. Between two tries the server may die.
func (w *world) stream(ctx context.Context, method, path, body string, pairs ...string) (status int, text string, err error) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, method, "http://"+w.http+"/v1/stream/"+path, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		for i := 0; i < len(pairs); i += 2 {
			req.Header.Set(pairs[i], pairs[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err == nil && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests {
				return res.StatusCode, string(b), nil
			}
		}
		time.Sleep(20 * time.Millisecond) // before it asks again, as a client does
	}
	return 0, "", ctx.Err()
}

// TestKilledWhileStreaming kills spool up again and again while producers append to streams, which are forked, closed and deleted
// meanwhile. Each producer repeats what was not answered. In the end every append is in its stream once, in order.
func TestKilledWhileStreaming(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	up := w.up()
	const producers, rounds, each, kills = 4, 6, 15, 5
	isJSON := []string{"Content-Type", "application/json"}
	ask := func(want []int, method, path, body string, pairs ...string) string {
		status, text, err := w.stream(ctx, method, path, body, pairs...)
		for _, s := range want {
			if err == nil && status == s {
				return text
			}
		}
		t.Errorf("%s %s = %d %s, %v, want one of %v", method, path, status, text, err, want)
		return ""
	}
	check := func(path string, want ...string) {
		for { // what a process that was killed since has acknowledged is seen when it is applied
			var got []string
			err := json.Unmarshal([]byte(ask([]int{200}, "GET", path, "")), &got)
			if err == nil && strings.Join(got, " ") == strings.Join(want, " ") {
				return
			}
			if err != nil || ctx.Err() != nil || len(got) >= len(want) {
				t.Errorf("%s holds %v, %v, want %v", path, got, err, want)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var work sync.WaitGroup
	for p := range producers {
		work.Go(func() {
			for round := range rounds {
				name, fork := fmt.Sprintf("s%d-%d", p, round), fmt.Sprintf("f%d/%d", p, round)
				ask([]int{201, 200}, "PUT", name, `["begin"]`, isJSON...)
				all := []string{"begin"}
				for i := range each {
					text := fmt.Sprintf("%s-%d", name, i)
					headers := append([]string{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", fmt.Sprint(i)}, isJSON...)
					if all = append(all, text); i == each-1 {
						headers = append(headers, "Stream-Closed", "true")
					}
					ask([]int{200, 204}, "POST", name, fmt.Sprintf("[%q]", text), headers...)
				}
				ask([]int{201, 200}, "PUT", fork, `["fork"]`, append([]string{"Stream-Forked-From", "/v1/stream/" + name}, isJSON...)...)
				check(name, all...)
				if round%2 == 0 { // 404 and 410: an earlier try did it
					ask([]int{204, 404, 410}, "DELETE", name, "")
					ask([]int{410}, "GET", name, "")
				}
				check(fork, append(all, "fork")...)
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	killed := 0
	for range kills {
		select { // the moment of the kill is the test's input
		case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
		case <-done:
			continue
		}
		up.Kill()
		killed++
		up = w.up()
	}
	<-done
	t.Logf("killed %d times", killed)
	if killed == 0 {
		t.Error("all was done before the first kill")
	}
	for p := range producers {
		for round := range rounds {
			name := fmt.Sprintf("s%d-%d", p, round)
			all := []string{"begin"}
			for i := range each {
				all = append(all, fmt.Sprintf("%s-%d", name, i))
			}
			check(fmt.Sprintf("f%d/%d", p, round), append(all, "fork")...)
			ask([]int{204, 404}, "DELETE", fmt.Sprintf("f%d/%d", p, round), "")
			if round%2 == 0 {
				ask([]int{404}, "GET", name, "")
			}
		}
	}
	w.checkNoDead(w.dial())
	w.run("spool", "fsck")
	must.Same(t, up.Stop(), 0, "spool up after SIGTERM: exit code %d, want %d")
}
