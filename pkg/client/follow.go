package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"spool/internal/jsonscan"
	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate/output"
)

// Frame is a piece of an output, sanitized. Frames follow each other without a gap; a character may be cut between two.
type Frame struct {
	Offset int64 // bytes of the output before this frame
	Text   []byte
	// Missed is how many bytes before this frame are not kept anywhere: the output lost its artifact, and its result says why.
	Missed int64
	// End is set in the last frame: the item with the result supersedes the output (SPEC O6).
	End *events.LiveEnd
}

// OpenOutput is an output that has not ended.
type OpenOutput struct {
	events.Thread
	ID          string
	Tool        string
	Invocation  string    // id that its call and its result share
	User        string    // whose item its result will be
	Begun, Last time.Time // of its first and its newest chunk
	Bytes       int64     // of sanitized text
	Unreadable  bool      // its record is none that a persister writes: all but its session and its ID is unknown
	Tail        int64     // what it printed from this byte on is at hand; what was before is in the artifact's parts
}

// Outputs lists the open outputs.
func (s SessionHandle) Outputs(ctx context.Context) ([]OpenOutput, error) {
	rs, err := s.c.records.List(ctx, events.OutputKeys(s.ID))
	if err != nil {
		return nil, err
	}
	open := make([]OpenOutput, 0, len(rs))
	for _, r := range rs {
		in, id, _ := events.ParseOutputKey(r.Key)
		o, err := record.DecodeOutput(r.Value)
		if err != nil { // nobody knows of which thread it is
			open = append(open, OpenOutput{Thread: events.Thread{Session: in}, ID: id, Unreadable: true})
			continue
		}
		open = append(open, OpenOutput{
			Thread: events.Thread{Session: in, Name: o.Thread}, ID: o.ID, Tool: o.Start.Tool, Invocation: cmp.Or(o.Start.Invocation, o.ID),
			User:  o.User,
			Begun: time.UnixMilli(o.Begun), Last: time.UnixMilli(o.Touched), Bytes: o.Total,
			Tail: int64(o.Parts.Count) * record.PartSize,
		})
	}
	return open, nil
}

// silence is after how long without a frame a follower looks at what is stored: its last frame may have been lost.
const silence = 3 * time.Second

// Follow gives an output from its first byte to its end, live, and never leaves one out (SPEC O6): frames that were missed,
// also all those before Follow was called, are made from the output's record and its artifact, or from its result once it
// has ended. An output that is not there yet is waited for. It ends after the frame with End.
func (t ThreadHandle) Follow(ctx context.Context, id string) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		f := &follower{c: t.c, thread: t.Thread, id: id, yield: yield}
		if err := errors.Join(t.Validate(), events.CheckToken("output", id)); err != nil {
			yield(Frame{}, err)
			return
		}
		for live, err := range t.c.live.Follow(ctx, t.Thread, id, silence) {
			if err == nil {
				err = f.take(ctx, live)
			}
			if err != nil && !f.done && ctx.Err() == nil {
				yield(Frame{}, err)
			}
			if err != nil || f.done {
				return
			}
		}
	}
}

// follower is one Follow.
type follower struct {
	c      *Client
	thread events.Thread
	id     string
	yield  func(Frame, error) bool
	done   bool

	at    int64  // bytes given
	part  int    // parts of the artifact that were read
	next  uint64 // stream sequence of the next
	found bool   // it was open once
	asked bool   // its thread, whether it has ended: that is forgotten after a while
}

// give yields the part of a piece that was not given yet.
func (f *follower) give(offset int64, text []byte, end *events.LiveEnd) {
	frame := Frame{Offset: f.at, End: end}
	if offset > f.at {
		frame.Missed, frame.Offset = offset-f.at, offset
	}
	if skip := f.at - offset; skip < int64(len(text)) {
		frame.Text = text[max(skip, 0):]
	}
	if f.done || len(frame.Text) == 0 && end == nil && frame.Missed == 0 {
		return
	}
	f.at = frame.Offset + int64(len(frame.Text))
	f.done = !f.yield(frame, nil) || end != nil
}

// take takes a live frame; nil stands for frames that may have been missed.
func (f *follower) take(ctx context.Context, live *events.Live) error {
	if live == nil || live.Offset > f.at {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
	}
	if live != nil && !f.done {
		f.give(live.Offset, []byte(live.Text), live.End)
	}
	return nil
}

func (f *follower) catchUp(ctx context.Context) error {
	o, base, there, ended, err := f.read(ctx)
	switch {
	case err != nil:
		return err
	case there:
		f.found = true
	case f.found || ended:
		return f.result(ctx, true)
	case !f.asked:
		f.asked = true
		return f.result(ctx, false)
	}
	if o.Total <= f.at {
		return nil
	}
	whole, rest, err := stored(o, base)
	if err != nil {
		return err
	}
	if rest != nil {
		if err := f.parts(ctx, o); err != nil {
			return err
		}
		f.give(int64(o.Parts.Count)*record.PartSize, rest.Bytes(), nil)
	}
	f.give(0, whole, nil)
	f.give(o.Total, nil, nil)
	return nil
}

// read reads the records of an output, as they were at one moment; there: it is open.
func (f *follower) read(ctx context.Context) (o record.Output, base record.OutputBase, there, ended bool, err error) {
	for {
		rs, err := f.c.records.Records(ctx, events.OutputKey(f.thread.Session, f.id), events.OutputBaseKey(f.thread.Session, f.id))
		if err != nil {
			return o, base, false, false, err
		}
		if !rs[0].Exists() {
			return o, base, false, rs[0].Removed(), nil
		}
		if o, err = record.DecodeOutput(rs[0].Value); err != nil {
			return o, base, true, false, err
		}
		if o.Base == 0 {
			return o, record.OutputBase{}, true, false, nil
		}
		if rs[1].Exists() {
			if base, err = record.DecodeOutputBase(rs[1].Value); err != nil || base.Seq == o.Base {
				return o, base, true, false, err
			}
		}
		// Both are written in one batch, which came between the two readings.
	}
}

// rest is the artifact of an open output behind its parts.
type rest struct{ bytes.Buffer }

func (*rest) Commit() (string, error) { return "", nil }
func (*rest) Abort()                  {}

// stored is the text of an open output that its records hold: all of it while nothing was cut, else what follows the parts of
// its artifact, if it has one.
func stored(o record.Output, base record.OutputBase) (whole []byte, behind *rest, err error) {
	begin := func() (output.Artifact, error) {
		behind = new(rest)
		return behind, nil
	}
	s := o.Start
	cfg := output.Config{Threshold: s.Show, Head: s.Head, Columns: s.Columns, Keep: s.Keep, Artifact: begin}
	sink := output.NewSink(cfg)
	switch {
	case base.Seq > 0 && len(base.Sum) > 0:
		behind = new(rest)
		behind.Write(base.Part)
		sink, err = output.Resume(cfg, base.Sink, behind)
	case base.Seq > 0:
		sink, err = output.Resume(cfg, base.Sink, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, p := range o.Pieces {
		if p.Stream == events.Stderr {
			sink.WriteErr(p.Bytes)
		} else {
			sink.Write(p.Bytes)
		}
	}
	whole, _ = sink.Whole()
	return whole, behind, nil
}

// giveNothing ends an output that has ended, and of which nothing is left.
func (f *follower) giveNothing(ended bool) {
	if ended {
		f.give(f.at, nil, &events.LiveEnd{})
	}
}

// parts gives what is in the parts of an unfinished artifact.
func (f *follower) parts(ctx context.Context, o record.Output) error {
	if f.at >= int64(o.Parts.Count)*record.PartSize {
		f.part, f.next = o.Parts.Count, o.Parts.Last+1
	}
	f.next = cmp.Or(f.next, o.Parts.First)
	for f.part < o.Parts.Count && !f.done {
		_, next, err := f.c.live.ReadParts(ctx, o.NUID, f.next, min(o.Parts.Count-f.part, 8), func(b []byte) error {
			f.give(int64(f.part)*record.PartSize, b, nil)
			f.part++
			return nil
		})
		if err != nil {
			return err
		}
		if next <= f.next {
			return fmt.Errorf("part %d of output %s: %w", f.part+1, f.id, record.ErrNotFound)
		}
		f.next = next
	}
	return nil
}

// result gives the rest of an output that has ended, from its artifact or its result. Of one that is not known to have ended it gives
// nothing where there is neither.
func (f *follower) result(ctx context.Context, ended bool) error {
	head, err := f.c.Thread(f.thread).Head(ctx)
	for range mostRenames { // its outputs went with it
		var was *Renamed
		if !errors.As(err, &was) {
			break
		}
		head, err = f.c.Thread(was.To).Head(ctx)
	}
	if errors.Is(err, threads.ErrNoThread) {
		f.giveNothing(ended)
		return nil
	}
	if err != nil {
		return err
	}
	step, err := f.c.reader.Find(ctx, head, func(st threads.State) bool {
		return st.Entry.ID == f.id && st.Entry.Type == events.TypeToolResult
	})
	if errors.Is(err, threads.ErrNoStep) { // an earlier version wrote none in a thread that had ended
		f.giveNothing(ended)
		return nil
	}
	if err != nil {
		return err
	}
	content, err := step.ReadContent(ctx)
	if err != nil {
		return err
	}
	metadata := jsonscan.Get(content.Text, "metadata")
	end := &events.LiveEnd{Item: step.State.Entry.First, Node: step.At.Ref.String()}
	end.Artifact, _ = jsonscan.Text(jsonscan.Get(metadata, "artifact", "artifact_id"))
	end.Aborted = jsonscan.Get(metadata, "output", "aborted") != nil
	total, _ := jsonscan.Int(jsonscan.Get(metadata, "output", "total_bytes"))
	shown, _ := jsonscan.Text(jsonscan.Get(metadata, "tool", "output"))
	switch {
	case f.at < total && end.Artifact != "":
		if err := f.artifact(ctx, artifacts.ID(end.Artifact)); err != nil {
			return err
		}
	case int64(len(shown)) == total:
		f.give(0, []byte(shown), nil)
	}
	f.give(total, nil, end)
	return nil
}

// artifact gives the rest of a finished artifact.
func (f *follower) artifact(ctx context.Context, id artifacts.ID) error {
	r, err := f.c.Artifacts().Record(ctx, id)
	if errors.Is(err, artifacts.ErrNotFound) { // deleted since
		return nil
	}
	if err != nil {
		return err
	}
	body, _, err := f.c.Artifacts().Open(ctx, r)
	if err != nil {
		return err
	}
	defer body.Close()
	if s, ok := body.(io.Seeker); ok {
		if _, err := s.Seek(f.at, io.SeekStart); err != nil {
			return err
		}
	}
	buf := make([]byte, record.PartSize)
	for !f.done {
		n, err := io.ReadFull(body, buf)
		f.give(f.at, append([]byte(nil), buf[:n]...), nil)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
