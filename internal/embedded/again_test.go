//go:build linux

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/must"
)

// A stream that met a full disk takes no write any more. Its server is started again, and connections go on.
func TestAgain(t *testing.T) {
	s := must.Get(Start(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Sync: time.Minute}))(t)
	t.Cleanup(s.Stop)
	inside := must.Get(nats.Connect("",
		nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)))(t)
	t.Cleanup(inside.Close)
	js := must.Get(jetstream.New(inside, jetstream.WithDefaultTimeout(time.Second)))(t)
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxBytes: 64 << 10}
	must.Get(js.CreateStream(t.Context(), cfg))(t)
	must.Get(js.Publish(t.Context(), "s", make([]byte, 30<<10)))(t)
	must.Do(t, s.stopped())

	block := filepath.Join(s.cfg.Dir, "jetstream", "jetstream", "$G", "streams", "S", "msgs", "2.blk")
	must.Do(t, os.Symlink("/dev/full", block))
	must.Do(t, inside.PublishRequest("s", "nobody", make([]byte, 30<<10))) // the first block has no room for it
	must.Eventually(t, "the server tells of the stream that stopped", func() error {
		if err := s.stopped(); err == nil || !strings.Contains(err.Error(), "> S'") {
			return fmt.Errorf("stopped: %v", err)
		}
		return nil
	})
	must.Do(t, os.Remove(block))

	before := s.ClientURL()
	must.Do(t, s.again(t.Context()))
	must.Is(t, s.stopped(), nil, "stopped behind a start")
	must.Eventually(t, "publish", func() error { _, err := js.Publish(t.Context(), "s", []byte("c")); return err })
	outside := must.Get(nats.Connect(before))(t)
	outside.Close()
	must.Is(t, s.room(), nil, "room")
}
