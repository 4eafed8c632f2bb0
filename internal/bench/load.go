package bench

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"spool/pkg/events"
)

// The load: entries of one size, over many sessions, each a chain by id and parentId.
const (
	entryBytes  = 2048
	sessions    = 200
	dialectName = "omp"
)

// prose is about programs, escaped for JSON, that entries take their words from.
type prose []byte

// textBytes is enough for the entries of a pack to have little in common but their vocabulary.
const textBytes = 8 << 20

var words = []string{
	"the", "a", "of", "to", "and", "in", "is", "it", "that", "this", "for", "with", "not", "on", "as", "when", "after", "before",
	"test", "fails", "passes", "because", "returns", "expects", "error", "nil", "value", "function", "method", "struct",
	"package", "import", "branch", "commit", "merge", "file", "line", "read", "write", "stream", "consumer", "message",
	"queue", "timeout", "context", "deadline", "retry", "goroutine", "channel", "mutex", "race", "lock", "buffer", "slice",
	"index", "range", "pointer", "interface", "handler", "request", "response", "server", "client", "socket", "header",
	"payload", "schema", "table", "column", "query", "migration", "transaction", "cache", "key", "token", "session",
	"thread", "agent", "tool", "prompt", "answer", "model", "budget", "window", "summary", "diff", "patch", "review",
	"refactor", "rename", "extract", "inline", "remove", "add", "change", "fix", "bug", "regression", "flaky", "coverage",
	"benchmark", "profile", "allocation", "latency", "throughput", "percentile", "if err != nil {", "return fmt.Errorf(",
	"ctx context.Context,", "func (s *Server)", "t.Fatalf(", "go test ./...", "--- FAIL:", "ok", "PASS", "defer", "select {",
}

func newProse() prose {
	rng := rand.New(rand.NewPCG(2026, 11))
	b := make([]byte, 0, textBytes+64)
	for col := 0; len(b) < textBytes; {
		at := len(b)
		switch rng.IntN(12) {
		case 0:
			b = fmt.Appendf(b, "internal/%s/%s_%d.go:%d", words[rng.IntN(len(words))], words[20+rng.IntN(60)], rng.IntN(100), rng.IntN(900))
		case 1:
			b = fmt.Appendf(b, `\"%08x\"`, rng.Uint32())
		default:
			b = append(b, words[rng.IntN(len(words))]...)
		}
		if col += len(b) - at; col > 90 {
			b, col = append(b, `\n`...), 0
		} else {
			b = append(b, ' ')
		}
	}
	return b
}

// session writes the entries of one session. One goroutine uses it.
type session struct {
	thread events.Thread
	index  int
	n      int // entries so far
	text   prose
	rng    *rand.Rand
}

func newSession(i int, t prose) *session {
	return &session{
		thread: events.Thread{Session: fmt.Sprintf("bench-%03d", i), Name: events.MainThread},
		index:  i, text: t, rng: rand.New(rand.NewPCG(uint64(i), 1)),
	}
}

// turn is how many entries an agent's turn has: a prompt, four calls with their results, an answer.
const turn = 10

// epoch is when the entries claim to have been written, in Unix milliseconds.
const epoch = 1_790_000_000_000

// next is the session's next entry: one line of an omp session file of entryBytes that makes exactly one item.
func (s *session) next() []byte {
	b := make([]byte, 0, entryBytes+16)
	b = append(b, `{"type":"message","id":"`...)
	b = s.appendID(b, s.n+1)
	b = append(b, `","parentId":`...)
	if s.n == 0 {
		b = append(b, `null`...)
	} else {
		b = append(s.appendID(append(b, '"'), s.n), '"')
	}
	b = append(b, `,"timestamp":"`...)
	b = time.UnixMilli(epoch+int64(s.n)*1500).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","message":`...)
	var tail string
	step := s.n % turn
	s.n++
	switch {
	case step == 0:
		b, tail = append(b, `{"role":"user","content":[{"type":"text","text":"`...), `"}]}}`
	case step == turn-1:
		b = append(b, `{"role":"assistant","provider":"bench","model":"bench-1","stopReason":"toolUse","content":[{"type":"text","text":"`...)
		tail = `"}],"usage":{"input":812,"output":390,"cacheRead":45210,"cacheWrite":1203,"totalTokens":47615}}}`
	case step%2 == 1:
		b = append(b, `{"role":"assistant","provider":"bench","model":"bench-1","stopReason":"toolUse","content":[{"type":"toolCall","id":"call_`...)
		b = s.appendID(b, s.n)
		b = append(b, `","name":"bash","arguments":{"command":"`...)
		tail = `"}}],"usage":{"input":512,"output":140,"cacheRead":45210,"cacheWrite":803,"totalTokens":46665}}}`
	default:
		b = append(b, `{"role":"toolResult","toolCallId":"call_`...)
		b = s.appendID(b, s.n-1)
		b = append(b, `","toolName":"bash","content":[{"type":"text","text":"`...)
		tail = `"}],"isError":false}}`
	}
	b = s.appendText(b, entryBytes-len(b)-len(tail))
	return append(b, tail...)
}

func (s *session) appendID(b []byte, n int) []byte {
	return strconv.AppendInt(b, int64(s.index+1)<<32|int64(n), 16)
}

// appendText adds n bytes of text, and no half escape at either end.
func (s *session) appendText(b []byte, n int) []byte {
	at := s.rng.IntN(len(s.text) - n)
	t := s.text[at : at+n]
	first, last := len(b), len(b)+n-1
	b = append(b, t...)
	if at > 0 && s.text[at-1] == '\\' {
		b[first] = '_'
	}
	if b[last] == '\\' {
		b[last] = '_'
	}
	return b
}

// event is an entry in its envelope, as the pipelines without Spool publish it.
func (s *session) event() []byte {
	body := s.next()
	e := events.Event{
		Producer: "bench", Seq: uint64(s.n), Kind: events.KindEntry, Dialect: dialectName, Thread: s.thread, Time: epoch, Body: body,
	}
	return e.Encode()
}
