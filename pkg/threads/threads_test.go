package threads_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"spool/internal/must"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store and a builder that writes a pack after every perPack entries.
type world struct {
	t       testing.TB
	store   *casstore.Memory
	packs   *counted
	perPack int
	room    threads.HeadRoom

	builder *casstore.PackBuilder
	id      casstore.PackID
	inPack  int
	number  uint64
}

// counted counts the packs read.
type counted struct {
	casstore.PackGetter
	reads int
}

func (c *counted) Pack(ctx context.Context, id casstore.PackID) (*casstore.Pack, error) {
	c.reads++
	return c.PackGetter.Pack(ctx, id)
}

func newWorld(t testing.TB, perPack int) *world {
	store := casstore.NewMemory()
	w := &world{t: t, store: store, packs: &counted{PackGetter: store}, perPack: perPack, builder: casstore.NewPackBuilder()}
	w.nextPack()
	return w
}

func (w *world) reader() threads.Reader { return threads.Reader{Packs: w.packs} }

func (w *world) nextPack() {
	w.number++
	binary.BigEndian.PutUint64(w.id[:], w.number)
	w.builder.Reset()
	w.inPack = 0
}

func (w *world) flush() {
	w.t.Helper()
	if w.builder.Len() == 0 {
		return
	}
	header, body := must.Two(w.builder.Finish())(w.t)
	must.Do(w.t, w.store.PutPack(context.Background(), w.id, header, body))
	w.nextPack()
}

func (w *world) begin() threads.Head {
	prompt := threads.Content{Text: []byte("the task")}.Node()
	start := threads.Start{Name: "demo", Hash: "H", MaxRounds: 10, Prompt: w.builder.AddNode(&prompt)}.Node()
	h := threads.Head{Start: casstore.Located{Ref: w.builder.AddNode(&start), Pack: w.id}}
	if w.perPack == 1 {
		w.flush()
	}
	return h
}

// add appends an entry with that many items to a thread.
func (w *world) add(h *threads.Head, role string, items int64) casstore.Located {
	content := threads.Content{Text: []byte("out-" + role)}.Node()
	for _, l := range h.Located() {
		if !w.builder.Has(l.Ref) {
			w.builder.Locate(l)
		}
	}
	s := h.Next(role)
	s.Content = w.builder.AddNode(&content)
	s.Timestamp = 1778308464000 + h.Entries
	h.Entries++
	s.Entry = threads.Record{ID: fmt.Sprint("src-", h.Entries), Index: h.Entries, First: h.N + 1, Count: items}
	h.N += items
	n := s.Node()
	at := casstore.Located{Ref: w.builder.AddNode(&n), Pack: w.id}
	h.Advance(at)
	h.Status = threads.StatusActive
	if w.inPack++; w.inPack >= w.perPack {
		w.flush()
	}
	return at
}

func roles(steps []threads.Step) (list []string) {
	for _, s := range steps {
		list = append(list, s.Role)
	}
	return list
}
