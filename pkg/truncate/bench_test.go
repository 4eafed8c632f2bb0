package truncate_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/pkg/truncate"
)

// plainEntry is about 2 KB of ordinary agent talk; walkedEntry has a key that makes Entry look closer.
var (
	plainEntry = []byte(`{"type":"message","id":"a1b2c3d4","parentId":"00ff00ff","timestamp":"2026-05-20T10:00:00.000Z","message":{"role":"assistant","content":[` +
		`{"type":"text","text":"` + strings.Repeat("I looked at the parser and found the prefix handling. ", 12) + `"},` +
		`{"type":"toolCall","id":"call_1","name":"bash","arguments":{"command":"go test ./...","timeout":120,"background":false}},` +
		`{"type":"text","text":"` + strings.Repeat(`ok  \tspool/internal/x\t0.01s\n`, 25) + `"}],` +
		`"usage":{"input":1200,"output":322,"cacheRead":9600,"cost":{"input":0.0031,"output":0.0042,"total":0.0073}},"stopReason":"toolUse","ts":1763700000123}}`)
	walkedEntry = bytes.Replace(plainEntry, []byte(`"timeout"`), []byte(`"image_url"`), 1)
	linesEntry  = []byte(`{"content":"` + strings.Repeat(`go build ok\n`, 50_000) + `","lineCount":50001}`)
	imagesEntry = []byte(`{"content":[{"type":"image","data":"` + strings.Repeat(picture[:1000], 100) + `"}]}`)
)

func BenchmarkEntryClean2K(b *testing.B) { benchmarkEntry(b, plainEntry) }
func BenchmarkEntryWalked(b *testing.B)  { benchmarkEntry(b, walkedEntry) }
func BenchmarkEntryLong(b *testing.B)    { benchmarkEntry(b, linesEntry) }
func BenchmarkEntryImage(b *testing.B)   { benchmarkEntry(b, imagesEntry) }

func benchmarkEntry(b *testing.B, raw []byte) {
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(truncate.Entry(raw, nil, truncate.Options{}))(b)
	}
}

// BenchmarkEncodingJSON2K is the way not taken: decode, and encode again.
func BenchmarkEncodingJSON2K(b *testing.B) {
	b.SetBytes(int64(len(plainEntry)))
	b.ReportAllocs()
	for b.Loop() {
		var v any
		must.Do(b, json.Unmarshal(plainEntry, &v))
		must.Get(json.Marshal(v))(b)
	}
}

// BenchmarkStream is both passes over an entry of 16 MB, most of it an image.
func BenchmarkStream(b *testing.B) {
	raw := []byte(`{"content":[{"type":"image","data":"` + strings.Repeat(picture[:1000], 16_000) + `"}]}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		p := must.Get(truncate.Scan(bytes.NewReader(raw), truncate.Options{}))(b)
		must.Do(b, p.Apply(bytes.NewReader(raw), io.Discard, nil, &discard{}))
	}
}
