package persist

import (
	"errors"
	"sync/atomic"

	"spool/internal/apply"
)

// Stats is what a persister did since it was made.
type Stats struct {
	Applied        int64 `json:"applied"`         // events through the lane, the repeated and the dead included
	Repeated       int64 `json:"repeated"`        // events that were applied before
	Guessed        int64 `json:"guessed"`         // of them those of which SPOOL_EVENTS can tell no more whether they say what was applied
	Superseded     int64 `json:"superseded"`      // events behind one that was never stored: their producer was told, and publishes all again
	Dead           int64 `json:"dead"`            // events that went to the dead letters
	Entries        int64 `json:"entries"`         // entries appended
	Unknown        int64 `json:"unknown"`         // entries of a type that their dialect does not know
	Items          int64 `json:"items"`           // items published
	ItemsRefused   int64 `json:"items_refused"`   // items that the store refuses for good: stubs have their numbers
	ItemsTooLarge  int64 `json:"items_too_large"` // entries with items over the budget: stubs have their numbers
	RowsUnread     int64 `json:"rows_unread"`     // artifacts that forks did not get: their records cannot be read
	LettersRefused int64 `json:"letters_refused"` // dead letters that it refuses for good, even when they are cut
	Nodes          int64 `json:"nodes"`           // nodes stored
	Commits        int64 `json:"commits"`         // atomic batches of records
	Refused        int64 `json:"refused"`         // commits that were prepared again
	Truncated      int64 `json:"truncated"`       // entries that a size rule cut
	Externalized   int64 `json:"externalized"`    // values moved into blobs
	BytesIn        int64 `json:"bytes_in"`        // raw bytes of entries
	BytesStored    int64 `json:"bytes_stored"`    // bytes of packs and blobs written
	Deduplicated   int64 `json:"deduplicated"`    // bytes of blobs that were there already
	Outputs        int64 `json:"outputs"`         // outputs of tools that ended
	OutputBytes    int64 `json:"output_bytes"`    // bytes of such outputs, as they came
	OverThreads    int64 `json:"over_threads"`    // events refused because their sessions have as many threads as they may have
	OverProducers  int64 `json:"over_producers"`  // the same of producers
	OverSessions   int64 `json:"over_sessions"`   // the same of sessions of a user
	Secrets        int64 `json:"secrets"`         // secrets found in entries and outputs, again with each repetition
	HeadHits       int64 `json:"head_hits"`       // threads of batches whose heads were in memory
	HeadMisses     int64 `json:"head_misses"`     // those whose heads were read
	HeadsEvicted   int64 `json:"heads_evicted"`   // heads that left memory to make room
	HeadBytes      int64 `json:"head_bytes"`      // bytes that the heads in memory take now, about
}

type counters struct {
	applied, repeated, guessed, superseded, dead, entries, unknown, items, nodes, commits, refused atomic.Int64
	truncated, externalized, bytesIn, stored, deduplicated                                         atomic.Int64
	itemsRefused, itemsTooLarge, lettersRefused, rowsUnread                                        atomic.Int64
	outputs, outputBytes, secrets, overThreads, overProducers, overSessions                        atomic.Int64

	heads headCounters
}

// add counts what an event did.
func (c *counters) add(n *apply.Counts) {
	for _, one := range []struct {
		total *atomic.Int64
		by    int64
	}{
		{&c.entries, n.Entries}, {&c.bytesIn, n.BytesIn}, {&c.externalized, n.Externalized}, {&c.truncated, n.Truncated},
		{&c.unknown, n.Unknown}, {&c.outputs, n.Outputs}, {&c.outputBytes, n.OutputBytes},
	} {
		if one.by != 0 {
			one.total.Add(one.by)
		}
	}
}

// Stats reads the counters.
func (p *Persister) Stats() Stats {
	c := &p.stats
	return Stats{
		Applied: c.applied.Load(), Repeated: c.repeated.Load(), Guessed: c.guessed.Load(), Superseded: c.superseded.Load(),
		ItemsRefused: c.itemsRefused.Load(), LettersRefused: c.lettersRefused.Load(), Dead: c.dead.Load(), Entries: c.entries.Load(),
		Unknown: c.unknown.Load(), Items: c.items.Load(), Nodes: c.nodes.Load(), Commits: c.commits.Load(),
		ItemsTooLarge: c.itemsTooLarge.Load(), RowsUnread: c.rowsUnread.Load(),
		Refused: c.refused.Load(), Truncated: c.truncated.Load(), Externalized: c.externalized.Load(),
		BytesIn: c.bytesIn.Load(), BytesStored: c.stored.Load(), Deduplicated: c.deduplicated.Load(),
		Outputs: c.outputs.Load(), OutputBytes: c.outputBytes.Load(), Secrets: c.secrets.Load(),
		OverThreads: c.overThreads.Load(), OverProducers: c.overProducers.Load(), OverSessions: c.overSessions.Load(),
		HeadHits: c.heads.hits.Load(), HeadMisses: c.heads.misses.Load(), HeadsEvicted: c.heads.evicted.Load(), HeadBytes: c.heads.bytes.Load(),
	}
}

func (p *Persister) count(s *staged) {
	switch s.verdict.Is {
	case apply.Repeated:
		p.stats.repeated.Add(1)
		if s.verdict.Guessed {
			p.stats.guessed.Add(1)
			p.Log.Debug("an event is taken for a repeat, and SPOOL_EVENTS can not tell any more whether it is", "thread", s.event.Thread,
				"producer", s.event.Producer, "event", s.event.Seq, "seq", s.msg.Seq)
		}
	case apply.Superseded:
		p.stats.superseded.Add(1)
		p.Log.Debug("an event is superseded: what it is linked to was never stored", "thread", s.event.Thread,
			"producer", s.event.Producer, "event", s.event.Seq, "prev", s.event.Prev, "seq", s.msg.Seq)
	case apply.Dead:
		p.stats.dead.Add(1)
		var beyond *apply.BeyondError
		if errors.As(s.verdict.Why, &beyond) {
			map[string]*atomic.Int64{
				"threads": &p.stats.overThreads, "producers": &p.stats.overProducers, "sessions": &p.stats.overSessions,
			}[beyond.Quota].Add(1)
		}
	}
}
