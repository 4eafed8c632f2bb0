package dialect

import (
	"spool/internal/jsonscan"
	"spool/pkg/dialect/internal/parts"
	"spool/pkg/events"
)

// Time is when a line of any harness says that it was written, in Unix milliseconds; 0 if it does not. A valid JSON object.
func Time(raw []byte) int64 {
	for _, path := range [][]string{{"timestamp"}, {"message", "timestamp"}, {"created_at"}} {
		if ms := events.Said(parts.Time(jsonscan.Get(raw, path...))); ms != 0 {
			return ms
		}
	}
	return 0
}
