package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spool/internal/natsadmin"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// Runs and outputs are their threads': what another thread says of one, or what does not follow from what was said before, is a dead
// letter. Agents publish such here as one without this library does.

// say publishes something to a thread, as the next event of the operation's own producer.
func (c *call) say(ctx context.Context, producer string, seq uint64, t events.Thread, kind events.Kind, body []byte) error {
	conn, err := c.proc.connect()
	if err != nil {
		return err
	}
	e := events.Event{Producer: producer, Seq: seq, Kind: kind, Thread: t, Body: body}
	if kind == events.KindEntry {
		e.Dialect = "item"
	}
	return natsadmin.New(conn).PutMessages(ctx, []natsadmin.StoredMessage{{Subject: events.EventSubject(t, kind), Data: e.Encode()}})
}

// signsOfLife are the states of a run, as its signs of life say them; the last ones are not all lawful.
var signsOfLife = [][]artifacts.RunStatus{
	{artifacts.RunRunning, artifacts.RunRunning, artifacts.RunCompleted},
	{artifacts.RunQueued, artifacts.RunRunning},
	{artifacts.RunRunning, artifacts.RunFailed, artifacts.RunRunning},
	{artifacts.RunCompleted},
}

// signs publishes signs of life of the run N, which others may have begun.
func (c *call) signs(ctx context.Context, t events.Thread) error {
	producer := fmt.Sprintf("%s-%s%d", c.proc.name, c.op.Do, c.index)
	for i, state := range signsOfLife[c.op.Kind%len(signsOfLife)] {
		op := events.Control{Op: events.OpRun, Run: &events.Run{ID: fmt.Sprintf("r%d", c.op.N), State: string(state), Lease: 60_000}}
		if err := c.say(ctx, producer, uint64(i+1), t, events.KindControl, op.Encode()); err != nil {
			return err
		}
		_ = sleep(ctx, 50)
	}
	return nil
}

// strays publishes an output, and pieces that are none of it: one under another thread's name, and one behind a gap. Kind 3 and 4: the
// thread ends before the output does, and nobody ends that.
func (c *call) strays(ctx context.Context, t events.Thread) error {
	id, good := fmt.Sprintf("s%d", c.index), fmt.Sprintf("%s-%s%d", c.proc.name, c.op.Do, c.index)
	other := threadOf(c.op.Session, c.op.To)
	n, strays := uint64(0), uint64(0)
	for i, piece := range []events.Chunk{
		{Op: events.ChunkStart, Start: events.OutputStart{Tool: "sh", Lease: 1000}}, {Op: events.ChunkData, Seq: 1},
		{Op: events.ChunkData, Seq: 2}, {Op: events.ChunkData, Seq: 9}, // no pieces of it
		{Op: events.ChunkData, Seq: 2}, {Op: events.ChunkEnd, Seq: 3},
	} {
		piece.Output = id
		if piece.Op == events.ChunkData {
			piece.Stream, piece.Data = events.Stdout, []byte("text")
		}
		producer, seq, of := good, &n, t
		if i == 2 && c.op.Kind >= 3 {
			op := events.Control{Op: events.OpEnd, End: &events.End{Summary: "done"}}
			return c.say(ctx, good, n+1, t, events.KindControl, op.Encode())
		}
		if i == 2 || i == 3 {
			producer, seq = c.proc.name+stray+fmt.Sprint(c.index), &strays
		}
		if i == 2 {
			if of = other; other == t {
				continue
			}
		}
		*seq++
		if err := c.say(ctx, producer, *seq, of, events.KindChunk, piece.Encode()); err != nil {
			return err
		}
	}
	return nil
}

const stray = "-stray"

func strays(e *events.Event) bool { return strings.Contains(e.Producer, stray) }

// lastSign is what is known of a run.
type lastSign struct {
	thread string
	state  artifacts.RunStatus
}

// still reports whether no thread left its name, and no session was deleted: the model does not follow where else a run is then.
func (m *model) still() bool { return len(m.lefts)+len(m.past)+len(m.deletes) == 0 }

// sign is a sign of life of a run. It is applied if it follows from those before it.
func (m *model) sign(e *events.Event, r *events.Run, t *life, at uint64, letter bool, reason string) {
	id := e.Thread.Session + " " + r.ID
	was, known := m.runs[id]
	state := artifacts.RunStatus(r.State)
	lawful := known && was.thread == e.Thread.Name && was.state.CanBecome(state) || !known && !state.Ended() && (t == nil || !t.ended)
	switch {
	case m.unfit(at, reason):
	case latched.MatchString(reason), m.still() && letter == lawful:
		m.fail("the sign of life at %d of %s, %s of the run %s, after %q of %q: dead letter %t %s", at, e.Thread, state, r.ID, was.state,
			was.thread, letter, reason)
	}
	if letter {
		m.refused(e, t)
		return
	}
	m.runs[id] = lastSign{e.Thread.Name, state}
	m.note(m.begin(e, t))
}

// question is the prompt that an entry asks.
func question(e *events.Event) (p events.Prompt, asks bool) {
	item, err := events.ParseItem(e.Body)
	if err != nil || e.Kind != events.KindEntry || item.Type != events.TypePendingPrompt {
		return p, false
	}
	return events.ParsePrompt(item)
}

// follows reports whether a thread began with what another one had, or under another name: what those asked is not known.
func (t *life) follows() bool { return t.moved || t.forked || t.foreign }

// asksAnother reports whether an entry asks under an id under which its thread asks something else, or may.
func (m *model) asksAnother(e *events.Event, t *life) bool {
	p, asks := question(e)
	return asks && (t.follows() || t.asked[p.ID] != "" && t.asked[p.ID] != p.Text)
}

// signs checks that the records of runs say what their signs of life said.
func (j *judgement) signs(ctx context.Context, cl *client.Client) error {
	if !j.still() || j.p.wants(Crash) {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(j.runs)) {
		want := j.runs[id]
		session, name, _ := strings.Cut(id, " ")
		all, err := cl.Session(session).Runs(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(r client.RunInfo) bool { return r.ID == name })
		switch {
		case i < 0:
			j.fail("the run %s of %s is nowhere", name, session)
		case all[i].Thread.Name != want.thread, want.state.Ended() && all[i].State != want.state:
			j.fail("the run %s of %s is %s in %s, and was told to be %s in %s", name, session, all[i].State, all[i].Thread, want.state, want.thread)
		}
	}
	return nil
}
