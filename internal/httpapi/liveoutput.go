package httpapi

import (
	"context"
	"math"
	"slices"
	"unicode/utf8"

	"spool/internal/jsonscan"
	"spool/internal/runes"
	"spool/internal/view"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// openOut is what of a thread is open.
type openOut struct {
	Session string        `json:"session"`
	Thread  string        `json:"thread"`
	N       int64         `json:"n"`
	State   string        `json:"state"`
	Head    string        `json:"head"`
	Outputs []view.Output `json:"outputs"`
}

func (f *follower) openJSON(head threads.Head, open []client.OpenOutput) openOut {
	out := openOut{
		Session: f.thread.Session, Thread: f.thread.Name, N: f.had.n, State: head.Status.String(), Head: head.Head().Ref.String(),
		Outputs: make([]view.Output, len(open)),
	}
	for i, o := range open {
		out.Outputs[i] = view.OfOutput(o, max(f.at[o.ID], 0))
	}
	return out
}

// begins is where an output of a user begins for the reader, who does without those of its own.
func (f *follower) begins(user string) int64 {
	if f.spared != "" && user == f.spared {
		return -1
	}
	return 0
}

// begun is where an output begins for the reader that began since.
func (f *follower) begun(ctx context.Context, output string) (at int64, err error) {
	if f.spared == "" {
		return 0, nil
	}
	cl := f.api.cfg.Client
	open, err := cl.Thread(f.thread).Outputs(ctx)
	if err != nil {
		return 0, err
	}
	if i := slices.IndexFunc(open, func(o client.OpenOutput) bool { return o.ID == output }); i >= 0 {
		return f.begins(open[i].User), nil
	}
	for frame, err := range cl.Thread(f.thread).OutputFrom(ctx, output, math.MaxInt64) { // it has ended: its result says whose it was
		if err != nil || frame.End == nil || frame.End.Item == 0 {
			return 0, err
		}
		head, err := cl.Thread(f.thread).Head(ctx)
		if err != nil {
			return 0, f.gone(err)
		}
		for item, err := range cl.Thread(f.thread).ItemsFrom(ctx, head, frame.End.Item) {
			if err != nil && !lost(err) {
				return 0, err
			}
			user, _ := jsonscan.Text(jsonscan.Get(item.Data, "user_id"))
			return f.begins(user), nil
		}
	}
	return 0, nil
}

func (f *follower) live(ctx context.Context, m *moment) (err error) {
	at, known := f.at[m.output]
	if !known {
		if at, err = f.begun(ctx, m.output); err != nil {
			return err
		}
		f.at[m.output] = at
	}
	if at < 0 {
		return nil
	}
	if m.frame.Offset > at && m.frame.Missed == 0 {
		if err := f.output(ctx, m.output, m.frame.Offset); err != nil {
			return err
		}
	}
	frame := m.frame
	if frame.End == nil { // what is left of a character comes again with the rest of it, from what is stored
		frame.Text = frame.Text[:runes.Whole(frame.Text)]
	}
	return f.frame(m.output, frame)
}

// atRune is the first byte of an output, from one on, that begins a character.
func (f *follower) atRune(ctx context.Context, output string, at int64) (int64, error) {
	for frame, err := range f.api.cfg.Client.Thread(f.thread).OutputFrom(ctx, output, at) {
		if err != nil {
			return 0, err
		}
		at = frame.Offset
		for len(frame.Text) > 0 && !utf8.RuneStart(frame.Text[0]) {
			at, frame.Text = at+1, frame.Text[1:]
		}
		if len(frame.Text) > 0 {
			break
		}
	}
	return at, nil
}

// output gives what is stored of an output and the reader does not have, up to a byte, -1 for all.
func (f *follower) output(ctx context.Context, output string, to int64) error {
	var torn []byte // of a character
	for frame, err := range f.api.cfg.Client.Thread(f.thread).OutputFrom(ctx, output, f.at[output]) {
		if err != nil {
			return err
		}
		if to >= 0 && frame.Offset >= to {
			break
		}
		if len(torn) > 0 && frame.Missed == 0 {
			frame.Offset, frame.Text = frame.Offset-int64(len(torn)), append(torn, frame.Text...)
			torn = nil
		}
		if whole := runes.Whole(frame.Text); frame.End == nil && whole < len(frame.Text) {
			torn = append([]byte(nil), frame.Text[whole:]...)
			frame.Text = frame.Text[:whole]
		}
		if err := f.frame(output, frame); err != nil {
			return err
		}
		if f.at[output] < 0 {
			break
		}
	}
	return nil
}

// liveOut is what an output prints.
type liveOut struct {
	Output string `json:"output"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
	// Missed bytes before the text are kept nowhere.
	Missed int64           `json:"missed,omitempty"`
	End    *events.LiveEnd `json:"end,omitempty"`
}

// frame gives the part of a frame that the reader does not have.
func (f *follower) frame(output string, frame client.Frame) error {
	at := f.at[output]
	out := liveOut{Output: output, Offset: at, Missed: frame.Missed, End: frame.End}
	if frame.Offset > at {
		out.Offset, out.Missed = frame.Offset, frame.Offset-at
	}
	if skip := out.Offset - frame.Offset; skip < int64(len(frame.Text)) {
		out.Text = string(frame.Text[skip:])
	}
	if out.Text == "" && out.End == nil && out.Missed == 0 {
		return nil
	}
	f.at[output] = out.Offset + int64(len(out.Text))
	if out.End != nil {
		f.at[output] = -1
		f.forget()
	}
	return f.out.send(eventLive, f.cursor(), encode(out))
}

// mostEnded is how many outputs that have ended a reader remembers.
const mostEnded = 1024

func (f *follower) forget() {
	if len(f.at) < mostEnded {
		return
	}
	for output, at := range f.at {
		if at < 0 {
			delete(f.at, output)
		}
	}
}
