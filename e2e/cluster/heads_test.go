package cluster_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"spool/internal/natsio"
	"spool/internal/record"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// id tells the values of a head apart: the commit that wrote it. The zero value is "there is none".
type id [16]byte

// headOp is something that a client did to one head, as it saw it.
type headOp struct {
	key       string
	call, ret time.Duration // since the beginning
	do        do
	old, new  id   // of a move: from, to; of a read: old is what it saw
	open      bool // a move without an answer: it took place or not, at any time since
	refused   bool // open, and the answer was that it did not take place
}

func (op headOp) String() string {
	return fmt.Sprintf("%v to %v: %s of %s: %x to %x, open %v, refused %v", op.call, op.ret, op.do, op.key, op.old, op.new,
		op.open, op.refused)
}

type do string

const (
	made do = "made" // by the persister, before anybody else knew of it
	read do = "read"
	move do = "move"
)

// register is a head as it must be, seen from outside: one value, which a move replaces if it is the expected one, and a read tells.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		at, parts := map[string]int{}, [][]porcupine.Operation(nil)
		for _, op := range history {
			key := op.Input.(headOp).key
			i, ok := at[key]
			if !ok {
				i = len(parts)
				at[key], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
	Init: func() any { return id{} },
	Step: func(state, input, _ any) (bool, any) {
		now, op := state.(id), input.(headOp)
		switch {
		case op.do == read:
			return now == op.old, now
		case now == op.old:
			return true, op.new
		}
		return op.open, now // one without an answer may have been refused
	},
	DescribeOperation: func(input, _ any) string { return input.(headOp).String() },
}

// operations are a history as the checker takes it. What has no answer may take place until the end.
func operations(history []headOp) (ops []porcupine.Operation) {
	for _, op := range history {
		ret := int64(op.ret)
		if op.open {
			ret = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{Input: op, Call: int64(op.call), Return: ret})
	}
	return ops
}

// settle leaves out the open moves whose value nobody has seen: if they took place at all, they were the last. Of the others it
// counts those that had been refused: while two servers believe to lead, a request reaches both, and the refusal of the one that
// does not may come first.
func settle(history []headOp) (rest []headOp, denied int) {
	type value struct {
		key string
		id  id
	}
	seen := map[value]bool{}
	for _, op := range history {
		seen[value{op.key, op.old}] = true
	}
	for _, op := range history {
		if op.open && !seen[value{op.key, op.new}] {
			continue
		}
		if op.refused {
			denied++
		}
		rest = append(rest, op)
	}
	return rest, denied
}

// stale splits reads off that saw a value which was certainly replaced before they began, and says how long before at most. A server
// that was cut off, or stopped, goes on to answer reads for a while before it learns that another one leads.
func stale(history []headOp) (rest []headOp, reads int, oldest time.Duration) {
	type value struct {
		key string
		id  id
	}
	sure := map[value]time.Duration{} // when it had certainly been written
	learn := func(v value, at time.Duration) bool {
		if was, ok := sure[v]; ok && was <= at {
			return false
		}
		sure[v] = at
		return true
	}
	for _, op := range history {
		if op.do != move || !op.open {
			learn(value{op.key, op.old}, op.ret)
		}
		if op.do != read && !op.open {
			learn(value{op.key, op.new}, op.ret)
		}
	}
	replaced := map[value]time.Duration{}
	for again := true; again; { // what was written behind a value shows that it was written
		again = false
		for _, op := range history {
			at, ok := sure[value{op.key, op.new}]
			if op.do == read || !ok {
				continue
			}
			v := value{op.key, op.old}
			again = learn(v, at) || again
			if was, ok := replaced[v]; !ok || at < was {
				replaced[v] = at
			}
		}
	}
	for _, op := range history {
		if at, ok := replaced[value{op.key, op.old}]; ok && op.do == read && at < op.call {
			reads, oldest = reads+1, max(oldest, op.call-at)
			continue
		}
		rest = append(rest, op)
	}
	return rest, reads, oldest
}

// recorder moves heads of threads as persisters do, reading and committing, and writes down what it saw. The threads are real and
// nobody else appends to them; their heads keep what they refer to, so that collectors and fsck find nothing to say.
type recorder struct {
	t     testing.TB
	begun time.Time
	next  atomic.Uint64 // number of the last value that was made up
	moves atomic.Int64  // that took place

	mu      sync.Mutex
	history []headOp
	keys    map[string]*keyState
	current []string
}

// keyState bounds what is asked of one key: the checker's work grows with the operations that have no answer.
type keyState struct{ ops, open int }

const (
	opsOfKey  = 300
	openOfKey = 12
	keysInUse = 3
)

func newRecorder(t testing.TB) *recorder {
	return &recorder{t: t, begun: time.Now(), keys: map[string]*keyState{}}
}

func (r *recorder) now() time.Duration { return time.Since(r.begun) }

// refill makes threads until enough are in use. It goes on until ctx ends. Several may do it, under different names.
func (r *recorder) refill(ctx context.Context, name string, c *client.Client, conn *natsio.Conn) error {
	for n := 1; ctx.Err() == nil; {
		r.mu.Lock()
		enough := len(r.current) >= keysInUse
		r.mu.Unlock()
		if enough {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		th := events.Thread{Session: fmt.Sprintf("head-%s-%d", name, n), Name: events.MainThread}
		pub := c.Publisher(client.PublisherConfig{Producer: th.Session})
		if _, err := pub.Publish(ctx, client.Entry{Thread: th, Dialect: "item",
			Body: []byte(`{"content":[{"type":"text","text":"a head to move"}]}`), Seq: 1}); err != nil {
			return ended(ctx, err)
		}
		n++
		if err := settled(ctx, func() error { return c.Thread(th).Await(ctx, th.Session, 0, 1) }); err != nil {
			return ended(ctx, fmt.Errorf("%s: %w", th, err))
		}
		key, call := events.HeadKey(th), r.now()
		var rs []record.Record
		if err := settled(ctx, func() (err error) { rs, err = conn.Records().Records(ctx, key); return err }); err != nil {
			return ended(ctx, err)
		}
		head, err := threads.DecodeHead(rs[0].Value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		r.note(headOp{key: key, do: made, call: call, ret: r.now(), new: head.Batch})
		r.mu.Lock()
		r.current = append(r.current, key)
		r.mu.Unlock()
	}
	return nil
}

// note writes an operation down and retires a key that has had enough.
func (r *recorder) note(op headOp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, op)
	s := r.keys[op.key]
	if s == nil {
		s = &keyState{}
		r.keys[op.key] = s
	}
	s.ops++
	if op.open && !op.refused {
		s.open++
	}
	if s.ops < opsOfKey && s.open < openOfKey || len(r.current) < 2 { // the last one stays until there is another
		return
	}
	for i, key := range r.current {
		if key == op.key {
			r.current = append(r.current[:i:i], r.current[i+1:]...)
			return
		}
	}
}

// pick is a key in use; "" when there is none just now.
func (r *recorder) pick(n int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.current) == 0 {
		return ""
	}
	return r.current[n%len(r.current)]
}

// run is one client: it reads a head and moves it, again and again, behind the fence of a lane.
func (r *recorder) run(ctx context.Context, conn *natsio.Conn, lane int) error {
	for n := lane; ctx.Err() == nil; n++ {
		wait(ctx, 60*time.Millisecond)
		key := r.pick(n)
		if key == "" {
			continue
		}
		if err := r.once(ctx, conn, lane, key); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (r *recorder) once(ctx context.Context, conn *natsio.Conn, lane int, key string) error {
	fence, err := conn.Records().Fence(ctx, lane)
	if err != nil {
		return r.pass(ctx, err)
	}
	op := headOp{key: key, do: read, call: r.now()}
	rs, err := conn.Records().Records(ctx, key)
	if err != nil {
		return r.pass(ctx, err)
	}
	op.ret = r.now()
	var head threads.Head
	if rs[0].Exists() {
		if head, err = threads.DecodeHead(rs[0].Value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	op.old = head.Batch
	r.note(op)
	if !rs[0].Exists() {
		return nil
	}
	binary.BigEndian.PutUint64(head.Batch[:8], 0x6865616473) // none that a persister draws
	binary.BigEndian.PutUint64(head.Batch[8:], r.next.Add(1))
	op.do, op.new, op.call = move, head.Batch, r.now()
	_, err = conn.Records().Commit(ctx, fence, []record.Put{{Key: key, Value: head.Encode(), Expect: rs[0].Seq}})
	op.ret = r.now()
	switch {
	case err == nil:
		r.moves.Add(1)
		r.note(op)
	default:
		op.open, op.refused = true, !errors.Is(err, record.ErrUnknown) && ctx.Err() == nil
		r.note(op)
		return r.pass(ctx, err)
	}
	return nil
}

// pass lets errors by that a fault may cause.
func (r *recorder) pass(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil, errors.Is(err, record.ErrConflict):
		return nil
	case record.Temporary(err):
		wait(ctx, 100*time.Millisecond)
		return nil
	}
	return err
}

// verdict is what became of all heads together.
type verdict struct {
	ops, open, keys int
	undecided       int // keys for which the checker found no answer in its time
	stale           int // reads
	denied          int // moves that were refused and took place
	oldest          time.Duration
	bad             []string // operations that no order explains
}

// judge holds the history against the register.
func (r *recorder) judge() (v verdict, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge(r.history)
}

// checkTime is how long the checker may think about a key.
const checkTime = 20 * time.Second

func judge(history []headOp) (v verdict, err error) {
	v.ops = len(history)
	for _, op := range history {
		if op.open && !op.refused {
			v.open++
		}
	}
	rest, denied := settle(history)
	v.denied = denied
	rest, v.stale, v.oldest = stale(rest)
	var errs []error
	for _, part := range register.Partition(operations(rest)) {
		v.keys++
		switch porcupine.CheckOperationsTimeout(register, part, checkTime) {
		case porcupine.Illegal:
			for _, op := range part {
				v.bad = append(v.bad, op.Input.(headOp).String())
			}
			errs = append(errs, fmt.Errorf("%s: %d operations that no order explains", part[0].Input.(headOp).key, len(part)))
		case porcupine.Unknown:
			v.undecided++
		}
	}
	return v, errors.Join(errs...)
}

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ended is no error when it came of the end.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// settled repeats what fails only because of a fault.
func settled(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil || !record.Temporary(err) {
			return err
		}
		wait(ctx, 100*time.Millisecond)
	}
}

// porcupineAccepts is the checker alone.
func porcupineAccepts(history []headOp) bool {
	return porcupine.CheckOperations(register, operations(history))
}
