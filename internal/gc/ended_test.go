package gc_test

import (
	"fmt"
	"testing"
	"time"

	"spool/internal/fsck"
	"spool/internal/gc"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
)

// traces are the sequences of all records of outputs, removed ones too.
func (r *rig) traces() (seqs []uint64) {
	r.t.Helper()
	for _, filter := range []string{events.OutputKeys(""), events.OutputBaseKey("*", "*")} {
		for _, key := range must.Get(r.conn.Records().Keys(r.t.Context(), filter))(r.t) {
			seqs = append(seqs, must.Get(r.conn.Records().Records(r.t.Context(), key))(r.t)[0].Seq)
		}
	}
	return seqs
}

// shown is what whoever follows an output from its beginning gets, and how it ends.
func (r *rig) shown(t events.Thread, id string) (text string, end *events.LiveEnd) {
	r.t.Helper()
	for f := range must.All(r.t, r.Thread(t).Follow(r.t.Context(), id)) {
		text, end = text+string(f.Text), f.End
	}
	return text, end
}

func (r *rig) output(t events.Thread, id string, text string) *client.Output {
	r.t.Helper()
	o := must.Get(r.Thread(t).Output(r.t.Context(), client.OutputConfig{ID: id, Tool: "make"}))(r.t)
	must.Get(o.Write([]byte(text)))(r.t)
	must.Do(r.t, o.Begun(r.t.Context()))
	return o
}

// TestEndedOutputsAreForgotten: what ended before any open output leaves nothing in the bucket of records. Who follows it still gets all
// of it; what is open goes on.
func TestEndedOutputsAreForgotten(t *testing.T) {
	r, th := newRig(t), th("s")
	stop := r.persister(4)
	end := func(o *client.Output) {
		must.Do(t, o.Close(client.OutputEnd{}))
		must.Get(o.Result(t.Context()))(t)
	}
	for i := range 3 {
		end(r.output(th, fmt.Sprint("early", i), "said early\n"))
	}
	open := r.output(th, "open", "one\n")
	end(r.output(th, "late", "said late\n"))
	if n := len(r.traces()); n < 5 {
		t.Fatalf("%d records of outputs, want one of each at least", n)
	}
	cfg := brave()
	cfg.Ended = time.Hour
	if p, d := r.collect(cfg); len(p.Ended.Seqs) != 0 || d.Forgotten != 0 {
		t.Errorf("plan %+v forgets outputs that ended just now", p.Ended)
	}
	cfg.Ended = 0
	p, _ := r.collect(cfg)
	must.Same(t, len(p.Ended.Seqs), 3, "%d are forgotten, want %d")
	must.Same(t, len(r.traces()), 2, "%d records of outputs are left, want %d: of what is open, and of what ended behind it")
	if text, end := r.shown(th, "early1"); text != "said early\n" || end == nil || end.Item == 0 {
		t.Errorf("who follows early1 gets %q, %+v", text, end)
	}
	must.Get(open.Write([]byte("two\n")))(t)
	end(open)
	if text, _ := r.shown(th, "open"); text != "one\ntwo\n" {
		t.Errorf("the open one has %q", text)
	}
	r.collect(cfg)
	must.Same(t, len(r.traces()), 0, "%d records of outputs are left, want %d")
	if p := must.Get(r.collector(brave(), nil).Plan(t.Context()))(t); len(p.Brakes) > 0 || len(p.Ended.Seqs) > 0 {
		t.Errorf("the next plan has %+v, %+v", p.Brakes, p.Ended)
	}
	stop() // it may remember that the id is taken
	stop = r.persister(4)
	end(r.output(th, "early1", "again\n"))
	stop()
	report, err := fsck.Check(t.Context(), natsadmin.Of(r.conn), fsck.Config{})
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("fsck: %v, %v", report.Findings, err)
	}
}

// TestOutputThatAServerBringsBack: the record of an output that has ended is no open output, where it is among those that were forgotten:
// nobody ends it once more, nobody waits for it, and the next cycle removes it.
func TestOutputThatAServerBringsBack(t *testing.T) {
	r, th := newRig(t), th("s")
	stop := r.persister(4)
	r.output(th, "ghost", "x\n")
	stop()
	seq := r.traces()[0]
	must.Same(t, len(must.Get(r.conn.Outputs().SilentOutputs(t.Context(), 0))(t)), 1, "%d silent outputs, want %d")
	must.Get(r.conn.Records().Write(t.Context(), record.Put{Key: events.EndedKey, Value: record.EncodeEnded(seq), Expect: record.Any}))(t)
	must.Same(t, len(must.Get(r.conn.Outputs().SilentOutputs(t.Context(), 0))(t)), 0, "%d silent outputs, want %d")
	cfg := brave()
	cfg.Ended = time.Hour
	p, _ := r.collect(cfg)
	if len(p.Ended.Seqs) != 1 || p.Ended.UpTo != seq || len(r.traces()) != 0 {
		t.Errorf("plan %+v, left %v, want %d forgotten", p.Ended, r.traces(), seq)
	}
}

// TestCrashBetweenSayingAndForgetting: a cycle that died is gone on with.
func TestCrashBetweenSayingAndForgetting(t *testing.T) {
	r, th := newRig(t), th("s")
	defer r.persister(4)()
	o := r.output(th, "o", "x\n")
	must.Do(t, o.Close(client.OutputEnd{}))
	must.Get(o.Result(t.Context()))(t)
	for _, dies := range []gc.Step{gc.StepForget, gc.StepUnmark} {
		c := r.collector(brave(), func(s gc.Step) error {
			if s == dies {
				return errKilled
			}
			return nil
		})
		p := must.Get(c.Plan(t.Context()))(t)
		_, err := c.Apply(t.Context(), p)
		must.Is(t, err, errKilled, "Apply")
	}
	must.Same(t, len(r.traces()), 1, "%d records of outputs are left, want %d")
	r.collect(brave())
	must.Same(t, len(r.traces()), 0, "%d records of outputs are left, want %d")
}
