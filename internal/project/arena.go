package project

import "sync"

// Arena gives memory for items that live and die together. The zero value is ready. Not safe for concurrent use.
type Arena struct{ chunks []*chunk }

type chunk struct {
	mem  [256 << 10]byte
	used int
}

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// take is an empty slice with room for n bytes.
func (a *Arena) take(n int) []byte {
	if a == nil || n > len(chunk{}.mem)/8 {
		return make([]byte, 0, n)
	}
	last := len(a.chunks) - 1
	if last < 0 || len(a.chunks[last].mem)-a.chunks[last].used < n {
		a.chunks = append(a.chunks, chunks.Get().(*chunk))
		last++
	}
	c := a.chunks[last]
	from := c.used
	c.used += n
	return c.mem[from:from:c.used]
}

// Release gives the memory back; nothing that was written there may be used any more.
func (a *Arena) Release() {
	for _, c := range a.chunks {
		c.used = 0
		chunks.Put(c)
	}
	a.chunks = nil
}
