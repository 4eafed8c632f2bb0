package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/threads"
)

// send publishes as any NATS client would (docs/protocol.md) and has the ack.
func (r *rig) send(t *testing.T, kind, payload string) {
	t.Helper()
	must.Get(r.conn.JetStream().Publish(t.Context(), "spool.v1.event.s.main."+kind, []byte(payload)))(t)
}

func TestPlainNATS(t *testing.T) {
	r := newRig(t)
	for _, seq := range []int{1, 2, 2, 1} { // repetitions add nothing
		r.send(t, "entry", fmt.Sprintf(`{"producer":"ci","seq":%d,"dialect":"item","user":"u","body":{"content":[{"type":"text","text":"%d"}],"metadata":{"type":"text"}}}`, seq, seq))
	}
	r.send(t, "entry", `{"producer":"ci","seq":3,"dialect":"item","body":{"content":[{"type":"text","text":"3"}]},"more":[{"seq":4,"body":{"content":[{"type":"text","text":"4"}]}}]}`)
	r.send(t, "chunk", `{"producer":"ci","seq":5,"body":{"op":"start","output":"o1","tool":"make"}}`)
	r.send(t, "chunk", `{"producer":"ci","seq":6,"body":{"op":"data","output":"o1","seq":1,"text":"gcc\n"}}`)
	r.send(t, "chunk", `{"producer":"ci","seq":7,"body":{"op":"end","output":"o1","seq":2,"exit_code":0}}`)
	r.send(t, "control", `{"producer":"ci","seq":8,"body":{"op":"end","end":{"returnCode":3,"summary":"done"}}}`)
	await(t, r.Client, thread("s"), "ci", 8)
	var got []string
	for item := range must.All(t,
		r.Subscribe(limited(t), client.Filter{Session: "s", Thread: "main"}, client.Position{N: 1})) {
		if got = append(got, item.Type()+" "+item.Text()); item.Type() == "tool_result" {
			break
		}
	}
	want := []string{"text 1", "text 2", "message 3", "message 4", "tool_result → gcc (1 lines)"}
	if !slices.Equal(got, want) {
		t.Errorf("items %q, want %q", got, want)
	}
	head, err := r.Thread(thread("s")).Head(t.Context())
	if err != nil || head.Status != threads.StatusCompleted {
		t.Errorf("the thread is %s, %v, want completed", head.Status, err)
	}
}

// What a foreign client gets wrong is a dead letter of the thread that it published to, with the reason, and can be mended and
// sent again.
func TestPlainNATSMistakes(t *testing.T) {
	r, ctx := newRig(t), limited(t)
	for _, c := range [][2]string{ // what is wrong with the envelope takes no place in the producer's order
		{`{"producer":"ci","seq":1,"dialect":"item"`, "byte"},
		{`{"producer":"ci","dialect":"item","body":{}}`, "seq starts at 1"},
		{`{"producer":"ci","seq":1,"dialect":"item","session":"other","body":{}}`, "it says other/main"},
		{`{"producer":"ci","seq":1,"dialect":"item","body":{},"body_base64":"eA=="}`, "give one"},
		{`{"producer":"ci","seq":1,"dialect":"item","body":{"content":"no array"}}`, "content must be an array"},
		{`{"producer":"ci","seq":2,"dialect":"cobol","body":{}}`, `dialect "cobol"`},
		{`{"producer":"ci","seq":3,"dialect":"omp","body":"text that is not JSON"}`, "not JSON"},
	} {
		payload, reason := c[0], c[1]
		r.send(t, "entry", payload)
		found := false
		for !found {
			letters, err := r.Session("s").DeadLetters(ctx)
			if err != nil { // its time is over
				t.Fatalf("%s: no dead letter says %q: %v", payload, reason, err)
			}
			for _, d := range letters {
				found = found || string(d.Data) == payload && strings.Contains(d.Reason, reason)
			}
		}
	}
}
