package artifacts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The states of a run (SPEC A6). It goes forward alone, may leave states out, and from a last state goes nowhere:
//
//	queued ─▶ pending ─▶ running ─▶ completed | failed | aborted | cancelled
//
// A last state can be taken from anywhere. A lease that is over leaves the state as it is: whoever reads it counts the run as
// failed, and its agent, when it comes back, goes on.
var runStates = []RunStatus{RunQueued, RunPending, RunRunning, RunCompleted, RunFailed, RunAborted, RunCancelled}

// ParseRunStatus reads a status.
func ParseRunStatus(s string) (RunStatus, error) {
	if slices.Contains(runStates, RunStatus(s)) {
		return RunStatus(s), nil
	}
	names := make([]string, len(runStates))
	for i, state := range runStates {
		names[i] = string(state)
	}
	return "", fmt.Errorf("run state %q: use one of %s", s, strings.Join(names, ", "))
}

// Ended reports whether it is a last state.
func (s RunStatus) Ended() bool {
	return slices.Index(runStates, s) > slices.Index(runStates, RunRunning)
}

// CanBecome reports whether a run may go from s to next; to the same state it always may.
func (s RunStatus) CanBecome(next RunStatus) bool {
	return s == next || !s.Ended() && slices.Index(runStates, next) > slices.Index(runStates, s)
}

// Standing is the status as it counts at that time: failed when the lease is over, or when nobody holds one that runs.
func (r Run) Standing(now time.Time) RunStatus {
	if r.Status.Ended() || r.active(now) {
		return r.Status
	}
	return RunFailed
}
