package rehydrate_test

import (
	"bytes"
	"strings"
	"testing"

	"spool/internal/rehydrate"
	"spool/pkg/truncate"
)

// TestResolveSources: what the size rules move out of a line of Claude Code is put back wherever it stood.
func TestResolveSources(t *testing.T) {
	pic := encoded(bytes.Repeat([]byte{1, 2, 3}, 1000))
	src := `{"type":"base64","media_type":"image/png","data":"` + pic + `"}`
	block := func(members string) string { return `{"content":[{"type":"image",` + members + `}]}` }
	for name, in := range map[string]string{
		"plain":                     block(`"source":` + src),
		"file with data behind":     block(`"source":` + src + `,"file":{"data":"x"}`),
		"file with base64 behind":   block(`"source":` + src + `,"file":{"base64":"","originalSize":0}`),
		"file that is a name":       block(`"source":` + src + `,"file":"a.png"`),
		"file null":                 block(`"source":` + src + `,"file":null`),
		"base64 in data":            block(`"source":{"data":"` + pic + `","base64":"x"}`),
		"base64 true in source":     block(`"source":{"data":"` + pic + `","base64":true}`),
		"data behind":               block(`"source":` + src + `,"data":"x"`),
		"data null behind":          block(`"source":` + src + `,"data":null`),
		"data before":               block(`"data":"` + pic + `","source":"file.png"`),
		"data before source":        block(`"data":"` + pic + `","source":{"data":"x"}`),
		"data before source base64": block(`"data":"` + pic + `","source":{"base64":1}`),
		"escaped":                   block(`"sour\u0063e":` + src),
		"escaped data":              block(`"source":{"d\u0061ta":"` + pic + `"}`),
		"toolUseResult of blocks":   `{"toolUseResult":{"type":"text","content":[{"type":"image","source":` + src + `}]}}`,
		"toolUseResult file":        `{"toolUseResult":{"type":"image","file":{"base64":"` + pic + `"}}}`,
		"toolUseResult list":        `{"toolUseResult":[[{"type":"image","source":` + src + `}]]}`,
		"result as a result":        `{"toolUseResult":{"type":"image","toolUseResult":{"type":"image","source":` + src + `}}}`,
		"two in one":                block(`"source":` + src + `,"file":` + strings.Replace(src, "data", "base64", 1)),
	} {
		store := blobs{}
		r, err := truncate.Entry([]byte(in), func(b []byte) string { return store.put(bytes.Clone(b)) }, truncate.Options{Sources: true})
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := rehydrate.Resolve(t.Context(), r.Text, store, func(m rehydrate.Missing) { t.Error(name, m) })
		if err != nil || string(got) != in {
			at := bytes.Index(got, []byte("blob:sha256"))
			t.Errorf("%s: moved %d; %v, %d bytes of %d; a ref stays at %d", name, r.Externalized, err, len(got), len(in), at)
		}
	}
}
