package persist

import (
	"cmp"
	"slices"
	"sync"
)

// An ack of a partition's consumer covers all before it (AckAll), and sessions overtake each other. So of each
// partition it is known what came, in order, and what of that is through: the ack goes to the last one up to which all
// is.

// windows are those of the partitions.
type windows struct {
	mu sync.Mutex
	of map[int]*window
}

// window is what came of a partition in a term, over a connection, and is not acknowledged.
type window struct {
	partition  int
	term, link uint64

	mu    sync.Mutex
	came  []*delivery // by their sequences, from the first one on that is not through
	last  uint64      // the sequence of the last one
	acked uint64      // the highest sequence that was acknowledged
	floor *delivery   // up to it all are through; nil: none is
	fresh []delivery  // memory for the next ones
}

// delivery is a message of a window.
type delivery struct {
	*window
	seq     uint64
	ack     func() error
	again   bool // it was through before
	through bool // all of its events are
	deletes bool // it is to delete its session; stage 3 only
}

// current reports whether a message came in the latest term of its partition.
func (w *windows) current(d *delivery) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of[d.partition] == d.window
}

// open notes a message that came. nil: it is in its window, and on its way.
func (w *windows) open(m *Message) *delivery {
	w.mu.Lock()
	of := w.of[m.Partition]
	if of == nil || of.term != m.Term || of.link != m.Link {
		of = &window{partition: m.Partition, term: m.Term, link: m.Link}
		w.of[m.Partition] = of
	}
	w.mu.Unlock()
	return of.open(m)
}

func (w *window) open(m *Message) *delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fresh) == 0 {
		w.fresh = make([]delivery, 64)
	}
	d := &w.fresh[0]
	w.fresh = w.fresh[1:]
	*d = delivery{window: w, seq: m.Seq, ack: m.Ack}
	if m.Seq > w.last {
		w.came, w.last = append(w.came, d), m.Seq
		return d
	}
	i, open := slices.BinarySearchFunc(w.came, m.Seq, func(d *delivery, seq uint64) int {
		return cmp.Compare(d.seq, seq)
	})
	if open {
		w.came[i].ack = m.Ack
		return nil
	}
	// Its ack was lost, or was one of an earlier time than the one before it, and did not count.
	if d.again = true; w.floor != nil && w.floor.seq == m.Seq {
		w.floor.ack = m.Ack
	}
	return d
}

// first reports whether all of the partition before a message are through.
func (d *delivery) first() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.again || len(d.came) > 0 && d.came[0] == d
}

// end says that a message is through. With it others may be, up to the one that is returned; nil: nothing new is to be
// acknowledged.
func (d *delivery) end() *delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.again {
		return d.floor
	}
	d.through = true
	n := 0
	for ; n < len(d.came) && d.came[n].through; n++ {
		d.floor = d.came[n]
		d.came[n] = nil
	}
	d.came = d.came[n:]
	if n == 0 {
		return nil
	}
	return d.floor
}

// acknowledge says to the server that a message is through, and those before it. The ack is that of the last time that it came,
// which may be now, while this one waits for the next commits.
func (d *delivery) acknowledge() error {
	d.mu.Lock()
	ack := d.ack
	d.mu.Unlock()
	err := ack()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = max(d.acked, d.seq) // one that failed is not sent again: it comes over another connection
	return err
}

// done is the sequence up to which all of the partition is through.
func (d *delivery) done() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.floor == nil {
		return 0
	}
	return d.floor.seq
}

// done is the sequence up to which all of a partition is through that came in its term.
func (w *windows) done(partition int) uint64 {
	w.mu.Lock()
	of := w.of[partition]
	w.mu.Unlock()
	if of == nil {
		return 0
	}
	return (&delivery{window: of}).done()
}

// settled reports whether all that came of a partition in its term is through and acknowledged.
func (w *windows) settled(partition int) bool {
	w.mu.Lock()
	of := w.of[partition]
	w.mu.Unlock()
	if of == nil {
		return true
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return len(of.came) == 0 && of.acked == of.last
}

// close ends a partition's term.
func (w *windows) close(partition int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, partition)
}
