package persist

import (
	"spool/internal/apply"
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

// letters are the dead letters of a commit.
func (c *commit) letters() (all []events.Dead) {
	for _, s := range c.events {
		if s.verdict.Is == apply.Dead {
			all = append(all, s.letter(s.verdict.Why.Error()))
		}
	}
	return all
}
