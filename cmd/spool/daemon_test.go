package main

import (
	"strings"
	"testing"

	"spool/internal/must"
)

// Of gc the daemon is meant only where a flag says when it collects: everything else shows what is garbage, or is refused.
func TestDaemonOf(t *testing.T) {
	for line, want := range map[string]string{
		"persister": "persister", "ingest -": "ingest", "help gc": "", "gc": "", "gc --nats nats://h": "", "gc run --once": "", "gc undelete --every 1h": "",
		"gc --apply": "", "gc --once=false": "", "gc --once=0": "", "gc --onc": "", "--nats nats://h gc --once": "",
		"gc --once": "gc", "gc -once": "gc", "gc --once=true": "gc", "gc --nats nats://h --every=1h": "gc", "gc --every 03:30": "gc",
	} {
		must.Same(t, daemonOf(strings.Fields(line)), want, "spool "+line+" is %q, want %q")
	}
}
