package project_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/project"
	"spool/pkg/casstore"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// one is the place of a state whose content is an item with so long a text, in a pack of a store.
func one(t *testing.T, store *casstore.Memory, id byte, size int) casstore.Located {
	t.Helper()
	b := casstore.NewPackBuilder()
	start := threads.Start{Name: "s"}.Node()
	content := threads.Content{Text: []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`)}.Node()
	h := threads.Head{Start: casstore.Located{Ref: b.AddNode(&start), Pack: casstore.PackID{id}}}
	st := h.Next("user")
	st.Content = b.AddNode(&content)
	st.Entry = threads.Record{Dialect: "item", Projection: "item/1", Index: 1, First: 1, Count: 1}
	n := st.Node()
	at := casstore.Located{Ref: b.AddNode(&n), Pack: casstore.PackID{id}}
	header, body := must.Two(b.Finish())(t)
	must.Do(t, store.PutPack(t.Context(), at.Pack, header, body))
	return at
}

// Of large entries a reader has so many bytes in memory: who comes then waits, and small ones, and another reader's, do not.
func TestFewLargeOnesAtATime(t *testing.T) {
	store, th := casstore.NewMemory(), events.Thread{Session: "s", Name: "main"}
	small, big := one(t, store, 1, 10), one(t, store, 2, 15<<20)
	reading, goOn, room := make(chan struct{}), make(chan struct{}), project.Room()
	step := func(at casstore.Located) threads.Step {
		return must.Get(threads.Reader{Packs: store, Hold: room, Read: func(_ casstore.Ref, n casstore.Node) error {
			if n.Type == threads.TypeContent && len(n.Payload) > 1<<20 {
				reading <- struct{}{}
				<-goOn
			}
			return nil
		}}.Step(t.Context(), at))(t)
	}
	ended := make(chan error)
	ask := func(ctx context.Context) {
		s := step(big)
		go func() {
			items, err := project.Items(ctx, th, s)
			if err == nil && len(items) != 1 {
				err = errors.New("no item")
			}
			ended <- err
		}()
	}
	const few = 4
	for range few {
		ask(t.Context())
		<-reading
	}
	if items, err := project.Items(t.Context(), th, step(small)); err != nil || len(items) != 1 {
		t.Errorf("a small one beside large ones = %d items, %v", len(items), err)
	}
	other := must.Get(threads.Reader{Packs: store, Hold: project.Room()}.Step(t.Context(), big))(t)
	if items, err := project.Items(t.Context(), th, other); err != nil || len(items) != 1 {
		t.Errorf("a large one of another reader = %d items, %v", len(items), err)
	}
	gone, cancel := context.WithCancel(t.Context())
	ask(gone)
	cancel()
	select {
	case <-reading:
		t.Errorf("%d large ones are read at a time, want %d", few+1, few)
		close(goOn)
		<-ended
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("one that waits, and whose caller goes away = %v", err)
		}
		close(goOn)
	}
	for range few {
		must.Do(t, <-ended)
	}
}
