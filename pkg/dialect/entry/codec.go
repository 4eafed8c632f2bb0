package entry

import (
	"encoding/binary"
	"fmt"

	"spool/internal/family"
)

// MaxMemory is the most bytes that a memory encodes to, and that DecodeMemory reads.
const MaxMemory = 4096

// ErrMemory is wrapped by every memory that cannot be read.
var ErrMemory = family.Damaged.New("bad projection memory")

const memoryVersion = 1

const (
	flagTree = 1 << iota
	flagNumbered
	flagBusy
	flagTells
)

// Encode is the memory as bytes, the same for the same memory; nil when it is empty. Shape: a version byte, a byte of
// flags, then unsigned varints: start (zigzag), sum, count, total (zigzag), the number of messages and each with its id
// as 8 bytes, the number of calls and each as 8 bytes and flags; ended as 8 bytes stands before the messages. With flag 2
// follow the place of the next entry and the session's id with its length before it. With flag 4 follows the
// time of work. Flag 8 is set where the source tells when turns begin.
func (m *Memory) Encode() []byte {
	messages := 0
	for messages < maxSeen && m.seen[messages].id != 0 {
		messages++
	}
	if len(m.calls) == 0 && !m.tree && m.place == 0 && !m.tells && !m.anything() {
		return nil
	}
	b := make([]byte, 0, 64+24*messages+9*len(m.calls))
	b = append(b, memoryVersion, 0)
	if m.tree {
		b[1] |= flagTree
	}
	if m.place != 0 {
		b[1] |= flagNumbered
	}
	if m.busy > 0 {
		b[1] |= flagBusy
	}
	if m.tells {
		b[1] |= flagTells
	}
	b = binary.AppendVarint(b, m.start)
	b = appendUsage(appendUsage(b, m.sum), m.count)
	b = binary.AppendVarint(b, m.total)
	b = binary.BigEndian.AppendUint64(b, m.ended)
	b = append(b, byte(messages))
	for _, s := range m.seen[:messages] {
		b = appendUsage(binary.BigEndian.AppendUint64(b, s.id), s.u)
	}
	b = append(b, byte(len(m.calls)))
	for _, c := range m.calls {
		b = append(binary.BigEndian.AppendUint64(b, c.id), byte(c.flags))
	}
	if m.place != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(m.place)), uint64(len(m.session)))
		b = append(b, m.session...)
	}
	if m.busy > 0 {
		b = binary.AppendUvarint(b, uint64(m.busy))
	}
	return b
}

func appendUsage(b []byte, u Usage) []byte {
	b = binary.AppendUvarint(b, uint64(u.Input))
	b = binary.AppendUvarint(b, uint64(u.Cached))
	return binary.AppendUvarint(b, uint64(u.Output))
}

// DecodeMemory reads what Encode wrote; no bytes are an empty memory. It accepts only bytes that encode again to
// themselves.
func DecodeMemory(b []byte) (Memory, error) {
	var m Memory
	if len(b) == 0 {
		return m, nil
	}
	if len(b) > MaxMemory {
		return m, fmt.Errorf("%w: %d bytes, at most %d", ErrMemory, len(b), MaxMemory)
	}
	r := reader{b: b}
	if v := r.byte(); v != memoryVersion {
		return m, fmt.Errorf("%w: version %d; this program reads version %d", ErrMemory, v, memoryVersion)
	}
	flags := r.byte()
	m.tree, m.tells = flags&flagTree != 0, flags&flagTells != 0
	m.start = r.varint()
	m.sum, m.count = r.usage(), r.usage()
	m.total = r.varint()
	m.ended = r.uint64()
	for i := range r.count(maxSeen) {
		m.seen[i] = seen{id: r.uint64(), u: r.usage()}
	}
	for range r.count(maxCalls) {
		m.calls = append(m.calls, call{id: r.uint64(), flags: Flags(r.byte())})
	}
	if flags&flagNumbered != 0 {
		m.place = int64(r.tokens())
		m.session = r.text(maxSession)
	}
	if flags&flagBusy != 0 {
		m.busy = r.tokens()
	}
	if r.bad || len(r.b) != 0 || string(m.Encode()) != string(b) {
		return Memory{}, fmt.Errorf("%w: not as this program writes it", ErrMemory)
	}
	return m, nil
}

// reader takes values off the front; once bad, it gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.b) || n <= 0 {
		r.bad = true
		return make([]byte, 8)
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *reader) count(most byte) int {
	n := r.byte()
	if n > most {
		r.bad = true
		return 0
	}
	return int(n)
}

// text reads a string with its length before it.
func (r *reader) text(most int64) string {
	n := r.tokens()
	if n == 0 {
		return ""
	}
	if n > most {
		r.bad = true
	}
	return string(r.take(int(n)))
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.take(n)
	return v
}

func (r *reader) usage() Usage { return Usage{r.tokens(), r.tokens(), r.tokens()} }

func (r *reader) tokens() int64 {
	v, n := binary.Uvarint(r.b)
	r.take(n)
	r.bad = r.bad || v > 1<<52
	return int64(v & (1<<52 | (1<<52 - 1)))
}
