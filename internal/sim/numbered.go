package sim

import (
	"context"
	"fmt"

	"spool/internal/natsadmin"
	"spool/internal/natsio"
	"spool/pkg/events"
	"spool/pkg/threads"
)

// numbered publishes entries whose sequences it is told, as an agent without this library does.
type numbered struct {
	*call
	conn     *natsio.Conn
	thread   events.Thread
	producer string
	sent     []natsadmin.StoredMessage // all of them
}

// numbered publishes the first ones, and waits for a while.
func (c *call) numbered(ctx context.Context, first ...uint64) (*numbered, error) {
	conn, err := c.proc.connect()
	if err != nil {
		return nil, err
	}
	n := &numbered{call: c, conn: conn, thread: threadOf(c.op.Session, c.op.Thread),
		producer: fmt.Sprintf("%s-%s%d", c.proc.name, c.op.Do, c.index)}
	if err := n.put(ctx, true, first...); err != nil {
		return nil, err
	}
	return n, sleep(ctx, c.op.N)
}

// put publishes an entry for each sequence, in messages of their own or together.
func (n *numbered) put(ctx context.Context, split bool, seqs ...uint64) error {
	return n.putBehind(ctx, 0, split, seqs...)
}

// putBehind has the first one linked to another one.
func (n *numbered) putBehind(ctx context.Context, prev uint64, split bool, seqs ...uint64) error {
	var ws []*Wrote
	from := len(n.sent)
	var e events.Event
	for i, seq := range seqs {
		w := n.write(n.thread, n.producer, true)
		ws = append(ws, w)
		if one := body(w.Mark, n.op.Size, 0); i == 0 || split {
			e = events.Event{Producer: n.producer, Seq: seq, Kind: events.KindEntry, Dialect: "item", Thread: n.thread, Body: one}
		} else {
			e.More = append(e.More, events.Entry{Seq: seq, Body: one})
		}
		if i == 0 {
			e.Prev = prev
		}
		if split || i == len(seqs)-1 {
			n.sent = append(n.sent, natsadmin.StoredMessage{Subject: events.EventSubject(n.thread, e.Kind), Data: e.Encode()})
		}
	}
	err := n.again(ctx, from)
	if err == nil && n.op.Again {
		err = n.again(ctx, from)
	}
	if err == nil {
		n.tell(Acked, ws...)
	}
	return err
}

// title publishes an operation that gives the session a title, under a sequence.
func (n *numbered) title(ctx context.Context, seq uint64, title string) error {
	op := events.Control{Op: events.OpName, Name: &events.Name{Title: title}}
	e := events.Event{Producer: n.producer, Seq: seq, Kind: events.KindControl, Thread: n.thread, Body: op.Encode()}
	n.sent = append(n.sent, natsadmin.StoredMessage{Subject: events.EventSubject(n.thread, e.Kind), Data: e.Encode()})
	return n.again(ctx, len(n.sent)-1)
}

// again publishes what was published, from one entry on, as whoever got no answer does.
func (n *numbered) again(ctx context.Context, from int) error {
	return natsadmin.New(n.conn).PutMessages(ctx, n.sent[from:])
}

// skip leaves out sequences, and later gives them to entries behind the others. Kind 5: more of them than a head knows. Odd: what was
// published first comes again. Kind 4: it leaves out none, and the last one is linked to the first.
func (c *call) skip(ctx context.Context) error {
	if c.op.Kind == 4 {
		n, err := c.numbered(ctx, 1)
		if err == nil {
			err = n.put(ctx, true, 2)
		}
		if err == nil {
			err = n.putBehind(ctx, 1, true, 3)
		}
		return err
	}
	first := []uint64{3, 8}
	for seq := uint64(10); c.op.Kind == 5 && len(first) < 2+threads.GapsOfProducer; seq += 2 {
		first = append(first, seq)
	}
	n, err := c.numbered(ctx, first...)
	if err != nil {
		return err
	}
	err = n.put(ctx, true, 5, 4, 7, first[len(first)-1]+1, 2)
	if err == nil && c.op.Kind%2 == 1 {
		err = n.again(ctx, 0)
	}
	return err
}

// deleteUnforced deletes a session in which nothing is live. Kind 2: some time later the same sequence is another deletion's.
func (c *call) deleteUnforced(ctx context.Context, t events.Thread) error {
	producer := fmt.Sprintf("%s-delete%d", c.proc.name, c.index)
	op := events.Control{Op: events.OpDelete, Delete: &events.Delete{}}
	err := c.say(ctx, producer, 1, t, events.KindControl, op.Encode())
	if err != nil || c.op.Kind == 1 {
		return err
	}
	if err := sleep(ctx, c.op.N); err != nil {
		return err
	}
	op.Delete.Force = true
	return c.say(ctx, producer, 1, t, events.KindControl, op.Encode())
}

// countAgain publishes entries, and later others from the first sequence on, as a second run of a program does. Kind 2 and 3: one
// more; 4 and 5: operations as well. Odd: what both published comes again.
func (c *call) countAgain(ctx context.Context) error {
	first, more := []uint64{1, 2}, []uint64{1, 2, 3}
	if c.op.Split { // in one message, of which one comes late
		first, more = []uint64{1, 3}, []uint64{1, 2, 3, 4}
	}
	n, err := c.numbered(ctx, first...)
	if err == nil {
		err = n.put(ctx, !c.op.Split, more[:len(more)-1+c.op.Kind/2%2]...)
	}
	if c.op.Kind >= 4 { // operations too: under the sequence of an entry, of none, of another one, of itself
		for i, title := range []string{"a", "b", "c", "b"} {
			if err == nil {
				err = n.title(ctx, []uint64{2, 4, 4, 4}[i], title)
			}
		}
	}
	if err == nil && c.op.Kind%2 == 1 {
		err = n.again(ctx, 0)
	}
	return err
}

// operateTwice removes or renames a thread as an agent without this library does, and as if its ack had been lost: some
// time later it sends the same again.
func (c *call) operateTwice(ctx context.Context, t events.Thread) error {
	conn, err := c.proc.connect()
	if err != nil {
		return err
	}
	op := events.Control{Op: events.OpRemove, Remove: &events.Remove{Force: c.op.Kind == 1}}
	if c.op.Do == Rename {
		op = events.Control{Op: events.OpRename, Rename: &events.Rename{To: threadNames[c.op.To%len(threadNames)]}}
	}
	e := events.Event{Producer: fmt.Sprintf("%s-op%d", c.proc.name, c.index), Seq: 1, Kind: events.KindControl, Thread: t,
		Body: op.Encode()}
	sent := []natsadmin.StoredMessage{{Subject: events.EventSubject(t, e.Kind), Data: e.Encode()}}
	if err := natsadmin.New(conn).PutMessages(ctx, sent); err != nil {
		return err
	}
	if err := sleep(ctx, c.op.N); err != nil {
		return err
	}
	return natsadmin.New(conn).PutMessages(ctx, sent)
}
