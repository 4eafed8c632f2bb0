package persist

import (
	"context"

	"spool/internal/project"
	"spool/pkg/events"
)

// What is committed is told even where the store refuses a part of that for good: the part is found by trying less, and stops no other
// thread (SPEC P11). An item that is refused gives its number to a stub (SPEC P10); readers have the whole of it from its thread. A dead
// letter that is refused is cut to its least, and its bytes go to the inbox. What is refused even then is logged and counted.

// sendItems publishes items in order. After an attempt whose outcome is unknown, tried, it asks what is there. They come from the
// events of a commit; nil: from nodes that were committed before.
func (p *Persister) sendItems(ctx context.Context, of *commit, items []events.Posted, tried bool) error {
	err := p.retry(ctx, "items", func() (err error) {
		if tried {
			if items, err = p.unsent(ctx, of, items); err != nil {
				return err
			}
		}
		if tried = len(items) > 0; !tried {
			return nil
		}
		return p.Outbox.PublishItems(ctx, items)
	})
	if !never(err) {
		return err
	}
	if len(items) == 1 {
		return p.sendStub(ctx, of, items[0], err)
	}
	if err := p.sendItems(ctx, of, items[:len(items)/2], true); err != nil {
		return err
	}
	return p.sendItems(ctx, of, items[len(items)/2:], true)
}

func (p *Persister) sendStub(ctx context.Context, of *commit, it events.Posted, cause error) error {
	p.stats.itemsRefused.Add(1)
	p.Log.Error("an item is refused for good: a stub has its number", "subject", it.Subject, "item", it.N, "bytes",
		len(it.Data), "error", cause)
	stub, tried := []events.Posted{project.Stub(it)}, false
	err := p.retry(ctx, "items", func() (err error) {
		if tried {
			if stub, err = p.unsent(ctx, of, stub); err != nil || len(stub) == 0 {
				return err
			}
		}
		tried = true
		return p.Outbox.PublishItems(ctx, stub)
	})
	if never(err) {
		p.Log.Error("and so is the stub: SPOOL_ITEMS has a gap", "subject", it.Subject, "item", it.N, "error", err)
		return nil
	}
	return err
}

// sendLetters sends dead letters, but for those that are there.
func (p *Persister) sendLetters(ctx context.Context, letters []events.Dead) error {
	err := p.retry(ctx, "dead letters", func() error { return p.Outbox.Dead(ctx, letters) })
	if !never(err) {
		return err
	}
	if len(letters) == 1 {
		return p.sendCut(ctx, letters[0], err)
	}
	for i := range letters {
		if err := p.sendLetters(ctx, letters[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// leastReason is how much of the reason a letter that is cut has, in bytes.
const leastReason = 200

// sendCut sends the least of a letter that is refused for good.
func (p *Persister) sendCut(ctx context.Context, d events.Dead, cause error) error {
	p.Log.Error("a dead letter is refused for good: its bytes go to the inbox", "subject", d.Subject, "seq", d.Seq, "bytes",
		len(d.Data), "error", cause)
	d.Apart, d.Reason = true, d.Reason[:min(len(d.Reason), leastReason)]
	err := p.retry(ctx, "dead letters", func() error { return p.Outbox.Dead(ctx, []events.Dead{d}) })
	if never(err) {
		p.stats.lettersRefused.Add(1)
		p.Log.Error("an event has no dead letter: SPOOL_EVENTS has its bytes until it is trimmed", "subject", d.Subject, "seq", d.Seq,
			"reason", d.Reason, "error", err)
		return nil
	}
	return err
}
