package output

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"spool/internal/runes"
)

// DefaultThreshold is how many bytes of an output are shown (SPEC U1).
const DefaultThreshold = 51_200

// Config is how much of an output is shown. The zero value shows the last 51,200 bytes.
type Config struct {
	// Threshold is the number of bytes that are shown, without markers. 0 means DefaultThreshold.
	Threshold int
	// Head is how many of them come from the beginning, at most half (SPEC O3). 0 means none.
	Head int
	// Columns is the longest line that is shown, in bytes (SPEC O4). 0 means any.
	Columns int
	// Artifact begins to store the whole output; it is called at most once, when something was cut, or is Large, or came
	// at all if Keep. nil means that there is nowhere to store it.
	Artifact func() (Artifact, error)
	Keep     bool
	// Large says of what text an artifact is to have all although nothing of it was cut; nil: of none.
	Large Thresholds
}

// Thresholds is what artifacts.Thresholds has.
type Thresholds interface {
	Exceeded(text []byte) bool
	Least() int // bytes of the shortest text that can be over
}

// Artifact stores a whole output. Commit returns its id after its bytes are durable; Abort drops it. One of the two is
// called, last.
type Artifact interface {
	io.Writer
	Commit() (id string, err error)
	Abort()
}

// Summary is what is shown of an output, and what is said about it (SPEC O5). Bytes and lines are of the sanitized text.
type Summary struct {
	Output                   string
	Truncated                bool  // bytes were left out for the threshold
	TotalLines, TotalBytes   int64 // lines are newlines + 1, none of an empty text
	OutputLines, OutputBytes int64

	// Between head and tail, if there is a marker. Bytes are of the lines as the column cap left them, their "…" included.
	ElidedBytes, ElidedLines int64

	ColumnDroppedBytes, ColumnTruncatedLines int64 // by the column cap

	ArtifactID    string // of the whole output, if it was stored
	ArtifactError error  // why it was not
}

// Sink takes the chunks of one output and keeps what is shown of it. It is for one goroutine.
type Sink struct {
	cfg   Config
	clean [2]Sanitizer // of the streams: what one of them leaves open is not closed by the other
	cap   columnCap

	total     tally
	head      []byte
	headLimit int // bytes that the head may have
	headDone  bool
	tail      []byte
	tailTotal int // bytes that went to the tail
	truncated bool

	artifact Artifact
	failure  error
	text     []byte // the chunk, sanitized
	shown    []byte // and capped
}

// NewSink begins an output.
func NewSink(cfg Config) *Sink {
	cfg.Threshold = cmp.Or(cfg.Threshold, DefaultThreshold)
	return &Sink{cfg: cfg, cap: columnCap{most: cfg.Columns}, headLimit: min(max(cfg.Head, 0), cfg.Threshold/2)}
}

// Write takes the next chunk. live is what live subscribers are to get now: it is sanitized but not cut, and valid
// until the next call.
func (s *Sink) Write(chunk []byte) (live []byte) { return s.write(0, chunk) }

// WriteErr is Write for a second stream that is shown among the first, such as standard error.
func (s *Sink) WriteErr(chunk []byte) (live []byte) { return s.write(1, chunk) }

func (s *Sink) write(stream int, chunk []byte) []byte {
	s.text = s.clean[stream].Append(s.text[:0], chunk)
	s.take(s.text)
	return s.text
}

// Close ends the output. live is what live subscribers have not got yet.
func (s *Sink) Close() (sum Summary, live []byte) {
	s.text = s.clean[1].Flush(s.clean[0].Flush(s.text[:0]))
	s.take(s.text)
	live = s.text
	sum = s.view()
	if s.artifact != nil {
		id, err := s.artifact.Commit()
		if err != nil {
			s.failure = fmt.Errorf("commit the artifact: %w", err)
		} else {
			sum.ArtifactID = id
		}
		s.artifact = nil
	}
	sum.ArtifactError = s.failure
	return sum, live
}

// Abort drops the artifact of an output that is given up.
func (s *Sink) Abort() {
	if s.artifact != nil {
		s.artifact.Abort()
		s.artifact = nil
	}
}

// take takes sanitized text.
func (s *Sink) take(text []byte) {
	s.total.add(text)
	dropped := s.cap.dropped
	s.shown = s.cap.apply(s.shown[:0], text)
	head := s.forHead(s.shown)
	spills := s.tailTotal+len(s.shown)-len(head) > s.tailBudget()
	if s.cap.dropped > dropped || spills || s.cfg.Keep && len(text) > 0 || s.isLarge() {
		s.mirror()
	}
	s.truncated = s.truncated || spills
	s.store(text)
	s.keep(head, s.shown[len(head):])
}

// isLarge tells whether what came so far is to be in an artifact, though all of it is still here.
func (s *Sink) isLarge() bool {
	return s.cfg.Large != nil && s.artifact == nil && s.failure == nil && s.total.bytes >= int64(s.cfg.Large.Least()) &&
		s.cfg.Large.Exceeded(slices.Concat(s.head, s.tail, s.shown))
}

// mirror opens the artifact before anything is lost for it: head and tail are the whole output so far (SPEC O2).
func (s *Sink) mirror() {
	if s.artifact != nil || s.failure != nil || s.cfg.Artifact == nil {
		return
	}
	artifact, err := s.cfg.Artifact()
	if err != nil {
		s.failure = fmt.Errorf("begin an artifact: %w", err)
		return
	}
	s.artifact = artifact
	s.store(s.head)
	s.store(s.tail)
}

// store writes to the artifact, if there is one.
func (s *Sink) store(b []byte) {
	if s.artifact == nil || len(b) == 0 {
		return
	}
	if _, err := s.artifact.Write(b); err != nil {
		s.failure = fmt.Errorf("write the artifact: %w", err)
		s.Abort()
	}
}

// forHead is the part of a text that the head takes. It takes no more after it was not able to take all.
func (s *Sink) forHead(text []byte) []byte {
	if s.headDone {
		return nil
	}
	return runes.Head(text, s.headLimit-len(s.head))
}

// keep puts text into head and tail.
func (s *Sink) keep(head, tail []byte) {
	s.head = append(s.head, head...)
	s.headDone = s.headDone || len(tail) > 0
	s.tail = append(s.tail, tail...)
	s.tailTotal += len(tail)
	if budget := s.tailBudget(); len(s.tail) > 2*budget {
		s.tail = append(s.tail[:0], runes.Tail(s.tail, budget)...)
	}
}

func (s *Sink) tailBudget() int { return s.cfg.Threshold - s.headLimit }

// view makes the summary of what was kept.
func (s *Sink) view() Summary {
	sum := Summary{
		Truncated: s.truncated, TotalLines: s.total.lines(), TotalBytes: s.total.bytes,
		ColumnDroppedBytes: s.cap.dropped, ColumnTruncatedLines: s.cap.lines,
	}
	tail := runes.Tail(s.tail, s.tailBudget())
	elided := int64(s.tailTotal - len(tail))
	if len(s.head) == 0 || elided == 0 {
		return sum.show(append(s.head, tail...), 0)
	}
	sum.ElidedBytes = elided
	of := tallyOf(bytes.TrimSuffix(s.head, []byte("\n"))).newlines + 1 + tallyOf(tail).lines()
	sum.ElidedLines = max(0, sum.TotalLines-of)
	marker := fmt.Sprintf("[…%dln elided…]", sum.ElidedLines)
	if sum.ElidedLines <= 1 {
		marker = fmt.Sprintf("[…%s elided…]", size(sum.ElidedBytes))
	}
	shown := append([]byte(nil), s.head...)
	if !bytes.HasSuffix(shown, []byte("\n")) {
		shown = append(shown, '\n')
	}
	if shown = append(shown, marker...); !bytes.HasPrefix(tail, []byte("\n")) {
		shown = append(shown, '\n')
	}
	return sum.show(append(shown, tail...), of+1)
}

// show completes a summary with what is shown; lines is 0 if they are to be counted.
func (sum Summary) show(shown []byte, lines int64) Summary {
	if lines == 0 {
		lines = tallyOf(shown).lines()
	}
	sum.Output, sum.OutputBytes, sum.OutputLines = string(shown), int64(len(shown)), lines
	return sum
}

// tally counts bytes and newlines.
type tally struct{ bytes, newlines int64 }

func tallyOf(b []byte) tally { return tally{int64(len(b)), int64(bytes.Count(b, []byte("\n")))} }

func (t *tally) add(b []byte) {
	more := tallyOf(b)
	t.bytes += more.bytes
	t.newlines += more.newlines
}

func (t tally) lines() int64 {
	if t.bytes == 0 {
		return 0
	}
	return t.newlines + 1
}

// columnCap shortens lines (SPEC O4).
type columnCap struct {
	most    int // bytes of a line; 0 means any number
	used    int // of this line
	cutting bool
	dropped int64
	lines   int64
}

const ellipsis = "…"

// apply appends what is left of text to dst. In the text that takes a line over the cap what fits without the last three
// bytes is kept, and then comes "…": those that came before can not be taken back.
func (c *columnCap) apply(dst, text []byte) []byte {
	if c.most <= 0 {
		return append(dst, text...)
	}
	for len(text) > 0 {
		line, _, more := bytes.Cut(text, []byte("\n"))
		text = text[len(line):]
		dst = c.line(dst, line)
		if more {
			dst, text = append(dst, '\n'), text[1:]
			c.used, c.cutting = 0, false
		}
	}
	return dst
}

func (c *columnCap) line(dst, part []byte) []byte {
	switch {
	case c.cutting:
		c.dropped += int64(len(part))
	case c.used+len(part) <= c.most:
		c.used += len(part)
		return append(dst, part...)
	default:
		kept := runes.Head(part, c.most-c.used-len(ellipsis))
		c.dropped += int64(len(part) - len(kept))
		c.lines++
		c.cutting = true
		return append(append(dst, kept...), ellipsis...)
	}
	return dst
}
