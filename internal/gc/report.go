package gc

import (
	"errors"
	"fmt"
	"time"

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

// Kept is why packs, blobs and bytes are kept.
type Kept struct {
	Root       int `json:"root"`       // packs and blobs that a thread reaches
	Young      int `json:"young"`      // packs and blobs that none reaches: they, or what refers to them, were written since the cycle began
	Claimed    int `json:"claimed"`    // bodies in the inbox that an event or a dead letter claims
	Waiting    int `json:"waiting"`    // bodies that nobody claims, and that are younger than Config.InboxAge
	Quarantine int `json:"quarantine"` // tombstones whose bytes stay for Config.Quarantine

	QuarantineBytes int64 `json:"quarantine_bytes"`

	Unnamed      int   `json:"unnamed"` // objects that no record names, for less than Config.ReclaimAge
	UnnamedBytes int64 `json:"unnamed_bytes"`
}

// Report is what a cycle found and did: all that a person or a monitor is told of it.
type Report struct {
	Stock
	Cycle   string  `json:"cycle"`
	Applied bool    `json:"applied"` // it was begun at least
	Seconds float64 `json:"seconds"`
	Kept    Kept    `json:"kept"`
	Planned Planned `json:"planned"`
	Done    Done    `json:"done"`
	Trimmed uint64  `json:"trimmed_events,omitempty"` // SPOOL_EVENTS was trimmed up to this sequence
	// refs of threads to what is missing; a cycle ends at the first one unless that is allowed
	Dangling  int      `json:"dangling"`
	Anomalies []string `json:"anomalies,omitempty"` // what looks wrong
	Brakes    []Braked `json:"brakes,omitempty"`

	Unreadable []string `json:"unreadable,omitempty"` // artifacts whose records cannot be read, and what to do about each

	Refused string         `json:"refused,omitempty"` // why it was not applied, or not to its end
	Streams []record.Usage `json:"streams,omitempty"`
	Before  []record.Usage `json:"streams_before,omitempty"`
}

// Fail notes why a cycle was not applied, or not to its end.
func (r *Report) Fail(err error) {
	r.Refused = err.Error()
	if errors.Is(err, ErrDangling) {
		r.Dangling++
	}
	if errors.Is(err, ErrUnsafe) {
		r.Anomalies = append(r.Anomalies, err.Error())
	}
}

// Planned is a plan in numbers.
type Planned struct {
	Bury         int   `json:"bury"` // packs
	Condemn      int   `json:"condemn"`
	CondemnBytes int64 `json:"condemn_bytes"`
	Repack       int   `json:"repack"` // packs
	Into         int   `json:"into"`
	Reclaim      int   `json:"reclaim"` // objects that leave the disk: unnamed ones, of old tombstones, and of what is condemned
	ReclaimBytes int64 `json:"reclaim_bytes"`
	Forget       int   `json:"forget"`
}

// Sum is the plan in numbers, as a collector with that quarantine carries it out: without one the bytes of what is condemned go
// at once.
func (p *Plan) Sum(quarantine time.Duration) (s Planned) {
	s.Bury, s.Condemn, s.Into, s.Reclaim, s.Forget = len(p.Bury), len(p.Condemn), len(p.Repack), len(p.Reclaim), len(p.Forget)+len(p.Ended.Seqs)
	for _, v := range p.Condemn {
		s.CondemnBytes += v.Bytes
	}
	for _, g := range p.Repack {
		s.Repack += len(g.Packs)
	}
	for _, v := range p.Reclaim {
		s.ReclaimBytes += v.Bytes
	}
	for _, v := range p.Forget {
		if v.Bytes > 0 {
			s.Reclaim, s.ReclaimBytes = s.Reclaim+1, s.ReclaimBytes+v.Bytes
		}
	}
	if quarantine == 0 {
		s.Reclaim, s.ReclaimBytes = s.Reclaim+s.Condemn, s.ReclaimBytes+s.CondemnBytes
	}
	return s
}

// Report is what a plan finds, and what this collector would do.
func (c *Collector) Report(p *Plan) Report {
	r := Report{Stock: p.Stock, Cycle: p.Cycle, Kept: p.Kept, Planned: p.Sum(c.cfg.Quarantine), Brakes: p.Brakes,
		Dangling: p.Dangling, Unreadable: p.Unreadable}
	for _, b := range p.Brakes {
		r.Anomalies = append(r.Anomalies, b.Why)
	}
	r.Anomalies = append(r.Anomalies, p.Unreadable...)
	if p.Dangling > 0 {
		r.Anomalies = append(r.Anomalies, text.Sprintf("%d refs of threads lead to what is missing", p.Dangling))
	}
	return r
}

// Write prints the report for people.
func (r Report) Write(t *text.Table) error {
	row := func(what string, n any, note string) { fmt.Fprintf(t, "%s\t%v\t%s\n", what, n, note) }
	if r.Cycle == "" && r.Refused != "" { // nothing was looked at, so there is nothing to count
		row("done", 0, "nothing was deleted")
		row("refused", "", r.Refused)
		return t.Flush()
	}
	row("sessions", r.Sessions, "")
	row("threads", r.Threads, text.Sprintf("%d entries, %d items", r.Entries, r.Items))
	row("packs", r.Packs, text.Sprintf("%d nodes, %s in %s; live: %d nodes, %s", r.Nodes, text.Bytes(r.RawBytes), text.Bytes(r.PackBytes),
		r.LiveNodes, text.Bytes(r.LiveBytes)))
	row("blobs", r.Blobs, text.Bytes(r.BlobBytes))
	row("tombstones", r.Tombstones, "")
	row("moved packs", r.Moved, "")
	for _, s := range r.Streams {
		note := "messages, " + text.Bytes(int64(s.Bytes))
		if s.Limit > 0 {
			note += fmt.Sprintf(", %.1f %% of %s", 100*float64(s.Bytes)/float64(s.Limit), text.Bytes(s.Limit))
		}
		row(s.Stream, s.Messages, note)
	}
	k := r.Kept
	row("kept", k.Root, text.Sprintf("packs and blobs that threads reach; %d young; %d tombstones in quarantine, %s; "+
		"%d bodies in the inbox claimed, %d waiting; %d objects that no record names, %s",
		k.Young, k.Quarantine, text.Bytes(k.QuarantineBytes), k.Claimed, k.Waiting, k.Unnamed, text.Bytes(k.UnnamedBytes)))
	for _, u := range r.Unreadable {
		row("unreadable", 1, u)
	}
	p := r.Planned
	row("bury", p.Bury, "packs with garbage that stay")
	row("condemn", p.Condemn, text.Bytes(p.CondemnBytes))
	row("repack", p.Repack, fmt.Sprintf("packs into %d", p.Into))
	row("reclaim", p.Reclaim, text.Bytes(p.ReclaimBytes)+" of objects: condemned without a quarantine, forgotten, or named by no record")
	row("forget", p.Forget, "old tombstones, moved records, and that outputs have ended")
	if r.Applied {
		d := r.Done
		row("done", d.Condemned, text.Sprintf("condemned, %d spared, %d buried in; %d packs repacked into %d, %d groups skipped; "+
			"%d objects reclaimed, %s; %d records forgotten",
			d.Spared, d.Buried, d.Repacked, d.Made, d.Skipped, d.Reclaimed, text.Bytes(d.Bytes), d.Forgotten))
	} else if r.Refused != "" {
		row("done", 0, "nothing was deleted")
	} else {
		row("done", 0, "nothing was deleted: this is a plan")
	}
	if r.Trimmed > 0 {
		row("trimmed", r.Trimmed, "sequence up to which applied events were dropped")
	}
	for _, b := range r.Brakes {
		row("brake", b.Brake, b.Why)
	}
	if r.Refused != "" {
		row("refused", "", r.Refused)
	}
	return t.Flush()
}
