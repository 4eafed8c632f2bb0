package events

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/bounded"
	"spool/internal/family"
)

// ChunkOp says what a chunk event does to its output.
type ChunkOp uint8

// The operations on an output, in the order in which they come.
const (
	ChunkStart ChunkOp = 1 // opens it
	ChunkData  ChunkOp = 2 // a piece of it
	ChunkEnd   ChunkOp = 3 // the tool has ended
	// ChunkAbort closes an output of which nobody says how it ended: its agent was not heard of for its lease (SPEC O8), or
	// says so. It does nothing when the output has ended, or a chunk came that whoever published it had not seen: the stream
	// decides, and no clock.
	ChunkAbort ChunkOp = 4
)

// Stream is where a tool wrote a piece.
type Stream uint8

// The streams of a tool.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Chunk is the body of a chunk event: a part of one output, the streaming output of one tool invocation (SPEC O1).
type Chunk struct {
	Op     ChunkOp
	Output string // id of the output, unique in its session: a name as CheckToken takes it
	// Seq numbers data from 1; the end has the number after the last piece, and so has an abort.
	Seq uint64
	// Attempt, of data and an end, is the one that their start names: pieces of another are refused.
	Attempt string
	Start   OutputStart // of a start
	Stream  Stream      // of data
	Data    []byte      // of data, as the tool wrote them: any bytes. None: the agent lives, and the lease begins anew
	End     OutputEnd   // of an end
	Reason  string      // of an abort
}

// OutputStart says whose output it is, and how much of it is shown. All but Tool may be zero.
type OutputStart struct {
	Tool       string // name of the tool
	Invocation string // id that its call and its result share (SPEC I3); empty: the output's id
	Cwd        string
	Agent, Run string // for the artifact's record
	Head       int    // bytes of the beginning that are shown, see output.Config
	Columns    int    // longest line that is shown, in bytes; 0: any
	Lease      int64  // milliseconds without a chunk after which the output counts as aborted; 0: the persister's
	Keep       bool   // an artifact has the whole output, also when nothing of it is cut (SPEC A4)
	Show       int    // bytes that are shown, at most MaxShow; 0: so many
	// Attempt is an id of this try to send the output, which all of its pieces carry; empty: they carry none.
	Attempt string
}

// MaxShow is how many bytes of an output are shown at most (SPEC U1).
const MaxShow = 51_200

// OutputEnd is how a tool ended.
type OutputEnd struct {
	ExitCode   int
	IsError    bool
	DurationMS int64 // 0: nobody measured it
}

// ErrChunk is wrapped by every chunk body that cannot be applied.
var ErrChunk = family.Invalid.New("bad chunk")

const chunkVersion = 1

// chunkMembers is how many members the body of each operation has.
var chunkMembers = map[ChunkOp]int{ChunkStart: 11, ChunkData: 6, ChunkEnd: 7, ChunkAbort: 5}

// Encode is the body: a msgpack array of version, operation, output, and what belongs to the operation (docs/format.md,
// "Chunks").
func (c Chunk) Encode() []byte {
	fields := []any{chunkVersion, uint8(c.Op), c.Output}
	switch s, e := c.Start, c.End; c.Op {
	case ChunkStart:
		fields = append(fields, s.Tool, s.Invocation, s.Cwd, s.Agent, s.Run, s.Head, s.Columns, s.Lease)
		if s.Keep || s.Show > 0 || s.Attempt != "" {
			fields = append(fields, s.Keep)
		}
		if s.Show > 0 || s.Attempt != "" {
			fields = append(fields, s.Show)
		}
		if s.Attempt != "" {
			fields = append(fields, s.Attempt)
		}
	case ChunkData:
		fields = append(fields, c.Seq, uint8(c.Stream), c.Data)
	case ChunkEnd:
		fields = append(fields, c.Seq, e.ExitCode, e.IsError, e.DurationMS)
	case ChunkAbort:
		fields = append(fields, c.Seq, c.Reason)
	}
	if c.Attempt != "" && (c.Op == ChunkData || c.Op == ChunkEnd) {
		fields = append(fields, c.Attempt)
	}
	var buf bytes.Buffer
	buf.Grow(len(c.Data) + len(c.Output) + 48)
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(fields); err != nil {
		panic(err) // integers, strings, bytes and booleans always marshal
	}
	return buf.Bytes()
}

// ParseChunk reads the body of a chunk event, msgpack or a JSON object. Data may alias b. Members that a later version adds are
// ignored.
func ParseChunk(b []byte) (Chunk, error) {
	if isJSON(b) {
		return parseChunkJSON(b)
	}
	if err := bounded.Exactly(b); err != nil {
		return Chunk{}, fmt.Errorf("%w: %w", ErrChunk, err)
	}
	src := bytes.NewReader(b)
	r := reader{dec: msgpack.NewDecoder(src)}
	n := r.arrayLen()
	if v := r.uint(); r.err == nil && v != chunkVersion {
		return Chunk{}, fmt.Errorf("%w: version %d; this program reads version %d", ErrChunk, v, chunkVersion)
	}
	c := Chunk{Op: ChunkOp(min(r.uint(), 255)), Output: r.string()}
	if want, ok := chunkMembers[c.Op]; r.err == nil && (!ok || n < want) {
		return c, fmt.Errorf("%w: operation %d with %d members; use 1 start, 2 data, 3 end or 4 abort", ErrChunk, c.Op, n)
	}
	switch c.Op {
	case ChunkStart:
		c.Start = OutputStart{
			Tool: r.string(), Invocation: r.string(), Cwd: r.string(), Agent: r.string(), Run: r.string(),
			Head: int(r.int()), Columns: int(r.int()), Lease: r.int(),
		}
		if n > chunkMembers[ChunkStart] {
			c.Start.Keep = read(&r, "true or false", r.dec.DecodeBool)
		}
		if n > chunkMembers[ChunkStart]+1 {
			c.Start.Show = int(r.int())
		}
		if n > chunkMembers[ChunkStart]+2 {
			c.Start.Attempt = r.string()
		}
	case ChunkData:
		c.Seq, c.Stream, c.Data = r.uint(), Stream(min(r.uint(), 255)), r.alias(b, src)
	case ChunkEnd:
		c.Seq = r.uint()
		c.End = OutputEnd{int(r.int()), read(&r, "true or false", r.dec.DecodeBool), r.int()}
	case ChunkAbort:
		c.Seq, c.Reason = r.uint(), r.string()
	}
	if n > chunkMembers[c.Op] && (c.Op == ChunkData || c.Op == ChunkEnd) {
		c.Attempt = r.string()
	}
	if r.err != nil {
		return c, fmt.Errorf("%w: %w", ErrChunk, r.err)
	}
	return c, c.Validate()
}

// Limits of what an OutputStart says, in bytes.
const (
	maxToolName = 1 << 10
	maxCwd      = 4 << 10
)

// Validate checks what a publisher controls (SPEC B2).
func (c Chunk) Validate() error {
	err := CheckToken("output", c.Output)
	switch s := c.Start; {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrChunk, err)
	case len(s.Tool) > maxToolName || len(s.Invocation) > maxToolName || len(s.Agent) > maxToolName || len(s.Run) > maxToolName ||
		len(s.Attempt) > maxToolName || len(c.Attempt) > maxToolName:
		return fmt.Errorf("%w: tool, invocation, agent, run and attempt have at most %d bytes each", ErrChunk, maxToolName)
	case len(s.Cwd) > maxCwd:
		return fmt.Errorf("%w: a working directory of %d bytes; at most %d", ErrChunk, len(s.Cwd), maxCwd)
	case s.Head < 0 || s.Columns < 0 || s.Lease < 0:
		return fmt.Errorf("%w: head, columns and lease are not negative", ErrChunk)
	case 0 < s.Lease && s.Lease < MinLease:
		return fmt.Errorf("%w: output %s: lease of %v; use one from %v on", ErrChunk, c.Output, Millis(s.Lease), Millis(MinLease))
	case s.Lease > MaxLease: // who went away without a word would hold its session for ever
		return fmt.Errorf("%w: output %s: lease of %v; use at most %v", ErrChunk, c.Output, Millis(s.Lease), Millis(MaxLease))
	case s.Show < 0 || s.Show > MaxShow:
		return fmt.Errorf("%w: show %d: use 1 to %d bytes; 0 means %[3]d", ErrChunk, s.Show, MaxShow)
	case c.Op == ChunkData && c.Stream != Stdout && c.Stream != Stderr:
		return fmt.Errorf("%w: stream %d; use 1 for standard output, 2 for standard error", ErrChunk, c.Stream)
	case c.Op != ChunkStart && c.Seq == 0:
		return fmt.Errorf("%w: seq starts at 1", ErrChunk)
	}
	return nil
}

// Live is a piece of an output as live subscribers get it, JSON on LiveSubject (SPEC O6). A subscriber that finds a gap
// between two offsets has missed a frame: what is missing is in the output's record and artifact.
type Live struct {
	Offset int64    `json:"offset"` // bytes of sanitized text before this one
	Text   string   `json:"text,omitempty"`
	End    *LiveEnd `json:"end,omitempty"` // only in the last frame
}

// LiveEnd names what supersedes the stream: the item with the result.
type LiveEnd struct {
	Item     int64  `json:"item"` // its number in the thread; 0: there is none, the thread was removed before
	Node     string `json:"node,omitempty"`
	Artifact string `json:"artifact_id,omitempty"` // the whole output, if it was stored as an artifact
	Aborted  bool   `json:"aborted,omitempty"`
}
