package persist_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// golden reads a scenario of the program that grew out of seed 004.
func golden(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/golden/cas/" + name)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	must.Do(t, err)
}

// A step's artifact is a ref of its content and of nothing else, and there is one content, not one without the ref beside it,
// which the program of the scenario leaves for its collector.
func TestArtifactRefsOfAStep(t *testing.T) {
	var scenario struct {
		Artifact string            `json:"artifact_hash"`
		Orphan   string            `json:"agent_content_hash"`
		Before   map[string]string `json:"blobs_before_gc"`
		After    []string          `json:"blobs_after_gc"`
	}
	golden(t, "03b_artifact_refs_orphan.json", &scenario)
	if slices.Contains(scenario.After, scenario.Orphan) || !slices.Contains(scenario.After, scenario.Artifact) {
		t.Fatal("the scenario is not what it was: its artifact is kept, its orphan is not")
	}
	r := newRig(t)
	r.start(nil)
	p := r.Publisher(client.PublisherConfig{Producer: "p"})
	blob := must.Get(r.PutBlob(t.Context(), []byte("the artifact")))(t)
	body := fmt.Appendf(nil, `{"role":"coder","content":"role output text","refs":[%q],"timestamp":1778308464007}`, blob)
	must.Get(p.Publish(t.Context(), client.Entry{Thread: thread(0), Dialect: "step", Body: body, Seq: 1}))(t)
	head := r.await(thread(0), "p", 1)
	step := must.Get(r.Reader().Step(t.Context(), head.Head()))(t)
	content, err := step.ReadContent(t.Context())
	if err != nil || string(content.Text) != "role output text" || len(content.Refs) != 1 || content.Refs[0] != blob {
		t.Errorf("content = %q, refs %v, %v, want the text and the artifact", content.Text, content.Refs, err)
	}
	// prompt, start, content, state; of the scenario's: the artifact's and the end's two are beside them, and the orphan
	pack, err := r.Reader().Packs.Pack(t.Context(), head.Head().Pack)
	if want := len(scenario.After) - 3; err != nil || pack.Len() != want {
		t.Errorf("%d nodes, %v, want %d", pack.Len(), err, want)
	}
	for i := range pack.Len() {
		n := must.Get(pack.Node(pack.Ref(i)))(t)
		shape := "type: " + n.Type + "\n"
		found := false
		for _, hash := range scenario.After {
			found = found || hash != scenario.Artifact && strings.HasPrefix(scenario.Before[hash], shape)
		}
		if !found {
			t.Errorf("a node of type %s: the scenario has none", n.Type)
		}
	}
}

// Threads that begin at the same time in one session are all in the index; the scenario keeps one of forty.
func TestConcurrentUpdatesOfTheIndex(t *testing.T) {
	var scenario struct{ Expected, Survived int }
	golden(t, "06_threads_json_lost_update.json", &scenario)
	if scenario.Expected != 40 || scenario.Survived != 1 {
		t.Fatalf("the scenario is not what it was: %+v", scenario)
	}
	r := newRig(t)
	r.start(nil)
	r.start(nil)
	ctx := brief(t)
	done := make(chan error)
	for i := range scenario.Expected {
		go func() {
			id := events.Thread{Session: "index", Name: fmt.Sprint("t", i)}
			p := r.Publisher(client.PublisherConfig{Producer: id.Name})
			_, err := p.Publish(ctx, client.Entry{Thread: id, Dialect: "step", Body: []byte(`{"role":"coder","content":"x"}`), Seq: 1})
			if err == nil {
				err = r.Thread(id).Await(ctx, id.Name, 0, 1)
			}
			done <- err
		}()
	}
	for range scenario.Expected {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	list, err := r.Session("index").Threads(t.Context())
	if err != nil || len(list) != scenario.Expected {
		t.Errorf("%d threads, %v, want %d", len(list), err, scenario.Expected)
	}
	for _, th := range list {
		if th.Head.Status != threads.StatusActive || th.Head.N != 1 {
			t.Errorf("%s is %s with %d items", th.Thread, th.Head.Status, th.Head.N)
		}
	}
}
