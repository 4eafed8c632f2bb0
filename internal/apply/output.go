package apply

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/dialect"
	"spool/pkg/events"
	"spool/pkg/sessions"
	"spool/pkg/threads"
	"spool/pkg/truncate/output"
)

// MaxOutputs is how many outputs a commit changes at most, four records each at worst: its base holds what is shown of
// an output and less than a part, and they are all in one atomic batch.
const MaxOutputs = 60

// OutputChange is what an event does to an output. One of the three is set; Output.Take makes it so.
type OutputChange struct {
	Begins *record.Output
	Piece  *Piece
	Ends   *OutputEnd
}

// Piece is the next piece of an open output.
type Piece struct {
	record.Piece               // without secrets, and behind what was held before it
	Seq          uint64        // of the piece
	Touched      int64         // time of the last event
	Held         []record.Held // what of its stream, and of the other, waits for the next piece
	came         int           // bytes of it
}

// OutputEnd is an output that ended with what arrived.
type OutputEnd struct {
	After    *Output           // how it stands then
	Artifact *artifacts.Record // of one that was cut, is large or was to be kept
	Live     []byte            // what live subscribers have not got yet
	End      events.LiveEnd
}

// chunk applies a piece of a tool's streaming output (SPEC O). All that is known of the output afterwards goes into its
// record with the same commit, so that whoever applies the next piece goes on at the exact byte (SPEC O7):
//
//	start ─▶ open ── data ──▶ open ── end, or an abort that saw all data ──▶ removed: an item, and the artifact's record
//
// What an output's text is depends on its events and their order alone, never on batches or clocks. That is why two
// persisters that both think they own it make the same parts of its artifact, and neither can spoil the other's.
func (d *draft) chunk(ctx context.Context) (Verdict, error) {
	o, piece := d.st.Output, &d.e.Chunk
	if o == nil { // the next commit's reads it
		return Verdict{}, ErrNextCommit
	}
	if o.Bad != nil {
		return Verdict{}, o.Bad
	}
	if d.Head.Status == threads.StatusCompleted && piece.Op != events.ChunkAbort {
		return Verdict{}, fmt.Errorf("%w: %s: begin the output in another thread", ErrEnded, d.st.Key)
	}
	if piece.Op == events.ChunkStart {
		return Verdict{}, d.openOutput(o)
	}
	due, err := o.due(d.st.Key, piece)
	if err == nil && !due && d.Head.Start.IsZero() { // its thread is removed: an abort does not begin another one
		err = o.elsewhere(d.st.Key, piece)
	}
	switch {
	case err != nil:
		return Verdict{}, err
	case !due:
		d.note(d.Head)
		return Verdict{Is: Repeated}, nil
	case d.st.Opened && o.mustWait(piece):
		return Verdict{}, ErrNextCommit
	case piece.Op == events.ChunkData:
		d.note(d.Head)
		of, held, found := mask(d.st.Rules.Secrets, o.Rec.Held, record.Piece{Stream: piece.Stream, Bytes: piece.Data}, false)
		d.Output = &OutputChange{Piece: &Piece{of, piece.Seq, max(o.Rec.Touched, d.e.when()), held, len(piece.Data)}}
		d.Counts.OutputBytes, d.Counts.Secrets = int64(len(piece.Data)), int64(found)
		return Verdict{}, nil
	}
	return Verdict{}, d.closeOutput(ctx, o)
}

// mask takes the secrets out of the next piece of a stream, or out of what is held of it if it is the last.
func mask(secrets Secrets, held []record.Held, piece record.Piece, last bool) (record.Piece, []record.Held, int) {
	i := slices.IndexFunc(held, func(h record.Held) bool { return h.Stream == piece.Stream })
	var h record.Held
	if i >= 0 {
		h = held[i]
		held = slices.Delete(slices.Clone(held), i, i+1) // a prepared commit has the old ones
	}
	if secrets == nil { // no more
		return record.Piece{Stream: piece.Stream, Bytes: slices.Concat(h.Bytes, piece.Bytes)}, held, 0
	}
	out, context, rest, found := secrets.Piece(h.Context, h.Bytes, piece.Bytes, last)
	if len(context)+len(rest) > 0 {
		held = append(slices.Clip(held), record.Held{Stream: piece.Stream, Context: context, Bytes: rest})
	}
	return record.Piece{Stream: piece.Stream, Bytes: out}, held, found
}

// due reports whether a piece is the next one. It is not when it came before, perhaps from another producer.
func (o *Output) due(t events.Thread, p *events.Chunk) (bool, error) {
	next := o.Rec.Seq + 1
	if p.Op == events.ChunkAbort && (!o.Open || p.Seq != next) {
		return false, nil
	}
	if err := o.elsewhere(t, p); err != nil {
		return false, err
	}
	switch {
	case p.Op != events.ChunkAbort && p.Attempt != o.Rec.Start.Attempt:
		return false, fmt.Errorf("%w %s: piece %d is of another attempt than the one that began it: "+
			"send all of it under an id of its own", ErrOutput, p.Output, p.Seq)
	case p.Seq > next:
		return false, fmt.Errorf("%w %s: piece %d after %d: publish those between first", ErrOutput, p.Output, p.Seq, o.Rec.Seq)
	}
	return p.Seq == next, nil
}

// elsewhere says why a thread has no open output to which a piece can belong; nil: it has.
func (o *Output) elsewhere(t events.Thread, p *events.Chunk) error {
	switch {
	case !o.Open && o.Removed:
		return fmt.Errorf("%w %s has ended, was closed as aborted after its lease, or went with its thread: begin another one, "+
			"with an id of its own",
			ErrOutput, p.Output)
	case !o.Open:
		return fmt.Errorf("%w %s is not open: publish its start first", ErrOutput, p.Output)
	case o.Rec.Thread != t.Name:
		return fmt.Errorf("%w %s belongs to the thread %s", ErrOutput, p.Output, o.Rec.Thread)
	}
	return nil
}

// mustWait reports whether a piece could make a part of the artifact in the very commit that opens the output. Parts
// are uploaded before their commit; no collector may take one for waste, so a record must have named them before.
func (o *Output) mustWait(p *events.Chunk) bool {
	const grows = 3 // bytes at most for a byte that is no UTF-8
	if p.Op == events.ChunkData {
		return grows*(o.taken+len(p.Data)) >= record.PartSize // what is held is in what was taken
	}
	least := min(cmp.Or(o.Rec.Start.Show, output.DefaultThreshold)/2, o.large.Least()-1)
	return o.taken > 0 && (grows*o.taken > least || o.Rec.Start.Columns > 0 || o.Rec.Start.Keep)
}

func (d *draft) openOutput(o *Output) error {
	if o.Open || o.Removed {
		return fmt.Errorf("%w %s was begun before: an output needs an id of its own", ErrOutput, d.e.Chunk.Output)
	}
	d.note(d.Head)
	d.start(itemDialect, nil)
	d.seeAgent(d.e.Chunk.Start.Agent)
	d.learn(&dialect.Entry{})
	d.timestamp(0)
	sum := OutputIdentity(&d.e.Event, d.e.Chunk.Output)
	d.Output = &OutputChange{Begins: &record.Output{
		ID: d.e.Chunk.Output, Thread: d.st.Key.Name, User: d.e.User, Claimed: d.e.Claimed, Start: d.e.Chunk.Start,
		Begun: d.e.when(), Touched: d.e.when(),
		Artifact: artifacts.NewID(time.UnixMilli(d.e.when()), [10]byte(sum[:10])), NUID: hex.EncodeToString(sum[10:]),
	}}
	return nil
}

// OutputIdentity names what a start event begins: the same for whoever applies it, and never again. Its first ten bytes
// are in the id of the output's artifact.
func OutputIdentity(e *events.Event, output string) [sha256.Size]byte {
	b := fmt.Appendf(nil, "%s\x00%s\x00%s\x00", e.Thread, output, e.Producer)
	return sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, e.Epoch), e.Seq))
}

// closeOutput ends an output with what arrived: a result in its thread and, when it was cut, an artifact. Where the
// thread has ended, its result stands behind the end: what was acked is not dropped (SPEC O8). A result that is refused
// leaves the output open as it was.
func (d *draft) closeOutput(ctx context.Context, o *Output) error {
	if d.st.CounterBad != nil {
		return d.st.CounterBad
	}
	lang, ok := dialect.Lookup(itemDialect)
	if !ok {
		return fmt.Errorf("%w: this version has no dialect %q", ErrOutput, itemDialect)
	}
	after, sum, live, found := o.closed(d.st.Rules.Secrets)
	d.Counts.Secrets = int64(found)
	end := &OutputEnd{After: after, Live: live, End: events.LiveEnd{Aborted: d.e.Chunk.Op == events.ChunkAbort}}
	d.Output, d.Counts.Outputs = &OutputChange{Ends: end}, 1
	if sum.ArtifactID != "" {
		run, err := d.ownRun(ctx, after.Rec.Start.Run)
		if err != nil {
			return err
		}
		end.Artifact = d.wholeOutput(after, sum, run, max(d.e.when(), o.Rec.Touched))
		end.End.Artifact = string(end.Artifact.ID)
		d.e.pointer = pointer(end.Artifact)
	}
	d.e.Text = o.result(&d.e.Chunk, sum, end.Artifact)
	was := d.Head
	if err := d.step(ctx, addition{dialect: lang, operation: true}); err != nil {
		return err
	}
	d.endCommand()
	if was.Status == threads.StatusCompleted {
		d.stayEnded(&was)
	}
	end.End.Item, end.End.Node = d.Head.N, d.Head.Head().Ref.String()
	if end.Artifact != nil {
		end.Artifact.Node = end.End.Node
	}
	return nil
}

// endCommand says how a command ended that is nobody's answer: in a session in which no user asked for anything, nothing is
// to come behind its result. Where somebody asked, the agent is to answer.
func (d *draft) endCommand() {
	info := &d.st.Session.Info
	if d.Info != nil {
		info = d.Info
	}
	if d.e.Chunk.Op != events.ChunkEnd || d.st.Key.Name != events.MainThread || d.Head.Dialect != itemDialect || info.Prompt != "" {
		return
	}
	d.Head.Standing = uint8(sessions.StatusComplete)
	if d.e.Chunk.End.IsError {
		d.Head.Standing = uint8(sessions.StatusError)
	}
}

// stayEnded leaves a thread that has a step behind its end as the end left it: completed, then and so.
func (d *draft) stayEnded(was *threads.Head) {
	d.Head.Status, d.Head.Failure, d.Head.Standing = was.Status, was.Failure, was.Standing
	d.Head.Updated, d.Head.Claimed = was.Updated, was.Claimed
}
