package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"spool/internal/runes"
	"spool/pkg/events"
	"spool/pkg/truncate/output"
)

func init() { groups["truncate"] = truncateGroup }

// truncateGroup compares cuts of whole texts by lines, bytes and characters (SPEC U2, O3), and their notices. Those by
// bytes are what outputs show.
func truncateGroup(dir string, report func(Case)) error {
	expected, err := readObject(filepath.Join(dir, oracle))
	if err != nil {
		return err
	}
	for i, c := range items(expected["cases"]) {
		c, err := expand(c)
		if err != nil {
			return err
		}
		if err := truncateCase(fmt.Sprintf("%03d", i), c, report); err != nil {
			return err
		}
	}
	for i, c := range items(expected["notices"]) {
		got, err := notice(str(field(c, "fn")), cutOf(field(c, "of")))
		if err != nil {
			return err
		}
		report(Case{Name: fmt.Sprintf("notice-%03d", i), Got: got, Want: field(c, "out")})
	}
	return nil
}

func truncateCase(name string, c any, report func(Case)) error {
	fn, input := str(field(c, "fn")), str(field(c, "input"))
	maxLines, _ := number(field(c, "maxLines"))
	maxBytes, _ := number(field(c, "maxBytes"))
	limits := output.Limits{Lines: maxLines, Bytes: maxBytes}
	v := Case{Name: name + "-" + fn, Want: field(c, "result")}
	switch fn {
	case "truncateHead":
		v.Got = cutObject(output.Head(input, limits))
	case "truncateTail":
		v.Got = cutObject(output.Tail(input, limits))
	case "truncateHeadBytes", "truncateTailBytes":
		cut, err := cutByBytes(input, maxBytes, fn == "truncateHeadBytes")
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.Got = bytesObject(cut)
	case "truncateLine":
		maxChars, _ := number(field(c, "maxChars"))
		line, cut := output.Line(input, maxChars)
		v.Got = map[string]any{"text": line, "wasTruncated": cut}
		v.When = map[string]func() bool{"torn": func() bool { return hasSurrogate(str(field(v.Want, "text"))) }}
		v.Holds = map[string]func() error{"whole characters": func() error {
			return same(map[string]any{"text": withoutSurrogates(str(field(v.Want, "text"))), "wasTruncated": field(v.Want, "wasTruncated")}, v.Got)
		}}
	default:
		return fmt.Errorf("%s: function %q is not known", name, fn)
	}
	report(v)
	return nil
}

// cutByBytes cuts a text by bytes: as what the result of an output shows at its end, or of its beginning in front of the marker. No output
// shows nothing.
func cutByBytes(input string, most int, head bool) (string, error) {
	if through == library || most == 0 || 2*most > events.MaxShow {
		if head {
			return runes.Head(input, most), nil
		}
		return runes.Tail(input, most), nil
	}
	p, err := running()
	if err != nil {
		return "", err
	}
	s := &streamed{product: p, start: events.OutputStart{Tool: "sh", Show: most}}
	if input != "" {
		s.chunks = [][]byte{[]byte(input)}
	}
	if head = head && len(input) > most; head { // what is behind it fills the end
		s.start.Show, s.start.Head = 2*most, most
		s.chunks = append(s.chunks, bytes.Repeat([]byte("x"), s.start.Show))
	}
	if err := s.run(); err != nil {
		return "", err
	}
	text, told := str(field(field(s.item, "tool"), "output")), field(s.item, "output")
	if head {
		total, _ := number(field(told, "total_bytes"))
		elided, ok := number(field(told, "elided_bytes"))
		if !ok { // the first character has no place
			return "", nil
		}
		text = text[:total-elided-most]
	}
	return text, nil
}

func bytesObject(s string) any {
	return map[string]any{"text": s, "bytes": integer(len(s))}
}

// cutObject is a cut as the oracle describes it.
func cutObject(c output.Cut) any {
	m := map[string]any{"content": c.Content, "totalLines": integer(c.TotalLines), "totalBytes": integer(c.TotalBytes)}
	if c.By == "" {
		return m
	}
	m["truncated"], m["truncatedBy"] = true, string(c.By)
	m["outputLines"], m["outputBytes"] = integer(c.Lines), integer(c.Bytes)
	m["lastLinePartial"], m["firstLineExceedsLimit"] = c.LastLinePartial, c.FirstLineExceedsLimit
	return m
}

// cutOf reads what the oracle describes.
func cutOf(v any) output.Cut {
	c := output.Cut{Content: str(field(v, "content")), By: output.Reason(str(field(v, "truncatedBy")))}
	c.TotalLines, _ = number(field(v, "totalLines"))
	c.Lines, _ = number(field(v, "outputLines"))
	c.Bytes, _ = number(field(v, "outputBytes"))
	c.LastLinePartial, _ = field(v, "lastLinePartial").(bool)
	return c
}

func notice(fn string, c output.Cut) (string, error) {
	switch fn {
	case "formatHeadTruncationNotice":
		return c.HeadNotice(), nil
	case "formatTailTruncationNotice":
		return c.TailNotice("7"), nil
	}
	return "", fmt.Errorf("notice function %q is not known", fn)
}

// withoutSurrogates removes lone surrogates from a WTF-8 string.
func withoutSurrogates(s string) string {
	var out []byte
	for i := 0; i < len(s); {
		if surrogateAt(s, i) != 0 {
			i += 3
			continue
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}
