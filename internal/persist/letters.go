package persist

import (
	"spool/internal/apply"
	"spool/pkg/events"
)

// letter is the dead letter of an event, without secrets.
func (p *Persister) letter(s *staged, why string) events.Dead {
	return events.Dead{
		Thread: s.event.Thread, Kind: s.event.Kind.String(), Subject: s.msg.Subject, Seq: s.msg.Seq, Stored: s.msg.Stored,
		Unread: s.unseen, Data: p.masked(s), Reason: p.maskedText(why),
		Alone: !s.unseen && (!s.event.Shared || s.whole), // nobody looked what else its message holds
	}
}

func (p *Persister) letters(c *commit) (all []events.Dead) {
	for _, s := range c.events {
		if s.verdict.Is == apply.Dead {
			all = append(all, p.letter(s, s.verdict.Why.Error()))
		}
	}
	return all
}
