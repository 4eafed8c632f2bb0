package service

import (
	"log/slog"

	"spool/internal/metrics"
	"spool/internal/natsadmin"
	"spool/internal/natsio"
)

// Observed makes a daemon visible: its metrics, with those of the system that it is connected to, and itself as a NATS micro
// service with what it did. role is the daemon's; stats may be nil. stop takes the service back.
func Observed(conn *natsio.Conn, reg *metrics.Registry, role, description string, stats func() any, log *slog.Logger) (stop func()) {
	reg.System(conn, log)
	version, commit := Version()
	stop, err := natsadmin.New(conn).Announce(natsadmin.Service{
		Role: role, Description: description, Version: semantic(), Stats: stats, Metadata: map[string]string{"build": version, "commit": commit},
	})
	if err != nil { // it works all the same
		log.Warn("not announced as a NATS service", "error", err)
		return func() {}
	}
	return stop
}

// Metrics makes the registry of a process.
func Metrics(role string) *metrics.Registry {
	version, commit := Version()
	return metrics.New(role, version, commit)
}
