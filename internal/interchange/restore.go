package interchange

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"spool/internal/transcript"
	"spool/pkg/casstore"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// notes is what a .spool.json file holds: what the session file beside it does not say of its entries, nor the files in its folder of
// themselves.
type notes struct {
	Version   int            `json:"v"`
	Entries   []note         `json:"entries,omitempty"`   // those of which there is something to say, in order
	Artifacts []artifactNote `json:"artifacts,omitempty"` // the same
	Fork      *forkNote      `json:"fork,omitempty"`      // of the file of a fork
}

// note is about one entry of a session file.
type note struct {
	N       int        `json:"n"`                 // which JSON object of the file, from 1
	Sum     string     `json:"sha256"`            // of the object as it stands there: one that was changed since is left alone
	Full    string     `json:"full,omitempty"`    // blob ref: the entry before a rule cut it (SPEC T9)
	Splices [][2]int64 `json:"splices,omitempty"` // where blob refs stand for values, and in which form those were (docs/format.md)
}

const notesVersion = 1

// NotesFile is the name of the notes beside a session file.
func NotesFile(name string) string {
	dir, base := filepath.Split(name)
	return dir + fitted(strings.TrimSuffix(base, sessionExt), notesExt)
}

const notesExt = ".spool.json"

const sessionExt = ".jsonl"

// about is what is to be said of an entry that stands in a file as text; ok is false for nothing.
func about(n int, text []byte, r threads.Record) (x note, ok bool) {
	sum := sha256.Sum256(text)
	return note{N: n, Sum: hex.EncodeToString(sum[:]), Full: r.Full.String(), Splices: r.Splices}, !r.Full.IsZero() || len(r.Splices) > 0
}

// Restore gives a session file that Spool exported the power to give its entries back as they were taken in, before images
// were moved out and strings were cut. Any other file is as it is. warn is told of entries that stay as they stand.
func Restore(s transcript.Source, warn func(error)) (transcript.Source, error) {
	if !strings.HasSuffix(s.Path, sessionExt) {
		return s, nil
	}
	all, err := readNotes(s)
	if s.Fork = all.Fork.fork(); err != nil || len(all.Entries) == 0 {
		return s, err
	}
	byN := make(map[int]note, len(all.Entries))
	for _, x := range all.Entries {
		byN[x.N] = x
	}
	plain := s
	s.Restore = func(n int, body []byte) []byte {
		x, ok := byN[n]
		if !ok {
			return body
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != x.Sum {
			return body
		}
		original, err := x.undo(plain, body)
		if err != nil {
			warn(fmt.Errorf("%s: object %d stays as it stands: %w", s.Path, n, err))
			return body
		}
		return original
	}
	return s, nil
}

// readNotes reads the notes beside a session file; none are no error.
func readNotes(s transcript.Source) (all notes, err error) {
	f, err := s.FS.Open(NotesFile(s.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	raw, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return all, err
	}
	if err := json.Unmarshal(raw, &all); err != nil || all.Version != notesVersion {
		return notes{}, fmt.Errorf("%s: not notes of version %d; entries and artifacts are imported as they stand: %w",
			NotesFile(s.Path), notesVersion, errors.Join(err))
	}
	return all, nil
}

// undo is the entry as it was taken in.
func (x note) undo(s transcript.Source, body []byte) ([]byte, error) {
	get := func(text string) ([]byte, error) {
		ref, err := casstore.ParseRef(text)
		if err != nil {
			return nil, err
		}
		return readBlob(s, ref)
	}
	if x.Full != "" {
		full, err := get(x.Full)
		if err != nil {
			return nil, err
		}
		body = full
	}
	splices := make([]truncate.Splice, len(x.Splices))
	for i, sp := range x.Splices {
		splices[i] = truncate.Splice{Offset: int(sp[0]), Form: truncate.Form(sp[1])}
	}
	return truncate.Restore(body, splices, get)
}
