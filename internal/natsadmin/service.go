package natsadmin

import (
	"fmt"

	"github.com/nats-io/nats.go/micro"

	"spool/internal/natsio"
	"spool/pkg/events"
)

// Service is a daemon as NATS micro services show it: nats service ls, info, stats.
type Service struct {
	Role, Description string
	Version           string            // semantic version
	Metadata          map[string]string // what it is configured to
	Stats             func() any        // what it did, as JSON; nil: nothing to say
}

// Announce registers a daemon until stop is called or the connection ends. Its endpoint answers with Stats; of several daemons of
// a role one answers, while nats service stats asks all. Where this user may not subscribe to $SRV.> nobody finds the
// daemon, which works all the same.
func (a *Admin) Announce(s Service) (stop func(), err error) {
	if s.Stats == nil {
		s.Stats = func() any { return struct{}{} }
	}
	svc, err := micro.AddService(a.nc, micro.Config{
		Name: "spool-" + s.Role, Version: s.Version, Description: s.Description, Metadata: s.Metadata,
		StatsHandler: func(*micro.Endpoint) any { return s.Stats() },
	})
	if err != nil {
		return nil, fmt.Errorf("announce %s: %w", s.Role, natsio.WrapErr(err))
	}
	answer := micro.HandlerFunc(func(r micro.Request) { _ = r.RespondJSON(s.Stats()) }) // a caller that is gone
	if err := svc.AddEndpoint("stats", answer, micro.WithEndpointSubject(events.ServiceSubject(s.Role))); err != nil {
		_ = svc.Stop()
		return nil, fmt.Errorf("announce %s: %w", s.Role, natsio.WrapErr(err))
	}
	return func() { _ = svc.Stop() }, nil // it ends with the connection at the latest
}
