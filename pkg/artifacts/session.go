package artifacts

import (
	"time"

	"spool/internal/family"
)

// RunStatus is where a run of an agent stands.
type RunStatus string

const (
	RunQueued    RunStatus = "queued"
	RunPending   RunStatus = "pending"
	RunRunning   RunStatus = "running"
	RunCompleted RunStatus = "completed"
	RunFailed    RunStatus = "failed"
	RunAborted   RunStatus = "aborted"
	RunCancelled RunStatus = "cancelled"
)

// Run is one run of a session. Who runs it renews its lease.
type Run struct {
	ID     string
	Status RunStatus
	Lease  time.Time // until when it is held; zero = by nobody
}

// Open is a tool output that has not ended. After its lease it counts as aborted (SPEC O8).
type Open struct {
	ID    string
	Lease time.Time
}

// Activity is what goes on in a session.
type Activity struct {
	Runs    []Run
	Outputs []Open
}

var (
	// ErrSessionActive: the session is in use; its code on the wire is "session_active". Cancel what ActiveError names,
	// wait for its end and try again.
	ErrSessionActive = family.Conflict.New("session has active or queued runs")
	// ErrSessionNotFound: there is no such session.
	ErrSessionNotFound = family.NotFound.New("session not found")
)

// ActiveError says what keeps a session from being deleted. It is ErrSessionActive.
type ActiveError struct {
	Runs    []string
	Outputs []string
}

func (e *ActiveError) Error() string { return ErrSessionActive.Error() }
func (e *ActiveError) Unwrap() error { return ErrSessionActive }

// Deletable decides about delete_session (SPEC A6). It refuses, with an *ActiveError, while a run is queued or pending or
// runs under a live lease, or an output is open; a lease that has passed counts as a failure of whoever held it. A status
// that this version does not know counts as running. A session that does not exist is the caller's to refuse, with
// ErrSessionNotFound.
func (a Activity) Deletable(now time.Time) error {
	var e ActiveError
	for _, r := range a.Runs {
		if r.active(now) {
			e.Runs = append(e.Runs, r.ID)
		}
	}
	for _, o := range a.Outputs {
		if now.Before(o.Lease) {
			e.Outputs = append(e.Outputs, o.ID)
		}
	}
	if len(e.Runs)+len(e.Outputs) > 0 {
		return &e
	}
	return nil
}

func (r Run) active(now time.Time) bool {
	switch r.Status {
	case RunCompleted, RunFailed, RunAborted, RunCancelled:
		return false
	case RunQueued, RunPending:
		return r.Lease.IsZero() || now.Before(r.Lease) // without a lease nobody has taken it up yet
	}
	return now.Before(r.Lease)
}
