package proof

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/threads"
)

// Report is what a proof says, and what is wrong with it.
type Report struct {
	Session  string    `json:"session,omitempty"`
	SignedBy string    `json:"signed_by,omitempty"` // the key: its name, a plus sign, and 8 digits of its hash
	Threads  []Thread  `json:"threads"`
	Nodes    int       `json:"nodes"`
	Blobs    int       `json:"blobs"` // that the nodes name by digest, and the file does not hold
	Bytes    int64     `json:"bytes"` // of the file
	Findings []Finding `json:"findings"`
}

// Finding is one thing that does not hold.
type Finding struct {
	At   string `json:"at"`
	What string `json:"what"`
}

func (f Finding) String() string { return f.At + "\t" + f.What }

// maxFindings bounds what Verify tells.
const maxFindings = 100

func (r *Report) find(at, format string, args ...any) {
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{at, text.Line(fmt.Sprintf(format, args...))}) // it may quote the file
	}
}

func (s *statement) report(name string, hash uint32) *Report {
	by := fmt.Sprintf("%s+%08x", name, hash)
	return &Report{Session: s.session, SignedBy: by, Threads: s.threads, Findings: []Finding{}}
}

// Verify checks a proof of that many bytes with a public key, and reports what holds and what does not. Without a
// finding every node of the file has its digest and is reached from a head, all that heads reach is there, and the key
// signed the heads. Nothing behind a note is read that the key did not sign. Verify takes memory for some packs, and
// some hundred bytes for each node. Errors are those of reading, and of ctx.
//
// earlier, if not nil, is what Verify reported of a proof of the session before, which holds: a finding is, too, that a thread of it is not
// there any more, or that its start, the head it had or the end of a branch is not in the thread now.
func Verify(
	ctx context.Context, file io.ReaderAt, size int64, key note.Verifier, earlier *Report, progress Progress,
) (*Report, error) {
	failed := &Report{Threads: []Thread{}, Bytes: size, Findings: []Finding{}}
	msg, err := readNote(io.NewSectionReader(file, 0, size))
	if err != nil {
		if errors.Is(err, errNote) {
			failed.find("note", "%v", err)
			return failed, nil
		}
		return nil, err
	}
	said, err := openNote(msg, key)
	if err != nil {
		failed.find("note", "%v", err)
		return failed, nil
	}
	s, err := parseStatement(said)
	if err != nil {
		failed.find("note", "%v", err)
		return failed, nil
	}
	c := checked{Report: s.report(key.Name(), key.KeyHash()), file: file, statement: s, reached: map[casstore.Ref]bool{},
		before: map[string]map[casstore.Ref]bool{}}
	c.behind(earlier)
	c.Bytes = size
	if c.place(int64(len(msg)), size); len(c.Findings) > 0 {
		return c.Report, nil
	}
	if err := c.packs(ctx, progress); err != nil {
		return nil, err
	}
	return c.Report, c.threads(ctx, progress)
}

// errNote says that a file does not begin with a signed note.
var errNote = errors.New("no signed note")

// readNote reads what stands before the packs: lines, an empty one, and one signature.
func readNote(file io.Reader) (msg []byte, err error) {
	r := bufio.NewReader(io.LimitReader(file, maxNote))
	begins, err := r.Peek(len(product))
	if err == nil && string(begins) != product {
		return nil, fmt.Errorf("%w: the file is no proof, it does not begin with %q", errNote, product)
	}
	for signature := false; ; {
		line, err := r.ReadSlice('\n')
		msg = append(msg, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: a line of it is longer than any of a proof", errNote)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: the file ends, or %d bytes do, before its signature", errNote, maxNote)
		case err != nil:
			return nil, err
		case signature:
			return msg, nil
		}
		signature = len(line) == 1
	}
}

// openNote is the text of a note with one signature, that of the key, in the one form that a signer writes.
func openNote(msg []byte, key note.Verifier) (string, error) {
	n, err := note.Open(msg, note.VerifierList(key))
	var other *note.UnverifiedNoteError
	switch {
	case errors.As(err, &other) && len(other.Note.UnverifiedSigs) > 0:
		by := other.Note.UnverifiedSigs[0]
		return "", fmt.Errorf("it is signed by the key %.100s+%08x, and not by %s+%08x",
			by.Name, by.Hash, key.Name(), key.KeyHash())
	case errors.As(err, new(*note.InvalidSignatureError)):
		return "", errors.New("its signature does not fit its text: the text, or the signature, was changed")
	case err != nil:
		return "", err
	}
	again, err := note.Sign(n)
	_, strict := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64)
	if err != nil || strict != nil || !bytes.Equal(again, msg) {
		return "", errors.New("its signature is not in its one form: it was changed")
	}
	return n.Text, nil
}

// checked is a proof whose statement is signed.
type checked struct {
	*Report
	*statement
	file    io.ReaderAt
	reached map[casstore.Ref]bool // nodes that a head leads to, and blobs that these name
	failed  error                 // of a read of the file
	walked  string                // the thread that is read

	before map[string]map[casstore.Ref]bool // by thread: what an earlier proof had in it, until it is read

	states, entries int64 // for the progress
}

// behind takes the heads of an earlier proof.
func (c *checked) behind(earlier *Report) {
	if earlier == nil {
		return
	}
	if earlier.Session != c.Session {
		c.find("note", "it is of the session %s, and the earlier proof of %s", c.Session, earlier.Session)
		return
	}
	for _, t := range earlier.Threads {
		c.before[t.Name] = map[casstore.Ref]bool{}
		for _, ref := range t.ends {
			c.before[t.Name][ref] = true
		}
		if !slices.ContainsFunc(c.Threads, func(now Thread) bool { return now.Name == t.Name }) {
			c.find("thread "+t.Name, "the earlier proof has it, and this one does not")
		}
	}
}

// place says where the packs begin, which are all that is behind the note.
func (c *checked) place(from, size int64) {
	for i := range c.statement.packs {
		p := &c.statement.packs[i]
		p.at = from
		if from += p.header + p.body; from > size {
			c.find(c.where(i), "the file ends at byte %d: its tail was cut off", size)
			return
		}
	}
	if from < size {
		c.find(fmt.Sprintf("byte %d", from), "%d bytes stand behind the last pack", size-from)
	}
}

func (c *checked) where(pack int) string {
	p := c.statement.packs[pack]
	return fmt.Sprintf("pack %d, bytes %d to %d", pack+1, p.at, p.at+p.header+p.body)
}

// open reads a pack, and says whether it is the signed one, which also one may not be that is a pack.
func (c *checked) open(pack int) (p *casstore.Pack, signed bool, err error) {
	at := c.statement.packs[pack]
	b := make([]byte, at.header+at.body)
	if _, err := c.file.ReadAt(b, at.at); err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
		return nil, false, err
	}
	signed = sha256.Sum256(b) == at.sum
	p, err = casstore.OpenPack(b[:at.header:at.header], b[at.header:])
	if err == nil && p.Len() > 1 && p.RawLen() > packRaw {
		err = fmt.Errorf("%w: %d nodes of %d bytes, the limit is %d", casstore.ErrCorrupt, p.Len(), p.RawLen(), packRaw)
	}
	return p, signed, err
}

// Pack implements casstore.PackGetter.
func (c *checked) Pack(_ context.Context, id casstore.PackID) (*casstore.Pack, error) {
	n := binary.BigEndian.Uint64(id[8:]) - 1
	if n >= uint64(len(c.statement.packs)) || packID(int(n)) != id {
		return nil, fmt.Errorf("pack %s of the proof: %w", id, casstore.ErrNotFound)
	}
	p, _, err := c.open(int(n))
	return p, err
}

// packs checks every byte of the packs, and every node against its digest.
func (c *checked) packs(ctx context.Context, progress Progress) error {
	for i := range c.statement.packs {
		if err := ctx.Err(); err != nil {
			return err
		}
		progress("digests", int64(i), int64(len(c.statement.packs)))
		p, signed, err := c.open(i)
		if c.failed != nil {
			return c.failed
		}
		if !signed {
			c.find(c.where(i), "its bytes are not those that were signed")
		}
		if err == nil {
			c.Nodes += p.Len()
			err = p.Verify()
		}
		if err != nil {
			c.find(c.where(i), "%v", err)
		}
	}
	return nil
}

// threads checks that what is held is what the heads lead to.
func (c *checked) threads(ctx context.Context, progress Progress) error {
	for _, t := range c.Threads {
		c.entries += min(t.Entries, int64(c.Nodes))
	}
	r := threads.Reader{Packs: casstore.NewPackCache(c, 64<<20), Read: func(ref casstore.Ref, n casstore.Node) error {
		if n.Type == threads.TypeState && !c.reached[ref] {
			c.states++
			progress("threads", c.states, c.entries)
		}
		c.reached[ref] = true
		delete(c.before[c.walked], ref)
		for _, to := range n.Refs {
			if to.Kind() == casstore.KindBlob {
				c.reached[to] = true
			}
		}
		return nil
	}}
	for i := range c.Threads {
		t := &c.Threads[i]
		head := threads.Head{Start: t.start, Tips: t.tips, Older: t.older, Entries: t.Entries, N: t.Items}
		c.walked = t.Name
		var err error
		if !t.head.IsZero() {
			head.Recent, err = r.Recent(ctx, t.head)
		}
		if err == nil {
			err = threads.Verify(ctx, r, head)
		}
		t.ends = append(t.ends, head.Start.Ref)
		for end, no := range r.Newest(ctx, head, 0) {
			if t.ends = append(t.ends, end.Ref); no != nil { // which Verify found
				break
			}
		}
		if failed := cmp.Or(ctx.Err(), c.failed); failed != nil {
			return failed
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				c.find("thread "+t.Name, "%s", line)
			}
		}
		for ref := range c.before[t.Name] {
			if err == nil {
				c.find("thread "+t.Name, "it does not lead to %s, as in the earlier proof: it went back, or is another history", ref)
			}
		}
	}
	progress("threads", c.entries, c.entries)
	nodes := 0
	for ref := range c.reached {
		if ref.Kind() == casstore.KindNode {
			nodes++
		}
	}
	c.Blobs = len(c.reached) - nodes
	if nodes != c.Nodes && len(c.Findings) == 0 {
		c.find("packs", "they hold %d nodes, and the heads lead to %d: others were added, or stand twice", c.Nodes, nodes)
	}
	return nil
}
