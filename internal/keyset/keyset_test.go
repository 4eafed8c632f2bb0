package keyset

import (
	"runtime"
	"strconv"
	"testing"

	"spool/internal/must"
)

func TestSet(t *testing.T) {
	s, want := Make(), map[string]bool{}
	must.Same(t, s.Has("0"), false, "an empty set has a key: %v, want %v")
	for n := range 50_000 {
		key, marked := strconv.Itoa(n*n%30_011), n%3 == 0
		before, there := want[key]
		fresh, was := s.Put(key, marked)
		if fresh == there || was != before {
			t.Fatalf("Put(%s) = %v, %v; the key is there: %v, its mark %v", key, fresh, was, there, before)
		}
		want[key] = marked
	}
	must.Same(t, s.Len(), len(want), "Len = %d, want %d")
	for n := range 30_011 {
		_, there := want[strconv.Itoa(n)]
		must.Same(t, s.Has(strconv.Itoa(n)), there, "Has = %v, want %v")
	}
}

// TestBytes: a key takes no more than a few words.
func TestBytes(t *testing.T) {
	const keys, most = 300_000, 16
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := Make()
	for n := range keys {
		s.Put(strconv.Itoa(n), true)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int(after.HeapAlloc-before.HeapAlloc) / keys; each > most {
		t.Errorf("a key takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(s)
}
