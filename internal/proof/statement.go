package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spool/pkg/casstore"
	"spool/pkg/events"
)

// errStatement says that a text is no statement. It is wrapped with the line and what is wrong.
var errStatement = errors.New("no statement of a proof")

const (
	product = "spool proof "
	version = "1"

	maxNote   = 16 << 20                 // bytes of a note
	packRaw   = 8 << 20                  // bytes of the nodes of a pack, but for a node that is larger alone
	maxHeader = 64 << 20                 // bytes of the header of a pack: a node has up to casstore.MaxRefs refs
	maxBody   = casstore.MaxNode * 9 / 8 // what does not shrink grows a little
)

// statement is what is signed: where threads are, and the bytes of the packs that hold what they reach.
type statement struct {
	session string
	threads []Thread
	packs   []packed
}

// Thread is what a proof says of a thread.
type Thread struct {
	Name    string `json:"thread"`
	Head    string `json:"head,omitempty"` // ref of the newest state; empty: there is none
	Entries int64  `json:"entries"`
	Items   int64  `json:"items"`

	start, head, older casstore.Located // older: the node of the tips that the statement does not name; zero: none
	tips               []casstore.Located

	ends []casstore.Ref // all of the thread is reached from these: the start, the head and the ends of branches
}

// packed is a pack of the file.
type packed struct {
	header, body int64 // lengths in bytes
	sum          [sha256.Size]byte
	at           int64 // where it begins in the file
}

// packID is the id of the nth pack, from 0.
func packID(n int) (id casstore.PackID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
	return id
}

// text is the one form of a statement.
func (s *statement) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\nsession %s\n", product, version, s.session)
	for _, t := range s.threads {
		fmt.Fprintf(&b, "thread %s\nstart %s\n", t.Name, t.start)
		if !t.head.IsZero() {
			fmt.Fprintf(&b, "head %s\n", t.head)
		}
		for _, tip := range t.tips {
			fmt.Fprintf(&b, "tip %s\n", tip)
		}
		if !t.older.IsZero() {
			fmt.Fprintf(&b, "older %s\n", t.older)
		}
		fmt.Fprintf(&b, "entries %d\nitems %d\n", t.Entries, t.Items)
	}
	for _, p := range s.packs {
		fmt.Fprintf(&b, "pack %d %d %x\n", p.header, p.body, p.sum)
	}
	return b.String()
}

// parseStatement is the opposite of text, for a text that text writes. Errors wrap errStatement.
func parseStatement(text string) (*statement, error) {
	l := lines{rest: text}
	if v := l.must("spool"); l.err == nil && v != strings.TrimPrefix(product, "spool ")+version {
		return nil, fmt.Errorf("%w: it begins with %.40q, this program reads %q", errStatement, "spool "+v, product+version)
	}
	s := &statement{session: l.name("session")}
	for l.err == nil && l.is("thread") {
		t := Thread{Name: l.name("thread"), start: l.located("start")}
		if l.is("head") {
			t.head = l.located("head")
			t.Head = t.head.Ref.String()
		}
		for l.err == nil && l.is("tip") {
			t.tips = append(t.tips, l.located("tip"))
		}
		if l.is("older") {
			t.older = l.located("older")
		}
		t.Entries, t.Items = l.number(l.must("entries")), l.number(l.must("items"))
		if n := len(s.threads); n > 0 && t.Name <= s.threads[n-1].Name {
			l.fail("the thread %s stands twice, or not in the order of names", t.Name)
		}
		s.threads = append(s.threads, t)
	}
	for l.err == nil && l.rest != "" {
		s.packs = append(s.packs, l.pack())
	}
	if l.err == nil && s.text() != text {
		l.fail("it is not in its one form")
	}
	return s, l.err
}

// lines reads lines of a key and a value. After an error nothing more is read.
type lines struct {
	rest string
	at   int // lines read
	err  error
}

func (l *lines) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%w: line %d: %s", errStatement, l.at, fmt.Sprintf(format, args...))
	}
}

// is reports whether the next line has that key.
func (l *lines) is(key string) bool { return strings.HasPrefix(l.rest, key+" ") }

// must is the value of the next line, which has that key.
func (l *lines) must(key string) string {
	l.at++
	line, rest, whole := strings.Cut(l.rest, "\n")
	value, is := strings.CutPrefix(line, key+" ")
	if !whole || !is {
		l.fail("%.80q, want %s", line, key)
	}
	if l.err != nil {
		return ""
	}
	l.rest = rest
	return value
}

func (l *lines) name(key string) string {
	v := l.must(key)
	if err := events.CheckToken(key, v); err != nil && l.err == nil {
		l.fail("%v", err)
	}
	return v
}

func (l *lines) located(key string) casstore.Located {
	at, err := casstore.ParseLocated(l.must(key))
	if err != nil {
		l.fail("%v", err)
	}
	return at
}

func (l *lines) number(v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		l.fail("%.40q is no number from 0 on", v)
	}
	return n
}

func (l *lines) pack() (p packed) {
	v := strings.Split(l.must("pack"), " ")
	if len(v) != 3 {
		l.fail("%d values, want the lengths of header and body, and a digest", len(v))
		return p
	}
	p.header, p.body = l.number(v[0]), l.number(v[1])
	if p.header > maxHeader || p.body > maxBody {
		l.fail("a pack of %d and %d bytes, the limits are %d and %d", p.header, p.body, maxHeader, maxBody)
	}
	if sum, err := hex.DecodeString(v[2]); err != nil || len(sum) != len(p.sum) {
		l.fail("%.80q is no digest", v[2])
	} else {
		p.sum = [sha256.Size]byte(sum)
	}
	return p
}
