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
	File      string `json:"file"`
	Harness   string `json:"harness,omitempty"`
	Session   string `json:"session,omitempty"`
	Thread    string `json:"thread,omitempty"`
	Lines     int    `json:"lines"`     // complete ones, and a last one that is JSON
	Published int    `json:"published"` // new in the thread
	Skipped   int    `json:"skipped"`   // in the thread before
	Raw       int    `json:"raw"`       // lines that are no JSON object, blank ones too
	Bytes     int64  `json:"bytes"`     // uncompressed
	Open      bool   `json:"open"`      // has no newline at its end

	// Malformed counts stretches that are neither JSON objects nor blank: kept as they are, without an item (SPEC S6).
	// MalformedLines are the lines on which they begin, at most the first 100.
	Malformed      int   `json:"malformed"`
	MalformedLines []int `json:"malformed_lines,omitempty"`

	Blobs        int `json:"blobs,omitempty"`         // that new lines refer to and that are stored
	MissingBlobs int `json:"missing_blobs,omitempty"` // that new lines refer to and that nobody has
	Artifacts    int `json:"artifacts,omitempty"`     // beside the file, or it itself, registered now or before
	Registered   int `json:"-"`                       // of these, now

	Beside string `json:"beside,omitempty"` // of a file that lies beside one of the session's: its place there; it is no transcript

	Former   string   `json:"former,omitempty"` // the thread that keeps what this file's thread held before this import replaced it
	Parted   bool     `json:"parted,omitempty"` // from another copy of its session, which has the name; its lines go to Thread from now on
	Warnings []string `json:"warnings,omitempty"`
	Error    string   `json:"error,omitempty"`
	Err      error    `json:"-"`

	Unbegun  bool   `json:"-"` // nothing stands in it yet that can be imported
	Begins   bool   `json:"-"` // its thread was not there, nor on its way
	Heads    []byte `json:"-"` // the lines before the entries of a session of oh-my-pi: title slot and header
	Exported bool   `json:"-"` // the file went on from an export of the thread, which has no such lines of its own

	Last Position `json:"-"` // the newest line of the thread, published now or before; Seq 0 = none
	Tail Position `json:"-"` // the tail, if one was published; else Seq 0
	Leaf Position `json:"-"` // the operation that moves the leaf, if one was published; else Seq 0
}

// begin starts counting, for a pass.
func (r *FileResult) begin(c *claim) {
	r.Session, r.Thread = c.thread.Session, c.thread.Name
	r.Lines, r.Published, r.Skipped, r.Raw, r.Bytes, r.Malformed, r.MalformedLines = 0, 0, 0, 0, 0, 0, nil
	r.Heads, r.Exported, r.Begins = nil, c.exported, false
	r.Last, r.Tail, r.Leaf = Position{Producer: c.producer, Epoch: epoch, Seq: c.lines}, Position{}, Position{}
}

// malformed counts one, on a line.
func (r *FileResult) malformed(line int) {
	const most = 100
	if r.Malformed++; len(r.MalformedLines) < most {
		r.MalformedLines = append(r.MalformedLines, line)
	}
}

// moved says that what the file holds has got another name since: all of it is there.
func (r *FileResult) moved(to events.Thread) {
	r.Session, r.Thread = to.Session, to.Name
	r.Last, r.Tail, r.Leaf = Position{}, Position{}, Position{}
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
	Malformed int
	Bytes     int64
	Failed    int // files

	Letters uint64 // number of the newest dead letter before the import; math.MaxUint64: unknown
}

func total(files []*file) (t Result) {
	for _, f := range files {
		r := f.res
		t.Files = append(t.Files, r)
		t.Lines, t.Published, t.Skipped, t.Raw = t.Lines+r.Lines, t.Published+r.Published, t.Skipped+r.Skipped, t.Raw+r.Raw
		t.Malformed, t.Bytes = t.Malformed+r.Malformed, t.Bytes+r.Bytes
		if r.Err != nil {
			t.Failed++
		}
	}
	return t
}
