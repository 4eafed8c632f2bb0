package client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
)

// TestLogsAtOnce: of entries that were cut a few are read whole at a time, and no reader that is slow, or gone, keeps another one from
// beginning.
func TestLogsAtOnce(t *testing.T) {
	r := newRig(t)
	whole := client.Whole(r.Client)
	var logs []events.Thread
	for name, size := range map[string]int{"large": 1 << 19, "giant": 9 << 20} {
		th := events.Thread{Session: "s", Name: name}
		body := `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
		r.publish(t, client.Entry{Thread: th, Dialect: "item", Body: []byte(body)})
		logs = append(logs, th)
	}
	var open []io.ReadCloser
	for range cap(whole) { // more than may be read at a time, and nobody takes more than a byte
		for _, th := range logs {
			log := must.Get(r.Thread(th).Log(t.Context()))(t)
			must.Get(io.ReadFull(log, make([]byte, 1)))(t)
			open = append(open, log)
		}
	}
	must.Same(t, len(whole), 0, "%d entries are being read, want %d")
	for _, log := range open {
		must.Do(t, log.Close())
	}
	for range cap(whole) {
		whole <- struct{}{}
	}
	for _, th := range logs {
		ctx, stop := context.WithCancel(t.Context())
		log := must.Get(r.Thread(th).Log(ctx))(t)
		stop()
		if n, err := log.Read(make([]byte, 1)); n > 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("while as many as may be are read, a log of %s begins: %d bytes, %v", th, n, err)
		}
		must.Do(t, log.Close())
	}
}
