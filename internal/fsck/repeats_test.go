package fsck_test

import (
	"context"
	"fmt"
	"testing"

	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/record"
	"spool/pkg/events"
)

// counted counts which threads' events are read by themselves.
type counted struct {
	fsck.Store
	reads *int
}

func (c counted) ThreadEvents(ctx context.Context, t events.Thread) ([]record.StoredEvent, error) {
	*c.reads++
	return c.Store.ThreadEvents(ctx, t)
}

// What producers sent again, as they all do when the server is slow, makes fsck read no thread by itself.
func TestRepeatsCostNoReads(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		e := entryOf(events.Thread{Session: fmt.Sprint("s", i), Name: "main"}, "p", 1, 0, "one")
		w.raw(e)
		w.raw(e)
	}
	w.settle()
	reads := 0
	rep := must.Get(fsck.Check(t.Context(), counted{natsadmin.Of(w.conn), &reads}, fsck.Config{}))(w)
	if len(rep.Findings) > 0 || reads > 0 {
		t.Errorf("findings %v, %d threads read by themselves; want none", rep.Findings, reads)
	}
}
