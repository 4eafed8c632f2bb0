package gc

import (
	"fmt"
	"io"
	"text/tabwriter"

	"spool/internal/text"
)

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, n any, note string) { fmt.Fprintf(t, "%s\t%v\t%s\n", what, n, note) }
	row("sessions", r.Sessions, "")
	row("threads", r.Threads, fmt.Sprintf("%d entries, %d items", r.Entries, r.Items))
	row("packs", r.Packs, fmt.Sprintf("%d nodes, %s in %s", r.Nodes, text.Bytes(r.RawBytes), text.Bytes(r.PackBytes)))
	row("blobs", r.Blobs, text.Bytes(r.BlobBytes))
	row("tombstones", r.Tombstones, "")
	row("moved packs", r.Moved, "")
	if r.Unreadable > 0 {
		row("unreadable", r.Unreadable, "records this version cannot decode")
	}
	for _, s := range r.Streams {
		limit := ""
		if s.Limit > 0 {
			limit = fmt.Sprintf("%.1f %% of %s", 100*float64(s.Bytes)/float64(s.Limit), text.Bytes(s.Limit))
		}
		fmt.Fprintf(t, "%s\t%d messages\t%s\t%s\n", s.Stream, s.Messages, text.Bytes(int64(s.Bytes)), limit)
	}
	fmt.Fprintf(t, "deleted\t%d\tgc does not mark or sweep yet\n", r.Deleted)
	return t.Flush()
}
