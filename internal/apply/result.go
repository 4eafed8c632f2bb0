package apply

import (
	"cmp"
	"slices"

	"spool/internal/project"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// maxCommitResults is how many artifacts of large results go into a commit; an entry by itself has fewer.
const maxCommitResults = 100

// MayAttach reports whether an event could have a large result, and so take a number of its session's artifacts.
func (r *Rules) MayAttach(kind events.Kind, text []byte) bool {
	return r.Results && kind == events.KindEntry && len(text) >= r.Artifacts.Least()
}

// MayNumber reports whether an event could change the counter of its session's artifacts and agents; begins
// says that its thread is not there yet.
func (r *Rules) MayNumber(e *Staged, begins bool) bool {
	if begins && record.NamesAgent(e.Thread.Name) {
		return true
	}
	switch e.Kind {
	case events.KindChunk:
		return e.Chunk.Op != events.ChunkData && (e.Chunk.Op != events.ChunkStart || record.NamesAgent(e.Chunk.Start.Agent))
	case events.KindControl:
	default:
		return r.MayAttach(e.Kind, e.Text)
	}
	op, err := events.ParseControl(e.Body)
	switch {
	case err != nil:
		return false
	case op.Op == events.OpStart:
		return record.NamesAgent(op.Start.Name)
	case op.Op == events.OpRename:
		return record.NamesAgent(op.Rename.To)
	case op.Op == events.OpRun:
		return record.NamesAgent(op.Run.Agent)
	}
	return op.Op == events.OpFork && op.Fork.Session != e.Thread.Session
}

// seeAgent makes the indices of the session's agents go on above that of one which comes with its id: a thread, a run, a workflow or an
// output of it, by whatever door (SPEC A9).
func (d *draft) seeAgent(id string) {
	if d.st.Counter == nil || d.st.CounterBad != nil || !record.NamesAgent(id) { // what an event left is made again, or nobody can know
		return
	}
	next := d.counter()
	next.SeeAgent(id)
	if !slices.Equal(next.Agents, d.counter().Agents) {
		d.Counter = &next
	}
}

// counter is the session's counter as the event leaves it so far.
func (d *draft) counter() record.Counter {
	if d.Counter != nil {
		return d.Counter.Clone()
	}
	return d.st.Counter.Clone()
}

// results finds the large results of an entry (SPEC A4), with their text as it was before the size rules cut it, where
// that is in memory: the stored entry of a giant is its source too (SPEC T9).
func (d *draft) results(lang dialect.Dialect, before dialect.Memory, e *dialect.Entry) ([]project.Result, error) {
	if !d.st.Rules.MayAttach(d.e.Kind, d.e.Text) {
		return nil, nil
	}
	large := project.Results(e.Items, d.st.Rules.Artifacts)
	if len(large) == 0 {
		return nil, nil
	}
	if d.st.CounterBad != nil {
		return nil, d.st.CounterBad
	}
	if here := d.st.Batch.Results; here > 0 && here+len(large) > maxCommitResults {
		return nil, ErrNextCommit
	}
	if d.e.Cuts.Full == nil {
		return large, nil
	}
	m := before // so that it is in memory of its own only where there are results
	whole, err := read(lang, d.e.Cuts.Full, &m)
	if err != nil || len(whole.Items) != len(e.Items) {
		return large, nil // the rules made another entry of it: the text is what its item is made of
	}
	texts := map[int]string{}
	for _, r := range project.Results(whole.Items, d.st.Rules.Artifacts) {
		texts[r.Index] = r.Text
	}
	for i := range large {
		if text := texts[large[i].Index]; text != "" {
			large[i].Text = text
		}
	}
	return large, nil
}

// attach gives large results their records, each with the next number of the session (SPEC A1). A session of omp has
// its numbers from omp, which goes on counting without us: there they have none, and an import takes nobody's number.
func (d *draft) attach(lang dialect.Dialect, stamp project.Stamp, large []project.Result) {
	for _, r := range large {
		id := stamp.ResultID(r)
		seq, filename := artifacts.Seq(""), string(id)+".log"
		if lang.Name() != ompDialect {
			seq = d.number()
			filename = artifacts.ToolFile(seq, "")
		}
		a := Result{Text: r.Text, Record: artifacts.Record{
			ID: id, Session: stamp.Thread.Session, Seq: seq,
			Created: cmp.Or(d.e.stored(), stamp.Time, d.e.Now.UnixMilli()), // ages go by it
			Node:    stamp.Node.String(), ToolCall: r.Call,
			Filename: filename, MIME: artifacts.ResultMIME, Size: int64(len(r.Text)), Summary: r.Summary,
			Category: artifacts.Normal, Writer: artifacts.FromResult,
		}}
		a.Object = a.ObjectName()
		d.Results = append(d.Results, a)
	}
}

// number takes the next number of the session's artifacts.
func (d *draft) number() artifacts.Seq {
	next := d.counter()
	d.Counter = &next
	return d.Counter.Take()
}
