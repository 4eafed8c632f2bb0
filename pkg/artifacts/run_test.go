package artifacts_test

import (
	"testing"
	"time"

	"spool/internal/must"
	"spool/pkg/artifacts"
)

var allStates = []artifacts.RunStatus{
	artifacts.RunQueued, artifacts.RunPending, artifacts.RunRunning,
	artifacts.RunCompleted, artifacts.RunFailed, artifacts.RunAborted, artifacts.RunCancelled,
}

// The whole table of transitions (SPEC A6): rows from, columns to, in the order of allStates.
func TestRunCanBecome(t *testing.T) {
	table := []string{
		"yyyyyyy", // queued
		".yyyyyy", // pending
		"..yyyyy", // running
		"...y...", // completed
		"....y..", // failed
		".....y.", // aborted
		"......y", // cancelled
	}
	for i, from := range allStates {
		for j, to := range allStates {
			must.Same(t, from.CanBecome(to), table[i][j] == 'y', "%s.CanBecome(%s) = %v, want %v", from, to)
		}
		must.Same(t, from.Ended(), i > 2, "%s.Ended() = %v, want %v", from)
		if got, err := artifacts.ParseRunStatus(string(from)); err != nil || got != from {
			t.Errorf("ParseRunStatus(%s) = %q, %v", from, got, err)
		}
	}
	if _, err := artifacts.ParseRunStatus("done"); err == nil {
		t.Error(`ParseRunStatus("done") = nil error`)
	}
}

// A run stands as failed exactly when it has not ended and keeps no session from being deleted (SPEC A6).
func TestRunStanding(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, s := range allStates {
		for _, lease := range []time.Time{{}, now.Add(-time.Millisecond), now, now.Add(time.Millisecond)} {
			run := artifacts.Run{ID: "r", Status: s, Lease: lease}
			free := artifacts.Activity{Runs: []artifacts.Run{run}}.Deletable(now) == nil
			want := s
			if free && !s.Ended() {
				want = artifacts.RunFailed
			}
			must.Same(t, run.Standing(now), want, "%s with a lease until %v stands as %s, want %s", s, lease)
		}
	}
	waits := artifacts.Run{Status: artifacts.RunQueued}
	if got := waits.Standing(now); got != artifacts.RunQueued {
		t.Errorf("queued without a lease stands as %s", got)
	}
	over := artifacts.Run{Status: artifacts.RunRunning, Lease: now}
	if got := over.Standing(now); got != artifacts.RunFailed {
		t.Errorf("running with its lease just over stands as %s", got)
	}
}
