package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"spool/pkg/client"
	"spool/pkg/events"
)

func init() { groups["sink"] = sinkGroup }

// sinkOracle is the first version with a column cap and a head.
const sinkOracle = "expected.17.2.15.json"

// sinkGroup streams outputs into threads and compares what subscribers get live, what the result shows and says, and
// what the artifact has (SPEC O1–O6).
func sinkGroup(dir string, report func(Case)) error {
	inputs, err := readObject(filepath.Join(dir, "inputs.json"))
	if err != nil {
		return err
	}
	expected, err := readObject(filepath.Join(dir, sinkOracle))
	if err != nil {
		return err
	}
	p, err := running()
	if err != nil {
		return err
	}
	for name, input := range inputs {
		if input, err = expand(input); err != nil {
			return err
		}
		s := &streamed{product: p, input: input}
		if err := errors.Join(s.read(), s.run()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.report(name, field(expected["cases"], name), report)
	}
	return nil
}

// streamed is an output that goes through the product.
type streamed struct {
	*product
	input  any
	start  events.OutputStart
	chunks [][]byte // as the tool printed them

	live     []string // as subscribers got them
	item     any      // the result
	artifact any      // the text of the artifact; nil: there is none
}

// read takes the chunks of a case, and what is to be shown of them. What replaces an output, and when chunks come, has
// no event.
func (s *streamed) read() error {
	cfg := field(s.input, "cfg")
	s.start.Tool = "sh"
	s.start.Show, _ = number(field(cfg, "spillThreshold"))
	s.start.Head, _ = number(field(cfg, "headBytes"))
	s.start.Columns, _ = number(field(cfg, "maxColumns"))
	for _, op := range items(field(s.input, "ops")) {
		if text, ok := field(op, "push").(string); ok {
			s.chunks = append(s.chunks, []byte(text))
		} else if chunks, ok := field(op, "stream").([]any); ok {
			for _, chunk := range chunks {
				var b []byte
				for _, v := range items(chunk) {
					n, _ := number(v)
					b = append(b, byte(n))
				}
				s.chunks = append(s.chunks, b)
			}
		} else if field(op, "at") == nil && field(op, "replace") == nil {
			return fmt.Errorf("unknown operation %v", op)
		}
	}
	return nil
}

// run publishes the output, each chunk after the one before was applied, and reads back what became of it.
func (s *streamed) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), productPatience)
	defer cancel()
	s.scenarios++
	t := events.Thread{Session: fmt.Sprintf("sink-%d", s.scenarios), Name: events.MainThread}
	ready, followed := make(chan struct{}), make(chan error, 1)
	var end *events.LiveEnd
	go func() {
		for f, err := range s.Thread(t).FollowOutputs(ctx, func([]client.OpenOutput) { close(ready) }) {
			if len(f.Text) > 0 {
				s.live = append(s.live, string(f.Text))
			}
			if end = f.End; err != nil || end != nil {
				followed <- err
				return
			}
		}
	}()
	select {
	case <-ready:
	case err := <-followed:
		return err
	}
	all := []events.Chunk{{Op: events.ChunkStart, Start: s.start}}
	for _, chunk := range s.chunks {
		all = append(all, events.Chunk{Op: events.ChunkData, Stream: events.Stdout, Data: chunk})
	}
	for i, c := range append(all, events.Chunk{Op: events.ChunkEnd}) {
		c.Output, c.Seq = "o", uint64(i)
		e := &events.Event{Kind: events.KindChunk, Thread: t, Producer: t.Session, Seq: uint64(i + 1), Body: c.Encode()}
		err := errors.Join(c.Validate(), s.conn.Events().PublishEvents(ctx, []*events.Event{e}))
		if err := cmp.Or(err, s.Thread(t).Await(ctx, e.Producer, 0, e.Seq)); err != nil {
			return err
		}
	}
	if err := <-followed; err != nil {
		return err
	}
	return s.result(ctx, t, end)
}

// result reads the item, and the artifact that it names, over HTTP.
func (s *streamed) result(ctx context.Context, t events.Thread, end *events.LiveEnd) error {
	b, err := s.get(ctx, fmt.Sprintf("/v1/sessions/%s/threads/%s/items/%d", t.Session, t.Name, end.Item), nil)
	if err != nil {
		return err
	}
	s.item = field(mustJSON(b), "metadata")
	if s.item == nil {
		s.item = field(field(mustJSON(b), "item"), "metadata")
	}
	if id := str(field(field(s.item, "artifact"), "artifact_id")); id != "" {
		b, err = s.get(ctx, "/v1/artifacts/"+id, nil)
		s.artifact = string(b)
	}
	return err
}

// parts are what a summary says, by what it is about: what excuses one part excuses no other.
var parts = map[string][]string{
	"shown":   {"output", "outputSha256", "outputBytes", "outputLines", "truncated", "elidedBytes", "elidedLines"},
	"totals":  {"totalBytes", "totalLines"},
	"columns": {"columnDroppedBytes", "columnTruncatedLines", "columnMax"},
	"stored":  {"artifactId"},
}

func part(summary any, name string) any {
	out := map[string]any{}
	for _, key := range parts[name] {
		if v := field(summary, key); v != nil {
			out[key] = v
		}
	}
	return out
}

func (s *streamed) report(name string, want any, report func(Case)) {
	stream := cleaned(s.chunks)
	whole := strings.Join(stream, "")
	like := field(want, "onChunk")
	given, artifact := field(want, "summary"), field(want, "artifact")
	rules := ruled(stream, s.start).object(field(given, "output"))
	if s.artifact != nil {
		rules["artifactId"] = storedID
	}
	cut := field(rules, "truncated") == true || field(rules, "columnDroppedBytes") != nil
	when := map[string]func() bool{
		"split":                           func() bool { return strings.Join(apart(s.chunks), "") != whole },
		"nothing left":                    func() bool { return slices.Contains(items(like), any("")) },
		"long chunk":                      func() bool { return len(framed(stream)) > len(stream) },
		"sixel":                           func() bool { return strings.Contains(str(field(given, "output")), "\x1bPq") },
		"throttled":                       func() bool { return field(field(s.input, "cfg"), "chunkThrottleMs") != nil },
		"replaced":                        func() bool { return s.has("replace") },
		"notice":                          func() bool { return field(s.input, "notice") != nil },
		"no place":                        func() bool { return field(s.input, "artifact") != true && cut },
		"small cut":                       func() bool { return field(rules, "columnDroppedBytes") != nil && field(given, "artifactId") == nil },
		"incomplete":                      func() bool { return cut && difference(artifact, stored(whole, artifact)) != "" },
		"head goes on behind a character": func() bool { return s.headHasRoom(stream) },
		"cut lines beside a head": func() bool {
			return s.start.Head > 0 && field(rules, "columnDroppedBytes") != nil && field(rules, "elidedBytes") != nil
		},
	}
	kept := func() error { return same(stored(whole, artifact), stored(s.artifact, artifact)) }
	report(Case{Name: name + "/chunks", Got: chunksLike(s.live, like), Want: like, When: when,
		Holds: map[string]func() error{"by the rules": func() error {
			return same(anys(framed(stream)), anys(s.live))
		}}})
	report(Case{Name: name + "/artifact", Got: stored(s.artifact, artifact), Want: artifact, When: when,
		Holds: map[string]func() error{"by the rules": kept}})
	got := s.summary(field(given, "output"))
	for name2 := range parts {
		report(Case{Name: name + "/" + name2, Got: part(got, name2), Want: part(given, name2), When: when,
			Holds: map[string]func() error{
				"by the rules": func() error { return same(part(rules, name2), part(got, name2)) },
				"all of it":    func() error { return errors.Join(same(storedID, got["artifactId"]), kept()) },
			}})
	}
}

// headHasRoom tells whether a chunk ends the head in front of a character that has no place in it, and leaves room that a later chunk
// could fill.
func (s *streamed) headHasRoom(stream []string) bool {
	most := min(s.start.Head, cmp.Or(s.start.Show, events.MaxShow)/2)
	used := 0
	for i, chunk := range stream {
		if used+len(chunk) > most {
			head := boundary(chunk, most-used)
			return s.start.Columns == 0 && used+head < most && i+1 < len(stream)
		}
		used += len(chunk)
	}
	return false
}

// has tells whether the case has an operation.
func (s *streamed) has(name string) bool {
	for _, op := range items(field(s.input, "ops")) {
		if field(op, name) != nil {
			return true
		}
	}
	return false
}

// storedID is what the oracle calls an artifact that was stored.
const storedID = "7"

// summary is what the result says, in the oracle's words.
func (s *streamed) summary(like any) map[string]any {
	told := field(s.item, "output")
	m := shown(str(field(field(s.item, "tool"), "output")), like)
	for mine, theirs := range map[string]string{
		"truncated": "truncated", "total_lines": "totalLines", "total_bytes": "totalBytes", "output_lines": "outputLines",
		"output_bytes": "outputBytes", "elided_bytes": "elidedBytes", "elided_lines": "elidedLines",
	} {
		if v := field(told, mine); v != nil {
			m[theirs] = v
		}
	}
	if lines := field(told, "column_truncated_lines"); lines != integer(0) {
		m["columnTruncatedLines"], m["columnDroppedBytes"] = lines, field(told, "column_dropped_bytes")
		m["columnMax"] = integer(s.start.Columns)
	}
	if s.artifact != nil {
		m["artifactId"] = storedID
	}
	return m
}
