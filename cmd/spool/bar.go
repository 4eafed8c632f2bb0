package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"spool/internal/service"
)

// bar shows progress on a terminal, and nothing elsewhere.
type bar struct {
	w     io.Writer
	what  string
	bytes bool // what is counted
	bar   *progressbar.ProgressBar
}

func newBar(w io.Writer, what string, bytes bool) *bar {
	if service.IsTerminal(w) {
		return &bar{w: w, what: what, bytes: bytes}
	}
	return &bar{}
}

// set shows that so much of all is done, with a note beside it.
func (b *bar) set(done, all int64, note string) {
	if b.w == nil {
		return
	}
	all = max(all, 1)
	if b.bar == nil {
		b.bar = progressbar.NewOptions64(all, progressbar.OptionSetWriter(b.w), progressbar.OptionShowBytes(b.bytes),
			progressbar.OptionSetDescription(b.what), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	b.bar.ChangeMax64(all)
	b.bar.Describe(b.what + " " + note)
	_ = b.bar.Set64(done)
}

func (b *bar) end() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}

// bars are the bars of work that has several steps, one after the other.
type bars struct {
	w  io.Writer
	at *bar
}

func newBars(w io.Writer) *bars { return &bars{w: w, at: &bar{}} }

// set shows that so much of a step is done. Another step than the last one ends that.
func (b *bars) set(step string, done, all int64) {
	if b.at.what != step {
		b.at.end()
		b.at = newBar(b.w, step, false)
		b.at.what = step
	}
	b.at.set(min(done, all), all, "")
}

func (b *bars) end() { b.at.end() }
