package client_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"spool/pkg/client"
	"spool/pkg/events"
)

// listing are the calls of a session's handle that, of the empty id, are those of all sessions; ofHeads are those of a thread's that read
// the head that they are given.
var (
	listing = []string{"Threads", "HeadsSince", "Artifacts", "Prompts", "Runs", "RunEnds", "Outputs", "DeadLetters"}
	ofHeads = []string{"ItemsFrom", "ItemsBack"}
)

// TestHandlesOfNothing calls what handles of empty names have with empty arguments: each is refused, and nothing panics.
func TestHandlesOfNothing(t *testing.T) {
	r := newRig(t)
	for _, handle := range []any{r.Thread(events.Thread{}), r.Session("")} {
		typ := reflect.TypeOf(handle)
		for m := range typ.Methods() {
			given := ofHeads
			if typ == reflect.TypeFor[client.SessionHandle]() {
				given = listing
			}
			if slices.Contains(given, m.Name) {
				continue
			}
			if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() { // of the name itself
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := called(ctx, reflect.ValueOf(handle), m); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s.%s of an empty name = %v, want a refusal", typ.Name(), m.Name, err)
			}
			cancel()
		}
	}
}

// called is the first error of a method with a context and empty arguments.
func called(ctx context.Context, handle reflect.Value, m reflect.Method) error {
	args := []reflect.Value{handle, reflect.ValueOf(ctx)}
	for i := 2; i < m.Type.NumIn() && (i < m.Type.NumIn()-1 || !m.Type.IsVariadic()); i++ {
		args = append(args, reflect.Zero(m.Type.In(i)))
	}
	for _, got := range m.Func.Call(args) {
		if got.Kind() == reflect.Func { // a sequence
			for _, err := range got.Seq2() {
				got = err
				break
			}
		}
		if got.IsValid() && got.Type().Implements(reflect.TypeFor[error]()) && !got.IsNil() {
			return got.Interface().(error)
		}
	}
	return nil
}

// TestClientIsSmall keeps the first thing that a user reads to what one can hold in one's head: what is of a thread, a session or an
// artifact is a method of its handle.
func TestClientIsSmall(t *testing.T) {
	if n := reflect.TypeFor[*client.Client]().NumMethod(); n > 26 {
		t.Errorf("Client has %d methods, want 26 at most", n)
	}
}
