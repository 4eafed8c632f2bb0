package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"spool/internal/must"
)

// ofAll matches a request about the records of all sessions, or their names.
var ofAll = regexp.MustCompile(`\$KV\.spool\.(thread\.\*\.|history\.\*\.\*\.|session\.\*|session\.>|>")`)

// Who gives all of an id has nothing asked about other sessions, whatever the command, in a store of any size.
func TestWholeIDCost(t *testing.T) {
	for _, n := range []int{200, 4000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s, conn := plain(t)
			manySessions(t, conn, n, 0)
			const id = "s000070"
			asked := make(chan string, 1<<16)
			nc := conn.JetStream().Conn()
			must.Get(nc.Subscribe("$JS.API.>", func(m *nats.Msg) { asked <- m.Subject + " " + string(m.Data) }))(t)
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			for _, command := range []string{
				"show", "session show", "session tree", "session context", "session resume", "session materialize", "resume", "thread ls", "thread show",
				"thread log", "thread verify", "export", "artifact ls", "run ls", "output ls", "prompts ls", "dead ls", "search --session",
				"history recent --session",
			} {
				out, code := spool(t, append(strings.Fields(command), id, "--nats", s.ClientURL())...)
				if code == 2 {
					t.Fatalf("spool %s = %d: %s", command, code, out)
				}
				must.Do(t, nc.Publish("$JS.API.done", nil))
				for one := <-asked; !strings.HasPrefix(one, "$JS.API.done"); one = <-asked {
					if ofAll.MatchString(one) {
						t.Errorf("spool %s %s asks about all sessions: %.200s", command, id, one)
					}
				}
			}
		})
	}
}
