package httpapi

import (
	"context"
	"strconv"
	"strings"

	"spool/pkg/client"
)

// storeMark is the beginning of the name of the store whose items a reader has; "": it is not known. What is restored from a backup can
// have other items under the same numbers than the store that was before.
type storeMark string

func (m storeMark) appendTo(id []byte) []byte {
	if m == "" {
		return id
	}
	return append(append(id, ";~"...), m...)
}

// cutStore cuts it from the end of a cursor.
func cutStore(id string) (rest string, m storeMark) {
	rest, mark, _ := strings.Cut(id, ";~")
	return rest, storeMark(mark)
}

// replaced reports whether the store is another one now, and remembers which it is.
func (m *storeMark) replaced(ctx context.Context, cl *client.Client) (bool, error) {
	name, err := cl.Store(ctx)
	if err != nil || name == "" {
		return false, err
	}
	had, now := *m, storeMark(name[:min(len(name), 8)])
	*m = now
	return had != "" && had != now, nil
}

const restored = "the store was restored from a backup: what it has can be other than what you read"

// mark is how far a reader has come in a thread, as a cursor tells it: the number of the last item and, of a name that was used
// before, the life that it is of (SPEC P12).
type mark struct {
	n    int64
	life uint64
}

// covers reports whether a reader that has come so far has no use for an item: it has it, or another thread took the name since.
// A life is the sequence of the event that began it, so lives of a name grow.
func (m mark) covers(item mark) bool {
	return item.life < m.life || item.life == m.life && item.n <= m.n
}

func (m mark) appendTo(b []byte) []byte {
	b = strconv.AppendInt(b, m.n, 10)
	if m.life != 0 {
		b = strconv.AppendUint(append(b, '@'), m.life, 10)
	}
	return b
}

func parseMark(s string) (m mark, err error) {
	number, life, again := strings.Cut(s, "@")
	n, err := strconv.ParseUint(number, 10, 63)
	if m.n = int64(n); again && err == nil {
		m.life, err = strconv.ParseUint(life, 10, 64)
	}
	return m, err
}
