package gc

import (
	"fmt"
	"io"
	"text/tabwriter"

	"spool/internal/record"
	"spool/internal/text"
)

// Stock is what is stored.
type Stock struct {
	Sessions   int   `json:"sessions"`
	Threads    int   `json:"threads"`
	Entries    int64 `json:"entries"`
	Items      int64 `json:"items"`
	Packs      int   `json:"packs"`
	Nodes      int64 `json:"nodes"`
	LiveNodes  int64 `json:"live_nodes"`
	RawBytes   int64 `json:"raw_bytes"`  // of the nodes before compression
	LiveBytes  int64 `json:"live_bytes"` // of the live ones
	PackBytes  int64 `json:"pack_bytes"`
	Blobs      int   `json:"blobs"`
	BlobBytes  int64 `json:"blob_bytes"`
	Tombstones int   `json:"tombstones"`
	Moved      int   `json:"moved"`
}

// Report is what a cycle found and did.
type Report struct {
	Stock
	Cycle   string         `json:"cycle"`
	Applied bool           `json:"applied"`
	Planned Planned        `json:"planned"`
	Done    Done           `json:"done"`
	Brakes  []Braked       `json:"brakes,omitempty"`
	Refused string         `json:"refused,omitempty"` // why it was not applied, or not to its end
	Streams []record.Usage `json:"streams,omitempty"`
}

// Planned is a plan in numbers.
type Planned struct {
	Condemn      int   `json:"condemn"`
	CondemnBytes int64 `json:"condemn_bytes"`
	Repack       int   `json:"repack"` // packs
	Into         int   `json:"into"`
	Reclaim      int   `json:"reclaim"`
	ReclaimBytes int64 `json:"reclaim_bytes"`
	Forget       int   `json:"forget"`
}

// Sum is the plan in numbers.
func (p *Plan) Sum() (s Planned) {
	s.Condemn, s.Into, s.Reclaim, s.Forget = len(p.Condemn), len(p.Repack), len(p.Reclaim), len(p.Forget)
	for _, v := range p.Condemn {
		s.CondemnBytes += v.Bytes
	}
	for _, g := range p.Repack {
		s.Repack += len(g.Packs)
	}
	for _, v := range p.Reclaim {
		s.ReclaimBytes += v.Bytes
	}
	return s
}

// Report is what a plan finds.
func (p *Plan) Report() Report {
	return Report{Stock: p.Stock, Cycle: p.Cycle, Planned: p.Sum(), Brakes: p.Brakes}
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, n any, note string) { fmt.Fprintf(t, "%s\t%v\t%s\n", what, n, note) }
	row("sessions", r.Sessions, "")
	row("threads", r.Threads, fmt.Sprintf("%d entries, %d items", r.Entries, r.Items))
	row("packs", r.Packs, fmt.Sprintf("%d nodes, %s in %s; live: %d nodes, %s", r.Nodes, text.Bytes(r.RawBytes), text.Bytes(r.PackBytes),
		r.LiveNodes, text.Bytes(r.LiveBytes)))
	row("blobs", r.Blobs, text.Bytes(r.BlobBytes))
	row("tombstones", r.Tombstones, "")
	row("moved packs", r.Moved, "")
	for _, s := range r.Streams {
		limit := ""
		if s.Limit > 0 {
			limit = fmt.Sprintf("%.1f %% of %s", 100*float64(s.Bytes)/float64(s.Limit), text.Bytes(s.Limit))
		}
		fmt.Fprintf(t, "%s\t%d messages\t%s\t%s\n", s.Stream, s.Messages, text.Bytes(int64(s.Bytes)), limit)
	}
	p := r.Planned
	row("condemn", p.Condemn, text.Bytes(p.CondemnBytes))
	row("repack", p.Repack, fmt.Sprintf("packs into %d", p.Into))
	row("reclaim", p.Reclaim, text.Bytes(p.ReclaimBytes)+" that no record names")
	row("forget", p.Forget, "old tombstones and moved records")
	if r.Applied {
		d := r.Done
		row("done", d.Condemned, fmt.Sprintf("condemned, %d spared; %d packs repacked into %d, %d groups skipped; %d objects reclaimed, %s; %d records forgotten",
			d.Spared, d.Repacked, d.Made, d.Skipped, d.Reclaimed, text.Bytes(d.Bytes), d.Forgotten))
	} else {
		row("done", 0, "nothing was deleted: this is a plan")
	}
	for _, b := range r.Brakes {
		row("brake", b.Brake, b.Why)
	}
	if r.Refused != "" {
		row("refused", "", r.Refused)
	}
	return t.Flush()
}
