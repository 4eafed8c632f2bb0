package entry

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"spool/internal/must"
	"spool/pkg/events"
)

func key(s string) uint64 { return Key([]byte(s)) }

func TestUsageCountsOncePerMessage(t *testing.T) {
	var m Memory
	m.Prompt(1000)
	m.Usage(key("a"), Usage{10, 4, 1})
	m.Usage(key("b"), Usage{5, 5, 5})
	m.Usage(key("a"), Usage{10, 4, 9}) // the same message, told again with more output
	m.Usage(key("a"), Usage{10, 4, 2})
	m.Begin()
	got, ok := m.End(3500, 0)
	if want := (events.Stats{InputTokens: 15, InputTokensCached: 9, OutputTokens: 14, DurationMS: 2500}); !ok || got != want {
		t.Errorf("End = %+v, %v, want %+v", got, ok, want)
	}
	if !m.Used() {
		t.Error("Used = false after a turn's sums were told")
	}
	if _, ok := m.End(4000, 0); ok {
		t.Error("a turn ended twice")
	}
	m.Activity(5000, 0)
	if got, ok := m.End(6000, 0); !ok || got != (events.Stats{DurationMS: 1000}) {
		t.Errorf("End of the next turn = %+v, %v", got, ok)
	}
}

func TestLateLineOfTheLastMessage(t *testing.T) {
	var m Memory
	m.Activity(1, key("a"))
	m.End(2, key("a"))
	m.Activity(3, key("a"))
	if _, ok := m.End(3, key("a")); ok {
		t.Error("a late line of the message that ended the turn ended it again")
	}
	m.Activity(4, key("b"))
	if _, ok := m.End(5, key("b")); !ok {
		t.Error("the next message could not end its turn")
	}
}

func TestRunningCounters(t *testing.T) {
	var m Memory
	m.Count(100, Usage{70, 50, 30})
	m.Count(100, Usage{70, 50, 30})
	m.Count(150, Usage{40, 30, 10})
	if s, _ := m.End(0, 0); s.InputTokens != 110 || s.OutputTokens != 40 {
		t.Errorf("End = %+v, want 110 and 40", s)
	}
	m.Activity(1, 0)
	m.Count(180, Usage{20, 0, 10})
	m.Usage(key("r"), Usage{19, 0, 9})
	if s, _ := m.End(0, 0); s.InputTokens != 19 {
		t.Errorf("End = %+v, want the response's own usage", s)
	}
}

func TestHostileFiguresDoNotOverflow(t *testing.T) {
	var m Memory
	for i := range 10_000 {
		m.Usage(uint64(i+1), Usage{math.MaxInt64, math.MaxInt64, -5})
		m.Add(Usage{math.MaxInt64, 0, 0})
	}
	s, _ := m.End(0, 0)
	if s.InputTokens <= 0 || s.InputTokensCached <= 0 || s.OutputTokens != 0 {
		t.Errorf("End = %+v", s)
	}
}

func TestCallsAreBoundedAndCopied(t *testing.T) {
	var m Memory
	for i := range 500 {
		m.SetCall(key(strconv.Itoa(i)), Called)
	}
	if m.Call(key("0")) != 0 || m.Call(key("499")) != Called {
		t.Error("the oldest call is not the one forgotten")
	}
	copied := m
	m.SetCall(key("499"), Resulted)
	m.DropCall(key("450"))
	m.SetCall(key("new"), Asked)
	if copied.Call(key("499")) != Called || copied.Call(key("450")) != Called || copied.Call(key("new")) != 0 {
		t.Error("a copy changed with its original")
	}
	if m.Call(key("499")) != Called|Resulted {
		t.Errorf("Call = %b, want called and resulted", m.Call(key("499")))
	}
}

func random(r *rand.Rand) (m Memory) {
	for range r.IntN(300) {
		id, t := r.Uint64N(200)+1, r.Int64()-math.MaxInt64/2
		u := Usage{r.Int64() >> r.IntN(60), r.Int64() >> r.IntN(60), r.Int64N(1000)}
		switch r.IntN(9) {
		case 0:
			m.Prompt(t)
		case 1:
			m.Activity(t, id)
		case 2, 3:
			m.Usage(id, u)
		case 4:
			m.Count(r.Int64(), u)
		case 5:
			m.End(t, id)
		case 6:
			m.Tree()
		case 7:
			m.SetCall(id, Flags(1+r.IntN(31)))
		case 8:
			m.DropCall(id)
		}
	}
	return m
}

func TestEncode(t *testing.T) {
	var zero Memory
	if b := zero.Encode(); b != nil {
		t.Errorf("Encode of an empty memory = %x, want nil", b)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		m := random(r)
		b := m.Encode()
		if len(b) > MaxMemory {
			t.Fatalf("%d bytes, want at most %d", len(b), MaxMemory)
		}
		got, err := DecodeMemory(b)
		if err != nil || !bytes.Equal(got.Encode(), b) {
			t.Fatalf("DecodeMemory(%x): %v; encodes to %x", b, err, got.Encode())
		}
	}
}

func FuzzDecodeMemory(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		m := random(r)
		f.Add(m.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMemory(b)
		if err != nil {
			must.Is(t, err, ErrMemory, "DecodeMemory(%x)", b)
			return
		}
		if got := m.Encode(); !bytes.Equal(got, b) {
			t.Errorf("DecodeMemory(%x) encodes to %x", b, got)
		}
	})
}
