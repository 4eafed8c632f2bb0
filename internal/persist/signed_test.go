package persist_test

import (
	"bytes"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/persist"
	"spool/internal/rehydrate"
	"spool/pkg/truncate"
)

// TestSigned: a signature over the limit is emptied, or the block that it signs stays as it is (SPEC T2). The entry as
// it was is there in either case.
func TestSigned(t *testing.T) {
	block := `{"type":"thinking","thinking":"t","thinkingSignature":"` + strings.Repeat("s", truncate.MaxUnits+1) + `"}`
	line := `{"type":"message","id":"a","message":{"role":"assistant","content":[` + block + `]}}`
	stays := map[truncate.Signed]bool{"": false, truncate.SignedCleared: false, truncate.SignedVerbatim: true}
	for signed, whole := range stays {
		r := newRig(t)
		r.start(func(_ *persist.Deps, c *persist.Config) { c.Cuts.Signed = signed })
		r.say(thread(0), "omp", line)
		var stored, full bytes.Buffer
		must.Get(r.Internal().ExportAs(t.Context(), thread(0), rehydrate.Stored, &stored, nil))(t)
		must.Get(r.Internal().ExportAs(t.Context(), thread(0), rehydrate.Full, &full, nil))(t)
		if strings.Contains(stored.String(), block) != whole || full.String() != line+"\n" {
			t.Errorf("signed %q: %d bytes are stored of %d, %d are given back", signed, stored.Len(), len(line), full.Len())
		}
	}
}
