package artifacts

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/bounded"
	"spool/internal/family"
	"spool/pkg/events"
)

// Category says what an artifact is for, and so what a cleanup takes without being told to (SPEC A5).
type Category string

const (
	Normal      Category = "normal" // kept unless a cleanup includes all
	ProviderRaw Category = "provider_raw"
	HookLog     Category = "hook_log"
	Traceback   Category = "traceback"
	Debug       Category = "debug"
)

var categories = []Category{Normal, ProviderRaw, HookLog, Traceback, Debug}

// Writer says who put the bytes where they are (SPEC A3).
type Writer string

const (
	FromOutput  Writer = "output"  // Spool, from the stream of a tool's output
	FromResult  Writer = "result"  // Spool, from a result that was too large for its message
	FromPayload Writer = "payload" // Spool, from a payload that a tool handed in
	FromAgent   Writer = "agent"   // Spool, from what a subagent returned; the file name is AgentFile's
	FromObject  Writer = "object"  // the tool: an object that was stored already and is registered
	FromFile    Writer = "file"    // the tool: a local file that is registered
)

var writers = []Writer{FromOutput, FromResult, FromPayload, FromAgent, FromObject, FromFile}

// UnknownSize is the size of a registered artifact whose bytes nobody has measured.
const UnknownSize = -1

// Record is an artifact's row in the registry (SPEC A2). All but ID, Session, Filename, Category and Writer may be
// empty.
type Record struct {
	ID      ID
	Session string // the root session, which it stays with
	Created int64  // Unix milliseconds

	Seq        Seq
	Agent      string
	Run        string
	Node       string // text form of the node that refers to it
	ToolCall   string
	Filename   string // a display name: one path segment
	MIME       string
	Size       int64 // bytes, or UnknownSize
	Summary    string
	Category   Category
	Writer     Writer
	ForkedFrom ID     // the row that this one was copied from when its session was forked (SPEC A7)
	Object     string // name of the bytes, which several rows may share
	Locator    []byte // how the store finds the object fast; opaque here

	// Of a registered file, as it was then; nothing of one that an earlier version registered.
	Modified int64  // Unix nanoseconds; also with Place
	Digest   []byte // SHA-256 of its bytes

	// Place is where a harness keeps it beside the file of its session: <harness>:<path>, see transcript.Beside. "": nowhere.
	Place string
}

var (
	// ErrRecord is wrapped by everything that is no proper record.
	ErrRecord = family.Invalid.New("bad artifact record")
	// ErrNoAgent: no agent of the session was given this id, and it starts none.
	ErrNoAgent = family.NotFound.New("no such agent")
	// ErrLater: a later version wrote the record; it is an ErrRecord.
	ErrLater = family.Damaged.New("a later version")
	// ErrTaken: another artifact has this id. Records are created once and never moved to another session (SPEC A3).
	ErrTaken = family.Conflict.New("artifact id is taken")
	// ErrChanged: the file of an artifact is not what it was when it was registered.
	ErrChanged = family.Conflict.New("the file has changed since it was registered")
)

// ObjectName is where the bytes of a new artifact go: <session>/<artifact_id>/<filename> (SPEC A2).
func (r Record) ObjectName() string { return r.Session + "/" + string(r.ID) + "/" + r.Filename }

// ObjectBeside is where they go if that name may lead to the bytes of a fork still, which it had from the artifact of this id in an earlier
// life of the session. mark is another one each time.
func (r Record) ObjectBeside(mark string) string {
	return r.Session + "/" + string(r.ID) + "/" + mark + "." + r.Filename
}

// Subagent is the thread of the subagent that a harness's file beside its session's is about; "": it is about none.
func (r Record) Subagent() string {
	_, place, _ := strings.Cut(r.Place, ":")
	name, ok := strings.CutSuffix(path.Base(place), ".meta.json")
	if !ok || !strings.HasPrefix(place, "subagents/") {
		return ""
	}
	return name
}

// Validate reports everything that is wrong with a record at once.
func (r Record) Validate() error {
	errs := []error{events.CheckToken("artifact_id", string(r.ID)), events.CheckToken("session", r.Session), CheckFilename(r.Filename)}
	if r.Seq != "" && !r.Seq.valid() {
		errs = append(errs, fmt.Errorf("%w: seq %.32q is no decimal number", ErrRecord, r.Seq))
	}
	if !slices.Contains(categories, r.Category) {
		errs = append(errs, fmt.Errorf("%w: category %.32q; use one of %v", ErrRecord, r.Category, categories))
	}
	if !slices.Contains(writers, r.Writer) {
		errs = append(errs, fmt.Errorf("%w: writer %.32q; use one of %v", ErrRecord, r.Writer, writers))
	}
	if r.Size < UnknownSize {
		errs = append(errs, fmt.Errorf("%w: size %d", ErrRecord, r.Size))
	}
	return errors.Join(errs...)
}

// Fork is the row that a fork of the record's session gets: its own id over the same bytes, the same number (SPEC A7). It
// is of no run: runs stay with their session.
func (r Record) Fork(session string, id ID, at int64) Record {
	r.ForkedFrom = r.ID
	r.ID, r.Session, r.Run, r.Created, r.Place = id, session, "", at, ""
	return r
}

const (
	recordVersion = 1
	recordMembers = 18
	fileMembers   = 20 // of a registered file
	placeMembers  = 21
)

// Encode is the record's value: a msgpack array of the version and the members in the order in which Record has them, as
// integer, text or bin. The last ones are there when the file's digest is known, or its place.
func (r Record) Encode() []byte {
	members := []any{
		recordVersion, string(r.ID), r.Session, r.Created, string(r.Seq), r.Agent, r.Run, r.Node, r.ToolCall, r.Filename,
		r.MIME, r.Size, r.Summary, string(r.Category), string(r.Writer), string(r.ForkedFrom), r.Object, r.Locator,
	}
	if r.Digest != nil || r.Place != "" {
		members = append(members, r.Modified, r.Digest)
	}
	if r.Place != "" {
		members = append(members, r.Place)
	}
	b, err := msgpack.Marshal(members)
	if err != nil {
		panic(err) // integers, strings and bytes always marshal
	}
	return b
}

// DecodeRecord reads a record's value; members that a later version adds are ignored. Errors wrap ErrRecord.
func DecodeRecord(b []byte) (Record, error) {
	if err := bounded.Exactly(b); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	d := decoder{dec: msgpack.NewDecoder(bytes.NewReader(b))}
	n := read(&d, d.dec.DecodeArrayLen)
	if v := read(&d, d.dec.DecodeInt64); d.err == nil && v != recordVersion {
		d.err = fmt.Errorf("version %d; this program reads version %d", v, recordVersion)
		if v > recordVersion {
			d.err = fmt.Errorf("%w: %w", ErrLater, d.err)
		}
	}
	if d.err == nil && n < recordMembers {
		d.err = fmt.Errorf("%d members, want %d", n, recordMembers)
	}
	r := Record{
		ID: ID(d.text()), Session: d.text(), Created: read(&d, d.dec.DecodeInt64), Seq: Seq(d.text()), Agent: d.text(), Run: d.text(),
		Node: d.text(), ToolCall: d.text(), Filename: d.text(), MIME: d.text(), Size: read(&d, d.dec.DecodeInt64), Summary: d.text(),
		Category: Category(d.text()), Writer: Writer(d.text()), ForkedFrom: ID(d.text()), Object: d.text(),
		Locator: read(&d, d.dec.DecodeBytes),
	}
	if n >= fileMembers {
		r.Modified, r.Digest = read(&d, d.dec.DecodeInt64), read(&d, d.dec.DecodeBytes)
	}
	if n >= placeMembers {
		r.Place = d.text()
	}
	if d.err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, d.err)
	}
	if err := r.Validate(); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return r, nil
}

// decoder keeps the first error.
type decoder struct {
	dec *msgpack.Decoder
	at  int // values that were begun
	err error
}

func read[T any](d *decoder, f func() (T, error)) (v T) {
	if d.err != nil {
		return v
	}
	d.at++
	v, err := f()
	if err != nil { // the decoder's own errors speak of its codes
		d.err = fmt.Errorf("value %d is of another kind than it must be", d.at)
	}
	return v
}

func (d *decoder) text() string { return read(d, d.dec.DecodeString) }
