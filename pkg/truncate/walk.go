package truncate

import (
	"bytes"
	"strconv"

	"spool/internal/jsonscan"
)

// key is what the rules know a member's name as.
type key byte

const (
	keyOther             key = iota
	keyTransient             // partialJson, jsonlEvents
	keyContent               // content
	keyImageURL              // image_url
	keyThinkingSignature     // thinkingSignature
	keyTextSignature         // textSignature
	keyThoughtSignature      // thoughtSignature
	keyEncrypted             // encrypted_content
	keyType                  // type
	keyData                  // data
	keyLineCount             // lineCount
	keys
)

func (k key) signature() bool {
	return k == keyThinkingSignature || k == keyTextSignature || k == keyThoughtSignature
}

// classify names the key whose string token is token.
func classify(token []byte) key {
	name := token[1 : len(token)-1]
	switch string(name) {
	case "content":
		return keyContent
	case "type":
		return keyType
	case "data":
		return keyData
	case "lineCount":
		return keyLineCount
	case "image_url":
		return keyImageURL
	case "partialJson", "jsonlEvents":
		return keyTransient
	case "thinkingSignature":
		return keyThinkingSignature
	case "textSignature":
		return keyTextSignature
	case "thoughtSignature":
		return keyThoughtSignature
	case "encrypted_content":
		return keyEncrypted
	}
	if bytes.IndexByte(name, '\\') < 0 {
		return keyOther
	}
	text, _ := jsonscan.Text(token)
	plain := jsonscan.AppendString(nil, text)
	if bytes.Equal(plain, token) {
		return keyOther
	}
	return classify(plain)
}

// span is a token or value in the raw text; the zero span stands for none.
type span struct{ start, end int }

func (s span) of(raw []byte) []byte { return raw[s.start:s.end] }

// walker goes over a valid text once and collects edits. An edit that a whole block takes back when its end is reached
// (its type may come last) is dropped from the list; blobs are stored only after the walk.
type walker struct {
	raw   []byte
	opt   Options
	edits []edit
}

// value walks the value at raw[i] and returns the index after it. k is the key it stands under, in an array the key of
// the array.
func (w *walker) value(i int, k key, inArray bool) int {
	switch w.raw[i] {
	case '"':
		return w.stringAt(i, k)
	case '{':
		return w.object(i, inArray && k == keyContent)
	case '[':
		i = jsonscan.SkipSpace(w.raw, i+1)
		for w.raw[i] != ']' {
			i = jsonscan.SkipSpace(w.raw, w.value(i, k, true))
			if w.raw[i] == ',' {
				i = jsonscan.SkipSpace(w.raw, i+1)
			}
		}
		return i + 1
	}
	return jsonscan.SkipValue(w.raw, i)
}

// object walks an object; inContent tells that it is an element of an array under content.
func (w *walker) object(i int, inContent bool) int {
	mark := len(w.edits)
	var m [keys]span // of duplicate keys the last, as in JSON.parse
	before := -1     // end of the preceding member, -1 as long as none was kept
	i = jsonscan.SkipSpace(w.raw, i+1)
	for w.raw[i] != '}' {
		start := i
		i = jsonscan.SkipString(w.raw, i)
		k := classify(w.raw[start:i])
		i = jsonscan.SkipSpace(w.raw, jsonscan.SkipSpace(w.raw, i)+1)
		if k == keyTransient {
			i, before = w.strip(start, jsonscan.SkipValue(w.raw, i), before)
			continue
		}
		m[k].start = i
		i = w.value(i, k, false)
		m[k].end, before = i, i
		i = w.nextMember(i)
	}
	w.finish(&m, mark, inContent)
	return i + 1
}

// nextMember returns the index of the next key, or of the closing brace.
func (w *walker) nextMember(i int) int {
	i = jsonscan.SkipSpace(w.raw, i)
	if w.raw[i] == ',' {
		i = jsonscan.SkipSpace(w.raw, i+1)
	}
	return i
}

// strip removes a member (SPEC T3) together with the comma before it, or, if no member before it was kept, the comma after.
func (w *walker) strip(start, end, before int) (next, newBefore int) {
	next = w.nextMember(end)
	e := edit{start: start, end: end, rule: stripped}
	switch {
	case before >= 0:
		e.start, before = before, end
	case w.raw[next] != '}':
		e.end = next
	}
	w.edits = append(w.edits, e)
	return next, before
}

// finish applies the rules that look at an object as a whole.
func (w *walker) finish(m *[keys]span, mark int, inContent bool) {
	switch {
	case w.opt.Signed == SignedVerbatim && w.signed(m):
		w.edits = w.edits[:mark]
	case inContent && w.isImage(m):
		w.edits = w.edits[:mark]
		if e, ok := imageEdit(w.raw, m[keyData]); ok {
			w.edits = append(w.edits, e)
		}
	case len(w.edits) > mark:
		w.recount(m, mark)
	}
}

// is tells whether the value is the string s.
func (w *walker) is(v span, s string) bool {
	token := v.of(w.raw)
	if len(token) < len(s)+2 || token[0] != '"' {
		return false
	}
	if len(token) == len(s)+2 {
		return string(token[1:len(token)-1]) == s
	}
	text, _ := jsonscan.Prefix(token, len(s)+1)
	return text == s
}

// signed recognizes the blocks SignedVerbatim lists.
func (w *walker) signed(m *[keys]span) bool {
	typ := m[keyType]
	for _, block := range [...]struct {
		name string
		key  key
	}{
		{"thinking", keyThinkingSignature}, {"text", keyTextSignature}, {"toolCall", keyThoughtSignature},
		{"redactedThinking", keyData}, {"reasoning", keyEncrypted},
	} {
		if v := m[block.key]; v.end-v.start > 2 && w.raw[v.start] == '"' && w.is(typ, block.name) {
			return true
		}
	}
	return w.is(typ, "anthropicServerTool") || w.is(typ, "anthropicCompaction")
}

// isImage recognizes the block of SPEC T5, before or after its data became a ref: otherwise the members that were left
// alone the first time would be cut the second time.
func (w *walker) isImage(m *[keys]span) bool {
	data := m[keyData].of(w.raw)
	if len(data) < refLen+2 || data[0] != '"' || !w.is(m[keyType], "image") {
		return false
	}
	body := data[1 : len(data)-1]
	if len(body) == refLen && IsRef(string(body)) {
		return true
	}
	i, units := advance(body, MinImage)
	return units >= MinImage || i < len(body)
}

// recount sets lineCount of an object that changed (SPEC T4). edits[mark:] are the changes.
func (w *walker) recount(m *[keys]span, mark int) {
	content, count := m[keyContent], m[keyLineCount]
	if content.end == 0 || w.raw[content.start] != '"' || jsonscan.KindOf(count.of(w.raw)) != jsonscan.KindNumber {
		return
	}
	lines := 1
	for _, e := range w.edits[mark:] {
		if content.start <= e.start && e.end <= content.end {
			content.end = e.start
			lines += 2 // of the notice
		}
	}
	lines += jsonscan.Lines(content.of(w.raw))
	old, err := strconv.ParseFloat(string(count.of(w.raw)), 64)
	if err == nil && old == float64(lines) {
		return
	}
	w.edits = append(w.edits, edit{start: count.start, end: count.end, rule: counted, text: strconv.Itoa(lines)})
}

// stringAt walks a string value: SPEC T6 first, then T2 and T1.
func (w *walker) stringAt(i int, k key) int {
	end := jsonscan.SkipString(w.raw, i)
	body := w.raw[i+1 : end-1]
	if k == keyImageURL {
		if e, isURL := urlEdit(body); isURL {
			if e.blob != nil {
				e.start, e.end = i+1, end-1
				w.edits = append(w.edits, e)
			}
			return end
		}
	}
	if len(body) <= MaxUnits || k.signature() && w.opt.Signed == SignedVerbatim {
		return end
	}
	cut, over := cutAt(body)
	switch {
	case !over:
	case k.signature():
		w.edits = append(w.edits, edit{start: i + 1, end: end - 1, rule: cleared})
	default:
		w.edits = append(w.edits, edit{start: i + 1 + cut, end: end - 1, rule: truncated, text: quotedNotice})
	}
	return end
}
