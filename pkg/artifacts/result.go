package artifacts

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"time"
)

// ResultMIME is what a large result is (SPEC A4).
const ResultMIME = "text/plain"

// maxIndex is how far ForkID looks for the item of a large result: no entry has as many items.
const maxIndex = 1 << 16

// ResultID names the artifact that a large result becomes by itself (SPEC A4): the one of the index-th item of the entry
// whose state is node. at is the entry's time, Unix milliseconds. In each session it is another.
func ResultID(session, node string, index int, at int64) ID {
	return NewID(time.UnixMilli(at), resultEntropy(session, node, index))
}

func resultEntropy(session, node string, index int) [10]byte {
	sum := sha256.Sum256([]byte(session + " " + node + " " + strconv.Itoa(index)))
	return [10]byte(sum[:10])
}

// ForkID is the ID of the row that a fork of the record's session gets (SPEC A7): the same however often it is made. That of
// a large result is the one which the items of the fork name.
func (r Record) ForkID(session string) ID {
	if at, tail, ok := cutTail(r.ID); ok && r.Writer == FromResult {
		for i := range maxIndex {
			e := resultEntropy(r.Session, r.Node, i)
			if crockford.EncodeToString(e[:]) == tail {
				e = resultEntropy(session, r.Node, i)
				return ID(at + crockford.EncodeToString(e[:]))
			}
		}
	}
	sum := sha256.Sum256([]byte(session + " " + string(r.ID)))
	return NewID(time.UnixMilli(r.Created), [10]byte(sum[:10]))
}

// cutTail divides an ID into its time and its random part.
func cutTail(id ID) (before, tail string, ok bool) {
	i := strings.LastIndexByte(string(id), '_') + 1
	return string(id)[:i], string(id)[i:], i > 0
}
