package natsio

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"spool/internal/sleep"
	"spool/pkg/events"
)

// hdrPinID tells a pinned client its pin.
const hdrPinID = "Nats-Pin-Id"

// feed sees to it that what a pinned consumer gives arrives without a gap.
//
// JetStream gives a new owner of a consumer what comes next, not what the old one was given and never acknowledged: that
// comes again when its ack is overdue, behind younger events. An event that is applied after a younger one of its thread
// would be taken for a duplicate. So deliveries are counted: when the consumer sequence jumps, or does not begin right
// above the ack floor, the consumer is reset to its ack floor and everything from there on comes again, in order. What was
// applied already is skipped. takeBack does so for deliveries that an owner who died left open.
//
// A reset numbers the deliveries anew, from 1. An ack of one from before it that arrives after it sets the floor to the old number,
// and until the new ones have grown above that the server takes every ack for an old one, and keeps no account of what it delivers:
// the same events come again after each ackWait, and acks of those do not raise the floor that it tells. So a feed does not acknowledge
// what came in an earlier term; and when something comes again while the floor is above what was delivered, or below what was
// acknowledged, a late ack did it, and the consumer is reset once more.
//
// Nobody does so with a consumer that is pinned to another process: who stood still has in hand what it was given before.
type feed struct {
	c      *Conn
	stream string
	name   string
	cons   jetstream.Consumer
	next   uint64 // consumer sequence of the next delivery; 0 = not known yet
	pin    string // our pin, as of the last delivery

	shown atomic.Pointer[string] // pin, for other goroutines

	mu      sync.Mutex
	busy    bool        // a delivery is being taken …
	lately  bool        // … or was since the last beat …
	beating bool        // … so that the pin is kept …
	slow    *time.Timer // … by this

	open uint64 // Delivery.Open of the next one

	term   atomic.Uint64        // of the next delivery
	acked  atomic.Pointer[Acks] // the last one
	looked time.Time            // when deaf was asked last
}

func newFeed(c *Conn, stream string, cons jetstream.Consumer) *feed {
	f := &feed{c: c, stream: stream, name: cons.CachedInfo().Name, cons: cons}
	f.slow = time.AfterFunc(pinBeat, f.stillBusy)
	f.slow.Stop()
	f.beginTerm()
	return f
}

// beginTerm ends a term: another process may be given, or may have been given, what comes before the next delivery.
func (f *feed) beginTerm() { f.term.Store(f.c.terms.Add(1)) }

// takeBack has the open deliveries come again, to whoever is pinned then. The acks of who was given them before are lost.
func (f *feed) takeBack(ctx context.Context) {
	f.reset(ctx)
	f.next = 0 // another process may be pinned, and be given them
}

// takeBackOrphans is takeBack when nobody is pinned.
func (f *feed) takeBackOrphans(ctx context.Context) {
	info, err := f.cons.Info(ctx)
	if err != nil || info.NumAckPending == 0 {
		return
	}
	for _, g := range info.PriorityGroups {
		if g.PinnedClientID != "" {
			return
		}
	}
	f.takeBack(ctx)
}

// unpin gives the partition away at once, if it is ours; else the next owner would wait for pinnedTTL.
func (f *feed) unpin() {
	if f.pin == "" && !f.c.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.c.timeout)
	defer cancel()
	// Asked this, the server forgets what it was asked for by those who are gone. Else, when an event comes before another owner
	// does, it pins one of them, and gives to nobody for pinnedTTL.
	info, err := f.cons.Info(ctx)
	if err != nil || f.lost(info) {
		return
	}
	f.acknowledged(ctx) // or the next owner could be given what is done; unheard: it is, and skips it
	for _, g := range info.PriorityGroups {
		if f.pin == "" || g.PinnedClientID != f.pin {
			continue
		}
		if s, err := f.c.js.Stream(ctx, f.stream); err == nil {
			_ = s.UnpinConsumer(ctx, f.name, g.Group)
		}
	}
}

// lost reports whether the consumer is pinned to another process by now.
func (f *feed) lost(info *jetstream.ConsumerInfo) bool {
	return f.pin != "" && slices.ContainsFunc(info.PriorityGroups, func(g jetstream.PriorityGroupState) bool {
		return g.PinnedClientID != "" && g.PinnedClientID != f.pin
	})
}

// isLost is lost, as the server says it now.
func (f *feed) isLost(ctx context.Context) bool {
	info, err := f.cons.Info(ctx)
	return err == nil && f.lost(info)
}

// Unpin frees a partition whose owner has died: the server would wait for it as long as its pin lasts, which is waited for where this fails.
func Unpin(ctx context.Context, es Events, partition int) {
	s, err := es.c.js.Stream(ctx, events.EventsStream)
	if err == nil {
		err = s.UnpinConsumer(ctx, events.PartitionConsumer(partition), events.PersisterGroup)
	}
	if err != nil {
		es.c.log.Debug("the pin of one who died is waited for", "partition", partition, "error", err)
	}
}

// keepPin keeps the pin that we have while the caller is busy and asks for nothing, until ctx ends.
func (f *feed) keepPin(ctx context.Context) {
	for range sleep.Every(ctx, pinBeat) {
		f.beat(events.ReadersGroup)
	}
}

// taking says that a delivery to a persister is being taken, until done is called. While there is no room for it, or as long as what was
// asked for is not taken, nothing is asked for, and the pin would go to another, or come anew: it is kept, from the first delivery on
// until none came for a beat.
func (f *feed) taking() (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy, f.lately = true, true
	if !f.beating {
		f.beating = true
		f.slow.Reset(pinBeat)
	}
	return f.taken
}

func (f *feed) taken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = false
}

func (f *feed) stillBusy() {
	f.mu.Lock()
	f.beating = f.busy || f.lately
	again := f.beating
	f.lately = false
	f.mu.Unlock()
	if again {
		f.beat(events.PersisterGroup)
		f.slow.Reset(pinBeat)
	}
}

// pinBeat is how often a pin is kept.
const pinBeat = pinnedTTL / 4

// beat keeps the pin: it asks for one message of one byte. The server learns that we live, and has none so small.
func (f *feed) beat(group string) {
	pin := f.shown.Load()
	if pin == nil || *pin == "" {
		return
	}
	body, err := json.Marshal(map[string]any{"batch": 1, "max_bytes": 1, "no_wait": true, "group": group, "id": *pin})
	if err == nil {
		subject := apiSubject(f.c.js, "CONSUMER.MSG.NEXT."+f.stream+"."+f.name)
		err = f.c.nc.PublishRequest(subject, f.c.nc.NewInbox(), body)
	}
	if err != nil { // the next one may get through
		f.c.log.Debug("keep a pin", "stream", f.stream, "consumer", f.name, "error", err)
	}
}

// inOrder reports whether a delivery is the next one. Otherwise it has the consumer reset, and the deliveries until its new
// first one are dropped.
func (f *feed) inOrder(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
	seq := meta.Sequence.Consumer
	if pin := pinOf(m); pin != "" && pin != f.pin { // headers that nats.go cannot read say nothing of it
		f.pin, f.next = pin, 0 // what came in between went to another process
		f.shown.Store(&pin)
		f.beginTerm()
	}
	if f.next == 0 {
		info, err := f.cons.Info(ctx)
		if err == nil && !f.lost(info) && !hidesOpen(info) {
			// What comes again may come in another order than it was published in: a message for which no request has room
			// goes behind the others that come again.
			if info.AckFloor.Consumer+1 == seq && meta.NumDelivered == 1 {
				f.next = seq
			} else {
				f.open = info.Delivered.Stream
			}
		}
	}
	// The first delivery after a reset, ours or another process's, is the one above the ack floor.
	if seq == f.next || seq == 1 {
		if meta.NumDelivered > 1 && f.deaf(ctx) {
			f.resetOurs(ctx)
			return false
		}
		if seq != f.next { // another process had the consumer reset
			f.beginTerm()
		}
		f.next = seq + 1
		return true
	}
	if f.next == 1 { // reset already: these are still on their way from before
		return false
	}
	f.resetOurs(ctx)
	return false
}

// resetOurs is reset, unless the consumer is lost: then what is in hand comes again, to another process.
func (f *feed) resetOurs(ctx context.Context) {
	if !f.isLost(ctx) {
		f.reset(ctx)
		return
	}
	f.beginTerm()
	f.next = 0
}

// hidesOpen reports whether deliveries are open below the ack floor. An ack from before a reset, by an owner that was stopped meanwhile,
// raises the floor to a number that now is another event's: that one was given to somebody, is not acknowledged, and would be by the
// next ack.
func hidesOpen(info *jetstream.ConsumerInfo) bool {
	return info.AckFloor.Consumer+uint64(info.NumAckPending) > info.Delivered.Consumer
}

// deaf reports whether the consumer is lost, or takes acks for old ones: its floor is above what it has delivered, or below what it was
// told. It is asked once a second.
func (f *feed) deaf(ctx context.Context) bool {
	if time.Since(f.looked) < time.Second {
		return false
	}
	f.looked = time.Now()
	if f.isLost(ctx) {
		return true
	}
	acked := f.acknowledged(ctx)
	info, err := f.cons.Info(ctx)
	return err == nil && (info.AckFloor.Consumer > info.Delivered.Consumer || info.AckFloor.Stream < acked)
}

// acknowledged is the sequence up to which the server has been told in this term that all is done, 0 = none, and has it take that: acks
// wait beside what it is asked. One that is not answered, as one of what was not delivered since a reset, is not waited for as long as that.
func (f *feed) acknowledged(ctx context.Context) uint64 {
	last := f.acked.Load()
	if last == nil || !last.current() {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, f.c.timeout/4)
	defer cancel()
	if _, err := f.c.nc.RequestWithContext(ctx, last.reply, ackBytes); err != nil {
		return 0
	}
	return last.Seq
}

func (f *feed) reset(ctx context.Context) {
	f.beginTerm()
	if _, err := f.c.js.ResetConsumer(ctx, f.stream, f.name); err != nil {
		f.c.log.Warn("reset a pinned consumer", "stream", f.stream, "consumer", f.name, "error", err)
		f.next = 0 // the next delivery tries again; at the latest when these come again, after ackWait
		return
	}
	f.c.log.Debug("pinned consumer starts again above its ack floor", "stream", f.stream, "consumer", f.name)
	f.next = 1
}
