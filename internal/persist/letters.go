package persist

import (
	"cmp"
	"context"
	"fmt"

	"spool/internal/apply"
	"spool/internal/record"
	"spool/pkg/events"
)

// sendNoted sends the dead letters of a commit before it, where it changes heads. A letter cannot be taken back, so the heads over which
// the events were refused are held against the stored ones first: of two persisters that have an event, both refuse it then.
func (p *Persister) sendNoted(ctx context.Context, c *commit) error {
	refused := map[events.Thread]bool{}
	for _, s := range c.events {
		if s.verdict.Is == apply.Dead && !c.told {
			refused[s.event.Thread] = true
		}
	}
	if len(refused) == 0 {
		return nil
	}
	var keys []string
	var at []*touched
	for _, t := range c.threads {
		if refused[t.was] {
			keys, at = append(keys, cmp.Or(t.removes, t.record)), append(at, t)
		}
	}
	rs, err := p.Records.Records(ctx, keys...)
	if err != nil {
		return err
	}
	for i, t := range at {
		if rs[i].Seq != t.rev {
			return fmt.Errorf("%w: head of %s: revision %d, expected %d", record.ErrConflict, t.was, rs[i].Seq, t.rev)
		}
	}
	return p.sendLetters(ctx, c)
}

// sendLetters sends the dead letters of a commit, unless they are sent.
func (p *Persister) sendLetters(ctx context.Context, c *commit) error {
	var letters []events.Dead
	for _, s := range c.events {
		if s.verdict.Is != apply.Dead || c.told {
			continue
		}
		why := p.maskedText(s.verdict.Why.Error())
		p.Log.Warn("event goes to the dead letters", "subject", s.msg.Subject, "seq", s.msg.Seq, "error", why)
		letter := events.Dead{
			Thread: s.event.Thread, Kind: s.event.Kind.String(), Subject: s.msg.Subject, Seq: s.msg.Seq, Stored: s.msg.Stored,
			Data: p.masked(s), Reason: why,
		}
		letters = append(letters, letter)
	}
	if len(letters) > 0 {
		if err := p.Outbox.Dead(ctx, letters); err != nil {
			return err
		}
	}
	c.told = true
	return nil
}
