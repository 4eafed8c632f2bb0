package events_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spool/internal/must"
	"spool/pkg/events"
)

var chunks = map[string]events.Chunk{
	"start": {Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{
		Tool: "Bash", Invocation: "tu_1", Cwd: "/srv", Agent: "a", Run: "r", Head: 100, Columns: 80, Lease: 60_000}},
	"show":  {Op: events.ChunkStart, Output: "o1", Start: events.OutputStart{Tool: "Bash", Show: 2_000}},
	"data":  {Op: events.ChunkData, Output: "o1", Seq: 7, Stream: events.Stderr, Data: []byte("\xff\x00half \xe6\xbc")},
	"empty": {Op: events.ChunkData, Output: "o1", Seq: 1, Stream: events.Stdout},
	"end":   {Op: events.ChunkEnd, Output: "o1", Seq: 8, End: events.OutputEnd{ExitCode: -1, IsError: true, DurationMS: 12}},
	"abort": {Op: events.ChunkAbort, Output: "o1", Seq: 8, Reason: "lease"},
}

func TestChunkRoundTrip(t *testing.T) {
	for name, want := range chunks {
		got, err := events.ParseChunk(want.Encode())
		must.Is(t, err, nil, "%s: ParseChunk", name)
		if len(got.Data) == 0 {
			got.Data = nil
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: ParseChunk(Encode) (-want +got):\n%s", name, d)
		}
	}
}

func TestBadChunks(t *testing.T) {
	good := chunks["data"]
	spoilt := func(f func(*events.Chunk)) []byte {
		c := good
		f(&c)
		return c.Encode()
	}
	for name, c := range map[string]struct {
		body []byte
		want string
	}{
		"nothing":       {nil, "bad chunk"},
		"JSON":          {[]byte(`{"op":"data"}`), "bad chunk"},
		"cut":           {good.Encode()[:8], "bad chunk"},
		"behind it":     {append(good.Encode(), 1), "bad chunk"},
		"version":       {append([]byte{0x96, 9}, good.Encode()[2:]...), "version 9"},
		"operation":     {spoilt(func(c *events.Chunk) { c.Op = 9 }), "operation 9"},
		"few members":   {[]byte{0x94, 1, 2, 0xa1, 'o', 1}, "4 members"},
		"output":        {spoilt(func(c *events.Chunk) { c.Output = "a.b" }), "output"},
		"no seq":        {spoilt(func(c *events.Chunk) { c.Seq = 0 }), "seq starts at 1"},
		"stream":        {spoilt(func(c *events.Chunk) { c.Stream = 3 }), "stream 3"},
		"show":          {spoilt(func(c *events.Chunk) { *c = chunks["start"]; c.Start.Show = 51_201 }), "1 to 51200"},
		"negative head": {spoilt(func(c *events.Chunk) { *c = chunks["start"]; c.Start.Head = -1 }), "negative"},
		"endless":       {spoilt(func(c *events.Chunk) { *c = chunks["start"]; c.Start.Lease = events.MaxLease + 1 }), "at most 168h0m0s"},
		"short lease":   {spoilt(func(c *events.Chunk) { *c = chunks["start"]; c.Start.Lease = 999 }), "from 1s"},
		"tool":          {spoilt(func(c *events.Chunk) { *c = chunks["start"]; c.Start.Tool = strings.Repeat("x", 1025) }), "1024"},
	} {
		if _, err := events.ParseChunk(c.body); !errors.Is(err, events.ErrChunk) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: ParseChunk = %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseChunk(f *testing.F) {
	for _, c := range chunks {
		f.Add(c.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := events.ParseChunk(b)
		if err != nil {
			return
		}
		again, err := events.ParseChunk(c.Encode())
		if err != nil || again.Op != c.Op || again.Output != c.Output || again.Seq != c.Seq || !bytes.Equal(again.Data, c.Data) {
			t.Errorf("ParseChunk(Encode(%+v)) = %+v, %v", c, again, err)
		}
	})
}

// TestChunkGolden: the examples of docs/format.md, "Chunks".
func TestChunkGolden(t *testing.T) {
	for name, want := range map[string]string{
		"start": "9b0101a26f31a442617368a474755f31a42f737276a161a1726450cdea60",
		"data":  "960102a26f310702c409ff0068616c6620e6bc",
		"end":   "970103a26f3108ffc30c",
		"abort": "950104a26f3108a56c65617365",
	} {
		must.Same(t, hex.EncodeToString(chunks[name].Encode()), want, "%s = %s, want %s", name)
	}
}
