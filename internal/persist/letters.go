package persist

import (
	"context"

	"spool/pkg/events"
)

// letter is the dead letter of an event.
func (s *staged) letter(why string) events.Dead {
	d := events.Dead{
		Thread: s.event.Thread, Kind: s.event.Kind.String(), Subject: s.msg.Subject, Seq: s.msg.Seq, Stored: s.msg.Stored,
		Data: s.msg.Data, Reason: why,
	}
	if s.shared {
		d.Data = s.event.Encode()
	}
	return d
}

// sendLetters sends the dead letters of a commit, but for those that are there.
func (p *Persister) sendLetters(ctx context.Context, c *commit) error {
	var letters []events.Dead
	for _, s := range c.events {
		if s.verdict.is == dead {
			letters = append(letters, s.letter(s.verdict.why.Error()))
		}
	}
	if len(letters) == 0 {
		return nil
	}
	for _, d := range letters {
		p.Log.Warn("event goes to the dead letters", "subject", d.Subject, "seq", d.Seq, "error", d.Reason)
	}
	return p.Outbox.Dead(ctx, letters)
}
