package threads

import (
	"fmt"

	"spool/internal/bounded"
	"spool/pkg/casstore"
)

// The versions of the head encoding that this package writes and reads. The second one is that of a head with nodes
// that hold what is too much for it: a program that does not know them must not take the rest for all.
const HeadVersion, GrownHeadVersion = 1, 2

// headFields is the length of the array, the version included, that the first version writes; of the last eight a reader can
// do without. The last one, the claim, is left out where it is 0, and the life before it where that is 0, too. The second
// version has all of them, and three more. Behind those of either come the gaps, where the thread began and the file that was captured,
// as far as there is any.
const headFields, minHeadFields, grownHeadFields = 29, 21, 32

// Encode writes the head as a msgpack array, the version first (docs/format.md).
func (h Head) Encode() []byte {
	producers := h.own()
	size := 256 + (casstore.LocatedSize+2)*(1+len(h.Recent)+len(h.Tips))
	b := make([]byte, 0, size+48*len(producers)+len(h.Memory)+len(h.Later))
	version, fields := int64(HeadVersion), headFields
	grown := !h.Older.IsZero() || !h.Seen.IsZero()
	captured := h.Captured != Captured{} || len(h.Later) > 0
	began := h.Began != 0 || captured
	gaps := len(h.Gaps) > 0 || began
	dated := h.Claimed == 0 && !gaps && !grown
	first := h.Life == 0 && dated
	switch {
	case grown:
		version, fields = GrownHeadVersion, grownHeadFields
	case first:
		fields -= 2
	case dated:
		fields--
	}
	for _, is := range []bool{gaps, began, captured} {
		if is {
			fields++
		}
	}
	b = casstore.AppendArrayHeader(b, fields+countValues(h.Later))
	b = casstore.AppendInt(b, version)
	b = appendLocated(b, h.Start)
	b = appendLocatedList(b, h.Recent)
	b = appendLocatedList(b, h.Tips)
	b = appendProducers(b, producers)
	b = casstore.AppendUint(b, h.Applied)
	b = casstore.AppendInt(casstore.AppendInt(casstore.AppendInt(b, h.N), h.Sent), h.Entries)
	b = casstore.AppendText(casstore.AppendUint(b, uint64(h.Status)), []byte(h.Failure))
	b = casstore.AppendText(casstore.AppendText(b, []byte(h.Leaf)), []byte(h.Dialect))
	b = casstore.AppendBin(casstore.AppendBin(b, h.Memory), h.Batch[:])
	b = casstore.AppendInt(casstore.AppendInt(b, h.Updated), h.Created)
	b = casstore.AppendInt(casstore.AppendInt(b, h.Truncated), h.Externalized)
	b = casstore.AppendInt(casstore.AppendInt(b, h.Unknown), h.BytesIn)
	b = casstore.AppendUint(casstore.AppendInt(b, h.Messages), uint64(h.Standing))
	b = casstore.AppendInt(casstore.AppendInt(b, h.Turns), h.TokensIn)
	b = casstore.AppendInt(casstore.AppendInt(b, h.TokensCached), h.TokensOut)
	if !first {
		b = casstore.AppendUint(b, h.Life)
	}
	if !dated {
		b = casstore.AppendInt(b, h.Claimed)
	}
	if grown {
		b = appendLocated(casstore.AppendInt(appendLocated(b, h.Older), h.OlderTips), h.Seen)
	}
	if gaps {
		b = appendGaps(b, h.Gaps)
	}
	if began {
		b = casstore.AppendUint(b, h.Began)
	}
	if captured {
		b = appendCaptured(b, h.Captured)
	}
	return append(b, h.Later...)
}

// DecodeHead decodes untrusted bytes. It keeps fields that a later writer appended. Memory and Later alias b. Errors wrap
// casstore.ErrVersion, naming the version found, or casstore.ErrMalformed.
func DecodeHead(b []byte) (Head, error) {
	c := casstore.NewCursor(b)
	fields := c.Array()
	v := c.Uint()
	if c.Err() == nil && v != HeadVersion && v != GrownHeadVersion {
		return Head{}, fmt.Errorf("thread head: %w: %d, this program reads the versions %d and %d",
			casstore.ErrVersion, v, HeadVersion, GrownHeadVersion)
	}
	if fields < minHeadFields || v == GrownHeadVersion && fields < grownHeadFields {
		c.Fail("a field is missing")
	}
	h := Head{Start: parseLocated(c), Recent: parseLocatedList(c, MaxRecent), Tips: parseLocatedList(c, len(b))}
	h.Producers = parseProducers(c)
	h.Applied = c.Uint()
	h.N, h.Sent, h.Entries = c.Int(), c.Int(), c.Int()
	status := c.Uint()
	if h.Status = Status(status); status > uint64(StatusFailed) {
		c.Fail("unknown status")
	}
	h.Failure, h.Leaf, h.Dialect = string(c.Text()), string(c.Text()), string(c.Text())
	if m := c.Bin(); len(m) > 0 {
		h.Memory = m
	}
	if id := c.Bin(); len(id) == len(h.Batch) {
		h.Batch = [16]byte(id)
	} else {
		c.Fail("want a batch id of 16 bytes")
	}
	h.Updated, h.Created = c.Int(), c.Int()
	h.Truncated, h.Externalized, h.Unknown, h.BytesIn = c.Int(), c.Int(), c.Int(), c.Int()
	if fields > minHeadFields {
		h.Messages = c.Int()
	}
	if fields > minHeadFields+1 {
		h.Standing = uint8(min(c.Uint(), 255))
	}
	for i, field := range []*int64{&h.Turns, &h.TokensIn, &h.TokensCached, &h.TokensOut} {
		if fields > minHeadFields+2+i {
			*field = c.Int()
		}
	}
	if fields > minHeadFields+6 {
		h.Life = c.Uint()
	}
	if fields > minHeadFields+7 {
		h.Claimed = c.Int()
	}
	if v == GrownHeadVersion {
		h.Older, h.OlderTips, h.Seen = parseLocated(c), c.Int(), parseLocated(c)
	}
	known := headFields
	if v == GrownHeadVersion {
		known = grownHeadFields
	}
	if fields > known {
		h.Gaps = parseGaps(c)
	}
	if fields > known+1 {
		h.Began = c.Uint()
	}
	if fields > known+2 {
		h.Captured = parseCaptured(c)
	}
	if rest := c.Rest(); len(rest) > 0 {
		h.Later = rest
	}
	if err := c.Done(); err != nil {
		return Head{}, fmt.Errorf("thread head: %w", err)
	}
	return h, nil
}

// appendCaptured writes an array, nil for none.
func appendCaptured(b []byte, f Captured) []byte {
	if f == (Captured{}) {
		return casstore.AppendNil(b)
	}
	b = casstore.AppendArrayHeader(b, 6)
	for _, text := range []string{f.By, f.Host, f.Home} {
		b = casstore.AppendText(b, []byte(text))
	}
	return casstore.AppendBin(casstore.AppendInt(casstore.AppendInt(b, f.Size), f.Modified), f.Sum[:])
}

func parseCaptured(c *casstore.Cursor) (f Captured) {
	if c.Nil() {
		return f
	}
	if c.Array() != 6 {
		c.Fail("want a file of six fields")
	}
	f = Captured{By: string(c.Text()), Host: string(c.Text()), Home: string(c.Text()), Size: c.Int(), Modified: c.Int()}
	if copy(f.Sum[:], c.Bin()) != len(f.Sum) {
		c.Fail("want a sum of 32 bytes")
	}
	return f
}

// countValues counts the encoded values in fields that DecodeHead kept.
func countValues(b []byte) int {
	n := 0
	for len(b) > 0 {
		size, err := bounded.Check(b)
		if err != nil {
			break
		}
		b = b[size:]
		n++
	}
	return n
}

// appendLocated writes a bin of casstore.LocatedSize bytes, nil for none.
func appendLocated(b []byte, l casstore.Located) []byte {
	if l.IsZero() {
		return casstore.AppendNil(b)
	}
	var scratch [casstore.LocatedSize]byte
	return casstore.AppendBin(b, l.AppendTo(scratch[:0]))
}

func appendLocatedList(b []byte, list []casstore.Located) []byte {
	b = casstore.AppendArrayHeader(b, len(list))
	for _, l := range list {
		b = appendLocated(b, l)
	}
	return b
}

func parseLocated(c *casstore.Cursor) casstore.Located {
	if c.Nil() {
		return casstore.Located{}
	}
	b := c.Bin()
	if c.Err() != nil {
		return casstore.Located{}
	}
	l, err := casstore.LocatedFromBytes(b)
	if err != nil {
		c.Fail(err.Error())
	}
	return l
}

// parseLocatedList reads an array without nil in it.
func parseLocatedList(c *casstore.Cursor, limit int) []casstore.Located {
	n := c.Array()
	if n > limit {
		c.Fail("a list is too long")
	}
	var list []casstore.Located
	if n > 0 {
		list = make([]casstore.Located, 0, min(n, MaxRecent))
	}
	for i := 0; i < n && c.Err() == nil; i++ {
		l := parseLocated(c)
		if l.IsZero() {
			c.Fail("a list of states contains nil")
		}
		list = append(list, l)
	}
	return list
}

func appendProducers(b []byte, list []Producer) []byte {
	b = casstore.AppendArrayHeader(b, len(list))
	for _, p := range list {
		b = casstore.AppendText(casstore.AppendArrayHeader(b, 4), []byte(p.ID))
		b = casstore.AppendUint(casstore.AppendUint(casstore.AppendUint(b, p.Epoch), p.Seq), p.At)
	}
	return b
}

func parseProducers(c *casstore.Cursor) []Producer {
	return parseFours(c, MaxProducers, "producer", func() Producer {
		return Producer{ID: string(c.Text()), Epoch: c.Uint(), Seq: c.Uint(), At: c.Uint()}
	})
}

// parseFours reads an array of arrays of four fields, which one reads.
func parseFours[T any](c *casstore.Cursor, most int, what string, one func() T) (list []T) {
	n := c.Array()
	if n > most {
		c.Fail("too many " + what + "s")
	}
	for i := 0; i < n && c.Err() == nil; i++ {
		if c.Array() != 4 {
			c.Fail("want a " + what + " of four fields")
		}
		list = append(list, one())
	}
	return list
}
