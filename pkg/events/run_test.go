package events_test

import (
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

func TestRunOperation(t *testing.T) {
	want := events.Run{ID: "r-1", State: "running", Agent: "coder", Lease: 60_000, Summary: "<half> done"}
	body := events.Control{Op: events.OpRun, Run: &want}.Encode()
	op, err := events.ParseControl(body)
	if err != nil || op.Op != events.OpRun || *op.Run != want || want.Validate() != nil {
		t.Errorf("ParseControl(%s) = %+v, %v", body, op.Run, err)
	}
	must.Is(t, must.Err(events.ParseControl([]byte(`{"op":"run"}`))), events.ErrControl, "run without operands")
	for says, r := range map[string]events.Run{
		"run is empty":          {},
		`run "a.b"`:             {ID: "a.b"},
		"lease of -1 ms":        {ID: "r", Lease: -1},
		"lease of 604800001 ms": {ID: "r", Lease: events.MaxRunLease + 1},
		"agent of 257 bytes":    {ID: "r", Agent: strings.Repeat("x", 257)},
		"summary of 4001 bytes": {ID: "r", Summary: strings.Repeat("x", 4001)},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Validate = %v, want it to say %q", err, says)
		}
	}
}

func TestRunKeys(t *testing.T) {
	must.Same(t, events.RunKey("s", "r"), "run.s.r", "RunKey = %q, want %q")
	if all, one := events.RunKeys(""), events.RunKeys("s"); all != "run.*.*" || one != "run.s.*" {
		t.Errorf("RunKeys = %q, %q", all, one)
	}
	if s, id, ok := events.ParseRunKey("run.s.r"); s != "s" || id != "r" || !ok {
		t.Errorf("ParseRunKey = %q, %q, %v", s, id, ok)
	}
	for _, key := range []string{"output.s.r", "run.s", "run.s.r.x"} {
		if _, _, ok := events.ParseRunKey(key); ok {
			t.Errorf("ParseRunKey(%q) is a run", key)
		}
	}
}
