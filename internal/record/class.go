package record

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spool/internal/bounded"
	"spool/pkg/artifacts"
	"spool/pkg/sessions"
	"spool/pkg/threads"
)

// ErrClass: the key of a record begins with a word that this version does not know. What the record keeps alive, and what it
// names, is unknown then: whoever decides about existence refuses to go on.
var ErrClass = errors.New("a record of a class that this version does not know")

// Unknown are the keys of records of such classes that are there.
type Unknown map[string]bool

// Class is the class of a record; ok is false for one that is unknown, which is noted.
func (u Unknown) Class(r Record) (c Class, ok bool) {
	c, err := ClassOf(r.Key)
	if delete(u, r.Key); err != nil && r.Exists() {
		u[r.Key] = true
	}
	return c, err == nil
}

// Err names them; it wraps ErrClass, and is nil where there are none.
func (u Unknown) Err() error {
	if len(u) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(u))
	names := strings.Join(keys[:min(len(keys), 3)], ", ")
	return fmt.Errorf("%w: %.300q (%d in all); a later version wrote it, or somebody past Spool", ErrClass, names, len(u))
}

// Keeps is what a record keeps alive.
type Keeps int

const (
	Nothing   Keeps = iota
	Nodes           // what the states of a head reach
	PackBytes       // a pack
	BlobBytes       // a blob
	MovedTo         // the way to a pack that took over the nodes of another
	FileBytes       // bytes of an artifact, or of an output that goes on
)

// Class is what a kind of record means: the first word of its key.
type Class struct {
	Name    string
	Session bool // belongs to a session, and goes with it (events.SessionOf)
	Own     bool // of the system that writes, not of what is stored: a backup leaves it out, or has what lasts of it
	Keeps   Keeps

	Sequence bool // its sequence is all that counts: nobody reads the value

	// Brief: of something that soon ends. That it was removed is forgotten after a while (docs/adr/0031).
	Brief bool

	check  func(value []byte) error
	lasts  func(value []byte) []byte
	object func(value []byte) (Object, error)
}

// Alone reports whether records of the class are of no session, lead to nothing, and say something by their values.
func (c Class) Alone() bool { return !c.Session && c.Keeps == Nothing && !c.Sequence }

// Lasts is the value that a backup has of a record: of one that is the system's own, what goes for another system too, nil if nothing does.
func (c Class) Lasts(value []byte) []byte {
	if !c.Own {
		return value
	}
	if c.lasts == nil {
		return nil
	}
	return c.lasts(value)
}

// Check is the error of reading a value that the record has. Classes of which nothing is read have none.
func (c Class) Check(value []byte) error {
	if (Record{Value: value}).IsForeign() {
		return fmt.Errorf("%w: %s: %w", ErrValue, c.Name, bounded.ErrForeign)
	}
	if c.check == nil {
		return nil
	}
	return c.check(value)
}

// Object is the bytes that a record names; the zero Object: none.
func (c Class) Object(value []byte) (Object, error) {
	if c.object == nil {
		return Object{}, nil
	}
	return c.object(value)
}

// ClassOf is the class of a record. Errors wrap ErrClass, and ErrValue.
func ClassOf(key string) (Class, error) {
	name, _, _ := strings.Cut(key, ".")
	if c, ok := byName[name]; ok {
		return c, nil
	}
	return Class{}, fmt.Errorf("%w: %.100q: %w", ErrValue, key, ErrClass)
}

// Classes are all that there are. A key function of pkg/events without a row here is an error of TestEveryKeyHasAClass.
var Classes = []Class{
	{Name: "thread", Session: true, Keeps: Nodes, check: reads(threads.DecodeHead)},
	{Name: "history", Session: true, Keeps: Nodes, check: reads(threads.DecodeHead)},
	{Name: "left", Session: true, check: reads(DecodeLeft)},
	{Name: "session", Session: true, check: reads(sessions.DecodeInfo)},
	{Name: "counter", Session: true, check: reads(DecodeCounter)},
	{Name: "artifact", Session: true, Keeps: FileBytes, check: reads(artifacts.DecodeRecord), object: artifactObject},
	{Name: "shared", Session: true},
	{Name: "output", Session: true, Brief: true, Keeps: FileBytes, check: reads(DecodeOutput), object: outputObject},
	{Name: "outputbase", Session: true, Brief: true, check: reads(DecodeOutputBase)},
	{Name: "prompt", Session: true, check: reads(DecodePrompt)},
	{Name: "answered", Session: true, check: reads(DecodePrompt)},
	{Name: "run", Session: true, check: reads(DecodeRun)},
	{Name: "stream", Session: true},
	{Name: "claude", Session: true, check: reads(DecodeClaude)},
	{Name: "pack", Keeps: PackBytes, check: reads(DecodePack), object: packObject},
	{Name: "blob", Keeps: BlobBytes, check: reads(DecodeBlob), object: blobObject},
	{Name: "moved", Keeps: MovedTo, check: reads(DecodeMoved)},
	{Name: "deleted", check: reads(DecodeDeleted)},
	{Name: "deleting"},
	{Name: "letters", check: reads(DecodeLetters)},
	{Name: "retention"},
	{Name: "subscription"},
	{Name: "gc", Own: true},
	{Name: "fence", Own: true, Sequence: true},
	{Name: "lane", Own: true, Sequence: true},
	{Name: "refused", Own: true, check: reads(DecodeRefused), lasts: lastingRefused},
	{Name: "tried", Own: true, check: reads(DecodeTried)},
}

var byName = func() map[string]Class {
	all := make(map[string]Class, len(Classes))
	for _, c := range Classes {
		all[c.Name] = c
	}
	return all
}()

func reads[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(value []byte) error {
		_, err := decode(value)
		return err
	}
}

func packObject(value []byte) (Object, error) {
	p, err := DecodePack(value)
	if err != nil || p.Gone {
		return Object{}, err
	}
	return p.Object, nil
}

func blobObject(value []byte) (Object, error) {
	b, err := DecodeBlob(value)
	if err != nil || b.Gone {
		return Object{}, err
	}
	return b.Object, nil
}

func artifactObject(value []byte) (Object, error) {
	a, err := artifacts.DecodeRecord(value)
	if err != nil || a.Locator == nil {
		return Object{}, err
	}
	return DecodeLocator(a.Locator)
}

func outputObject(value []byte) (Object, error) {
	o, err := DecodeOutput(value)
	if err != nil {
		return Object{}, err
	}
	return o.object(), nil
}
