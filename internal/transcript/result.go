package transcript

import "spool/pkg/events"

// Position is an event that an import published, to wait for.
type Position struct {
	Producer string `json:"producer"`
	Epoch    uint64 `json:"epoch"`
	Seq      uint64 `json:"seq"`
}

// FileResult says what became of one file.
type FileResult struct {
	File      string   `json:"file"`
	Harness   string   `json:"harness,omitempty"`
	Session   string   `json:"session,omitempty"`
	Thread    string   `json:"thread,omitempty"`
	Lines     int      `json:"lines"`     // complete ones, and a last one that is JSON
	Published int      `json:"published"` // new in the thread
	Skipped   int      `json:"skipped"`   // in the thread before
	Raw       int      `json:"raw"`       // not JSON
	Bytes     int64    `json:"bytes"`     // uncompressed
	Open      bool     `json:"open"`      // has no newline at its end
	Warnings  []string `json:"warnings,omitempty"`
	Error     string   `json:"error,omitempty"`
	Err       error    `json:"-"`

	Last Position `json:"-"` // the newest line of the thread, published now or before; Seq 0 = none
	Tail Position `json:"-"` // the tail, if one was published; else Seq 0
}

// begin starts counting, for a pass.
func (r *FileResult) begin(c *claim) {
	r.Session, r.Thread = c.thread.Session, c.thread.Name
	r.Lines, r.Published, r.Skipped, r.Raw, r.Bytes = 0, 0, 0, 0, 0
	r.Last, r.Tail = Position{Producer: c.producer, Epoch: epoch, Seq: c.lines}, Position{}
}

// ID is the thread that the file is in.
func (r *FileResult) ID() events.Thread { return events.Thread{Session: r.Session, Name: r.Thread} }

// Result says what became of an import.
type Result struct {
	Files     []FileResult // in the order of the sources
	Lines     int
	Published int
	Skipped   int
	Raw       int
	Bytes     int64
	Failed    int // files
}

func total(files []*file) (t Result) {
	for _, f := range files {
		r := f.res
		t.Files = append(t.Files, r)
		t.Lines, t.Published, t.Skipped, t.Raw = t.Lines+r.Lines, t.Published+r.Published, t.Skipped+r.Skipped, t.Raw+r.Raw
		t.Bytes += r.Bytes
		if r.Err != nil {
			t.Failed++
		}
	}
	return t
}
