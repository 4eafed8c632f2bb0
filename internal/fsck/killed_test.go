package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"spool/internal/faulttest"
	"spool/internal/fsck"
	"spool/internal/must"
	"spool/internal/natsadmin"
	"spool/internal/natstest"
	"spool/internal/record"
	"spool/internal/redact"
	"spool/internal/service"
	"spool/pkg/client"
	"spool/pkg/events"
)

// dying is a writer of a repair that ends before its last write, or one before that.
type dying struct {
	fsck.Writer
	left *int // writes
}

var errKilled = errors.New("killed")

func (d dying) write() error {
	if *d.left--; *d.left < 0 {
		return errKilled
	}
	return nil
}

func (d dying) Commit(ctx context.Context, f record.Fence, puts []record.Put) (uint64, error) {
	if err := d.write(); err != nil {
		return 0, err
	}
	return d.Writer.Commit(ctx, f, puts)
}

func (d dying) PublishEvents(ctx context.Context, evs []*events.Event) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Writer.PublishEvents(ctx, evs)
}

func (d dying) PublishItems(ctx context.Context, items []events.Posted) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.Writer.PublishItems(ctx, items)
}

func (d dying) DropItems(ctx context.Context, t events.Thread, above int64) (int, error) {
	if err := d.write(); err != nil {
		return 0, err
	}
	return d.Writer.DropItems(ctx, t, above)
}

// A repair that is killed before any of its writes is made up for by the next one.
func TestRepairThatIsKilled(t *testing.T) {
	id := events.Thread{Session: "s", Name: "main"}
	head := func(w *world) { w.loseHead(id) }
	for name, c := range map[string]struct {
		before bool // another thread had the name before
		lose   func(w *world)
	}{
		"a head of a later life": {true, func(w *world) { head(w); w.dropItems(id, func(n int64) bool { return n > 9 }) }},
		"a head and its session": {false, func(w *world) {
			head(w)
			w.put(events.SessionKey(id.Session), nil)
			w.dropItems(id, func(n int64) bool { return n > 9 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for writes, through := 0, false; !through; writes++ {
				t.Run(fmt.Sprint(writes), func(t *testing.T) {
					conn := natstest.Conn(t)
					w := &world{T: t, conn: conn, cl: client.New(conn)}
					masking := service.PersisterConfig{Secrets: redact.New(redact.Default(), true)}
					w.startWith(masking)
					if c.before {
						p := w.cl.Publisher(client.PublisherConfig{Producer: "former"})
						must.Do(w, p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step", Body: []byte(`{"id":"f","role":"coder","content":"f"}`), Seq: 1}))
						must.Do(w, w.cl.Await(w.Context(), id, "former", 0, 1))
						must.Do(w, w.cl.ForceRemove(w.Context(), id))
					}
					p := w.cl.Publisher(client.PublisherConfig{Producer: "agent.main"})
					for i := range 12 {
						body := fmt.Appendf(nil, `{"id":"main%d","role":"coder","content":"step %d: %s","timestamp":%d}`, i+1, i+1, leaked, 1795176000000+int64(i))
						must.Do(w, p.Publish(w.Context(), client.Entry{Thread: id, Dialect: "step", Body: body, Seq: uint64(i + 1)}))
						must.Do(w, w.cl.Await(w.Context(), id, "agent.main", 0, uint64(i+1)))
					}
					must.Do(w, faulttest.Settle(w.Context(), w.conn))
					want := must.Get(w.cl.Thread(w.Context(), id))(w)
					w.stop()
					c.lose(w)
					store, left := natsadmin.Of(w.conn), writes
					_, err := fsck.Fix(w.Context(), store, dying{store, &left}, w.conn.Store(0), fsck.Config{})
					if through = left >= 0; err != nil && !errors.Is(err, errKilled) {
						t.Fatal(err)
					}
					if !through {
						w.fix(id, fsck.Config{})
					}
					w.startWith(masking)
					must.Do(w, faulttest.Settle(w.Context(), w.conn))
					w.stop()
					got := must.Get(client.New(w.conn).Thread(w.Context(), id))(w)
					if got.Entries != want.Entries || got.N != want.N {
						t.Errorf("%d entries, %d items, want %d, %d", got.Entries, got.N, want.Entries, want.N)
					}
					w.wantClean()
				})
			}
		})
	}
}
