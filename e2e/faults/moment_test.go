//go:build linux

package faults_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/must"
)

// TestDiskFullForAMoment fills the disk of spool up until SPOOL_EVENTS takes no write, and makes room again.
// nats-server stops a stream that met a full disk until it is started again: spool up does that by itself, says so
// meanwhile, and what was acked is there.
func TestDiskFullForAMoment(t *testing.T) {
	row(t)
	w := newWorld(t)
	w.isolate()
	if err := w.inside.do("mount", "-t", "tmpfs", "-o", "size=256m", "none", w.inside.at); err != nil {
		skip(t, fmt.Sprintf("cannot mount a tmpfs: %v", err))
	}
	w.up("--events-bytes", "64MiB", "--items-bytes", "16MiB")
	big := small()
	big.Entry = func(r *rand.Rand) int { return 10_000 + r.IntN(50_000) }
	load := w.publish(faulttest.NewLedger(big))
	load.acks(50)
	_ = w.inside.do("dd", "if=/dev/zero", "of="+w.inside.at+"/filler", "bs=4096")
	w.eventually("readiness names the stream", func() error {
		if err := w.ready(); err == nil || !strings.Contains(err.Error(), "SPOOL_EVENTS: ") {
			return fmt.Errorf("ready: %v", err)
		}
		return nil
	})
	status, after, text := w.post()
	if status != http.StatusServiceUnavailable || after == "" || !strings.Contains(text, "make room") {
		t.Errorf("entry to a full disk = %d %s, again after %q s; want 503 that says what to do", status, text, after)
	}
	if out, code := w.run("spool", "doctor"); code != 1 || !strings.Contains(out, "SPOOL_EVENTS: ") {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}
	if out, code := w.run("spool", "check", "writes"); code != 2 || !strings.Contains(out, "SPOOL_EVENTS: ") {
		t.Errorf("check: exit code %d, want 2\n%s", code, out)
	}
	takes := `spool_stream_takes_writes{stream="SPOOL_EVENTS"} `
	w.eventually("metrics say it", func() error { return w.metric(takes + "0") })
	must.Do(t, w.inside.do("mount", "-o", "remount,size=512m", w.inside.at))
	load.acks(20)
	load.check()
	w.eventually("metrics say it", func() error { return w.metric(takes + "1") })
	if w.server.Ended() {
		t.Error("spool up ended")
	}
}

// post stores an entry over HTTP.
func (w *world) post() (status int, after, text string) {
	w.t.Helper()
	url := "http://" + w.http + "/v1/sessions/posted/threads/main/entries?dialect=raw"
	res := must.Get(http.Post(url, "application/json", strings.NewReader(`{"n":1}`)))(w.t)
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(w.t)
	return res.StatusCode, res.Header.Get("Retry-After"), string(body)
}

// metric looks for a line of the metrics.
func (w *world) metric(line string) error {
	res, err := http.Get("http://" + w.http + "/metrics")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && !strings.Contains(string(body), line+"\n") {
		err = fmt.Errorf("no %s", line)
	}
	return err
}
