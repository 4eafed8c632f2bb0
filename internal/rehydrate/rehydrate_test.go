package rehydrate_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"spool/internal/jsonscan"
	"spool/internal/must"
	"spool/internal/rehydrate"
	"spool/pkg/casstore"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// blobs is a store that can lose and damage what it holds.
type blobs map[casstore.Ref][]byte

func (s blobs) Blob(_ context.Context, ref casstore.Ref) ([]byte, error) {
	b, ok := s[ref]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: %w", ref, casstore.ErrNotFound)
	case casstore.SumBlob(b) != ref:
		return nil, fmt.Errorf("%s: %w", ref, casstore.ErrCorrupt)
	}
	return b, nil
}

func (s blobs) put(b []byte) string {
	ref := casstore.SumBlob(b)
	s[ref] = bytes.Clone(b)
	return ref.String()
}

var (
	png  = bytes.Repeat([]byte("\x89PNG"), 500)
	jpeg = bytes.Repeat([]byte("\xff\xd8\xff"), 500)
	url  = "data:image/gif;base64,R0lGODlh"

	pngRef, jpegRef, urlRef = casstore.SumBlob(png), casstore.SumBlob(jpeg), casstore.SumBlob([]byte(url))
)

func image(data string) string {
	return `{"type":"image","data":"` + data + `","mimeType":"image/png"}`
}

func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// thread stores entries as the persister does.
func thread(t *testing.T, store blobs, lines ...string) (rehydrate.Source, threads.Head) {
	t.Helper()
	b := casstore.NewPackBuilder()
	pack := casstore.PackID{1}
	add := func(n casstore.Node) casstore.Located { return casstore.Located{Ref: b.AddNode(&n), Pack: pack} }
	prompt := add(threads.Content{}.Node())
	head := threads.Head{Start: add(threads.Start{Prompt: prompt.Ref}.Node())}
	for i, line := range lines {
		r := must.Get(truncate.Entry([]byte(line), store.put, truncate.Options{}))(t)
		st := head.Next("user")
		st.Content = add(threads.Content{Text: r.Text}.Node()).Ref
		st.Entry = threads.Record{Dialect: "omp", Index: int64(i + 1)}
		for _, sp := range r.Splices {
			st.Entry.Splices = append(st.Entry.Splices, [2]int64{int64(sp.Offset), int64(sp.Form)})
		}
		if r.Full != nil {
			st.Entry.Full = casstore.SumBlob(r.Full)
			store.put(r.Full)
		}
		head.Advance(add(st.Node()))
	}
	header, body := must.Two(b.Finish())(t)
	packs := casstore.NewMemory()
	must.Do(t, packs.PutPack(t.Context(), pack, header, body))
	return rehydrate.Source{Reader: threads.Reader{Packs: packs}, Blobs: store}, head
}

var entries = []string{
	`{"type":"message","message":{"role":"user","content":[` + image(encoded(png)) + `,{"type":"text","text":"a"},` +
		image(encoded(jpeg)) + `]}}`,
	`{"type":"custom","data":{"content":[` + image(strings.TrimRight(encoded(jpeg[:len(jpeg)-1]), "=")) + `],"image_url":"` + url + `"}}`,
	`{"type":"message","message":{"role":"toolResult","content":[{"type":"text","text":"` + strings.Repeat("x", 600_000) +
		`"},` + image(encoded(png)) + `]}}`,
}

func export(t *testing.T, s rehydrate.Source, head threads.Head, form rehydrate.Form) []string {
	t.Helper()
	var out bytes.Buffer
	n := must.Get(s.Export(t.Context(), head, form, &out))(t)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if n != len(lines) {
		t.Fatalf("Export = %d entries, %d lines", n, len(lines))
	}
	return lines
}

// Full gives every byte back, Stored what is kept in the thread (SPEC T9, T10).
func TestExport(t *testing.T) {
	s, head := thread(t, blobs{}, entries...)
	for i, line := range export(t, s, head, rehydrate.Full) {
		must.Same(t, line, entries[i], "entry %d = %.200s, want %.200s", i+1)
	}
	for i, line := range export(t, s, head, rehydrate.Stored) {
		want := must.Get(truncate.Entry([]byte(entries[i]), nil, truncate.Options{}))(t)
		if line != string(want.Text) || !strings.Contains(line, "blob:sha256:") {
			t.Errorf("stored entry %d = %.200s, want %.200s", i+1, line, want.Text)
		}
	}
}

// A blob that is missing or corrupt ends a strict export; otherwise its ref stays, and all else is as it was (SPEC T10).
func TestMissingBlobs(t *testing.T) {
	store := blobs{}
	s, head := thread(t, store, entries...)
	delete(store, pngRef)
	store[jpegRef] = jpeg[1:]
	if _, err := s.Export(t.Context(), head, rehydrate.Full, &bytes.Buffer{}); !errors.Is(err, casstore.ErrNotFound) ||
		!strings.Contains(err.Error(), "entry 1") {
		t.Errorf("strict export: %v, want ErrNotFound of entry 1", err)
	}
	var told []rehydrate.Missing
	s.Warn = func(m rehydrate.Missing) { told = append(told, m) }
	want := []string{
		strings.NewReplacer(encoded(png), pngRef.String(), encoded(jpeg), jpegRef.String()).Replace(entries[0]), entries[1],
		strings.Replace(entries[2], encoded(png), pngRef.String(), 1),
	}
	for i, line := range export(t, s, head, rehydrate.Full) {
		must.Same(t, line, want[i], "entry %d = %.300s, want %.300s", i+1)
	}
	wantTold := []rehydrate.Missing{{Ref: pngRef, Entry: 1}, {Ref: jpegRef, Entry: 1}, {Ref: pngRef, Entry: 3}}
	if len(told) != len(wantTold) {
		t.Fatalf("told %v, want %d blobs", told, len(wantTold))
	}
	for i, m := range told {
		if m.Ref != wantTold[i].Ref || m.Entry != wantTold[i].Entry || m.Corrupt() != (m.Ref == jpegRef) {
			t.Errorf("told %v, want %v; only the jpeg is corrupt", m, wantTold[i])
		}
	}
	if s := told[1].Error(); !strings.Contains(s, "entry 1") || !strings.Contains(s, "is corrupt") || !strings.Contains(s, jpegRef.String()) {
		t.Errorf("a person reads %q", s)
	}
}

// Without the entry as it was before the cut there is the cut one, with its images.
func TestMissingFull(t *testing.T) {
	store := blobs{}
	s, head := thread(t, store, entries[2])
	cut := must.Get(truncate.Entry([]byte(entries[2]), nil, truncate.Options{}))(t)
	delete(store, casstore.SumBlob(cut.Full))
	told := 0
	s.Warn = func(rehydrate.Missing) { told++ }
	want := strings.Replace(string(cut.Text), pngRef.String(), encoded(png), 1)
	if got := export(t, s, head, rehydrate.Full)[0]; got != want || told != 1 {
		t.Errorf("export = %.200s with %d warnings, want the cut entry with its image", got, told)
	}
}

func TestResolve(t *testing.T) {
	store := blobs{}
	for _, b := range [][]byte{png, []byte(url)} {
		store.put(b)
	}
	ref, missing := pngRef.String(), jpegRef.String()
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", `{"a":[1, 2.50]}`, `{"a":[1, 2.50]}`},
		{"image, type last", `{"content":[{"data":"` + ref + `","type":"image"}]}`, `{"content":[{"data":"` + encoded(png) +
			`","type":"image"}]}`},
		{"custom data", `{"type":"custom","data":{"x":{"content":[[` + image(ref) + `]]}}}`,
			`{"type":"custom","data":{"x":{"content":[[` + image(encoded(png)) + `]]}}}`},
		{"url", `{"image_url" : "` + urlRef.String() + `"}`, `{"image_url" : "` + url + `"}`},
		{"urls", `{"image_url":["` + urlRef.String() + `","x"]}`, `{"image_url":["` + url + `","x"]}`},
		{"escaped key", `{"image\u005furl":"` + urlRef.String() + `"}`, `{"image\u005furl":"` + url + `"}`},
		{"url object", `{"image_url":{"url":"` + urlRef.String() + `"}}`, ""},
		{"text", `{"content":[{"type":"text","data":"` + ref + `"}]}`, ""},
		{"not in content", `{"images":[` + image(ref) + `]}`, ""},
		{"no array", `{"content":` + image(ref) + `}`, ""},
		{"header", `{"type":"session","image_url":"` + urlRef.String() + `"}`, ""},
		{"upper case", `{"content":[` + image(strings.ToUpper(ref)) + `]}`, ""},
		{"path", `{"content":[` + image("blob:sha256:../../etc/passwd") + `]}`, ""},
		{"missing", `{"content":[` + image(missing) + `]}`, ""},
		{"one of two missing", `{"content":[` + image(missing) + `,` + image(ref) + `]}`, `{"content":[` + image(missing) + `,` +
			image(encoded(png)) + `]}`},
		{"scalar", `"` + ref + `"`, ""},
	} {
		told := 0
		got, err := rehydrate.Resolve(t.Context(), []byte(tt.in), store, func(m rehydrate.Missing) {
			if told++; m.Ref != jpegRef || m.Corrupt() {
				t.Errorf("%s: told %v", tt.name, m)
			}
		})
		tt.want = cmp.Or(tt.want, tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: Resolve = %.200s, %v, want %.200s", tt.name, got, err, tt.want)
		}
		if strings.Contains(tt.name, "missing") != (told == 1) {
			t.Errorf("%s: %d warnings", tt.name, told)
		}
	}
}

// A store that cannot be reached is no missing blob.
func TestResolveEndsWithTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := rehydrate.Resolve(ctx, []byte(`{"image_url":"`+urlRef.String()+`"}`), casstore.NewMemory(),
		func(m rehydrate.Missing) { t.Errorf("told %v", m) })
	must.Is(t, err, context.Canceled, "Resolve")
}

// FuzzResolve: whatever the JSON, Resolve gives JSON; and of what Entry persists it restores an equal number of images.
func FuzzResolve(f *testing.F) {
	for _, e := range entries[:2] {
		f.Add([]byte(e))
	}
	f.Add([]byte(`{"content":[{"type":"image","data":"blob:sha256:` + strings.Repeat("0", 64) + `"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if jsonscan.Valid(raw) != nil {
			return
		}
		store := blobs{}
		r := must.Get(truncate.Entry(raw, store.put, truncate.Options{}))(t)
		out, err := rehydrate.Resolve(t.Context(), r.Text, store, func(rehydrate.Missing) {})
		if err != nil || jsonscan.Valid(out) != nil {
			t.Fatalf("Resolve(%q) = %q, %v", r.Text, out, err)
		}
	})
}
