package persist_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

const note = `{"content":[{"type":"text","text":"a note"}]}`

// ran streams the output of a command into a thread, its call too, as spool exec does.
func (r *rig) ran(t *testing.T, th events.Thread) {
	t.Helper()
	ctx := soon(t)
	out := must.Get(r.Thread(th).Output(ctx, client.OutputConfig{Tool: "sh", Input: []byte(`{"command":"date"}`)}))(t)
	must.Get(out.Write([]byte("noon\n")))(t)
	must.Do(t, out.Close(client.OutputEnd{}))
	must.Do(t, out.Wait(ctx))
}

// What commands, notes and lines of other dialects write into a session changes nothing of what it says itself: its context,
// file, tree, leaf and labels, and where its next entries go.
func TestBesideASession(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, r *rig, th events.Thread){
		"output": func(t *testing.T, r *rig, th events.Thread) { r.ran(t, th) },
		"note":   func(t *testing.T, r *rig, th events.Thread) { r.say(th, "item", note) },
		"named":  func(t *testing.T, r *rig, th events.Thread) { r.say(th, "item", `{"id":"n",`+note[1:]) },
		"other": func(t *testing.T, r *rig, th events.Thread) {
			r.say(th, "claude", `{"type":"user","uuid":"u1","message":{"role":"user","content":"x"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.start(nil)
			ctx, th := soon(t), thread(0)
			lines := []string{sessionHeader, node("a", ""), node("b", "a")}
			r.say(th, "omp", lines...)
			said := must.Get(r.Thread(th).Context(ctx, sessions.Last, nil))(t).JSON()
			tree, standing := r.shape(t, th), r.head(th).Standing

			write(t, r, th)
			if name == "output" {
				must.Same(t, r.head(th).Standing, standing, "standing = %d, want %d")
			}
			must.Same(t, r.head(th).Dialect, "omp", "dialect of the thread = %q, want %q")
			must.Same(t, r.shape(t, th), tree, "tree = %s, want %s")
			must.Same(t, string(must.Get(r.Thread(th).Context(ctx, sessions.Last, nil))(t).JSON()), string(said), "context = %s, want %s")
			if name != "other" { // an agent's own entry is kept, whatever its dialect is
				must.Same(t, r.export(th), strings.Join(lines, "\n")+"\n", "export = %s, want %s")
			}
			must.Get(r.Thread(th).Label(ctx, "a", "begin"))(t)
			write(t, r, th)
			r.say(th, "omp", bare("c"))
			r.say(th, "omp", node("d", "c"))
			all := must.Get(r.Thread(th).Tree(ctx))(t)
			label := all.Entries()[2]
			if label.Type != "label" || label.Parent != "b" || all.Label("a") != "begin" {
				t.Errorf("label = %s under %q, want one under b", label.Type, label.Parent)
			}
			want := "a< b<a " + label.ID + "<b c<" + label.ID + " d<c leaf d"
			must.Same(t, r.shape(t, th), want, "tree behind it = %s, want %s")

			write(t, r, th)
			again, head := events.Thread{Session: th.Session, Name: "again"}, r.head(th)
			must.Do(t, r.Thread(again).Fork(ctx, events.Fork{Session: th.Session, Thread: th.Name, Node: head.Head().Ref.String()}))
			r.say(again, "omp", bare("e"))
			must.Same(t, r.shape(t, again), strings.Replace(want, " leaf d", " e<d leaf e", 1), "tree of a fork = %s, want %s")
			must.Do(t, r.Session(th.Session).Fork(ctx, "s9", client.SessionFork{}))
			r.verify(th)
		})
	}
}

// A session that a note began has its own header, and its places are those of its own version.
func TestBehindANote(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	th := thread(0)
	r.say(th, "item", note)
	r.say(th, "omp", sessionHeader, node("a", ""))
	h := must.Get(r.Internal().Source().Header(soon(t), th, r.head(th), sessions.Info{}))(t)
	must.Same(t, h.Cwd, "/srv/mill", "directory = %q, want %q")
	must.Same(t, r.shape(t, th), "a< leaf a", "tree = %s, want %s")
	must.Same(t, r.export(th), sessionHeader+"\n"+node("a", "")+"\n", "export = %s, want %s")
}

// A rollback of Codex counts what its user said, not the notes beside it; a workflow's context has its steps alone.
func TestBesideOthers(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	ctx := soon(t)
	step := events.Thread{Session: "s1", Name: "main"}
	r.say(step, "step", `{"role":"planner","content":"plan"}`)
	r.say(step, "item", note)
	r.ran(t, step)
	got := must.Get(r.Thread(step).StepContext(ctx, sessions.Last))(t)
	if len(got.Steps) != 1 || got.Steps[0].Content != "plan" {
		t.Errorf("steps = %+v, want the planner's alone", got.Steps)
	}

	user := func(text string) string {
		return `{"timestamp":"2026-11-20T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user",` +
			`"content":[{"type":"input_text","text":"` + text + `"}]}}`
	}
	codex := events.Thread{Session: "s2", Name: "main"}
	r.say(codex, "codex", user("one"), user("two"))
	r.say(codex, "item", note)
	r.say(codex, "codex", `{"timestamp":"2026-11-20T10:00:01.000Z","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}`)
	head := r.head(codex)
	if got := len(must.Get(r.Internal().Source().Path(ctx, head, head.Head(), rehydrate.Full))(t).Entries); got != 2 {
		t.Errorf("path after a rollback of one turn has %d entries, want the first prompt and the rollback", got)
	}
}
