package truncate

import (
	"strconv"

	"spool/internal/jsonscan"
)

// maxEdits is how much one entry may need: it bounds the memory of a scan.
const maxEdits = 100_000

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
	keySource                // source, file: with Options.Sources
	keyToolResult            // toolUseResult: the same
	keys
)

func (k key) signature() bool {
	return k == keyThinkingSignature || k == keyTextSignature || k == keyThoughtSignature
}

// classify names the key that is called name.
func (s *scanner) classify(name []byte) key {
	if s.check {
		return keyOther
	}
	if s.opt.Sources {
		switch string(name) {
		case "source", "file":
			return keySource
		case "base64":
			return keyData
		case "toolUseResult":
			return keyToolResult
		}
	}
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
	return keyOther
}

// scanner goes over the text of an entry once, in memory bounded by nesting and edits: it checks that the text is JSON
// and collects the edits. Those that a block takes back at its end (its type may come last) are dropped from the list.
type scanner struct {
	r     *jsonscan.Reader
	opt   Options
	hash  bool // externalized values need their ref
	check bool // there are no edits: it only checks
	depth int
	edits []edit

	source object // the last one under keySource

	text measure // the last string
	data decoder // and its bytes, if a rule may ask for them
	name [headLen]byte
}

// scan reads the whole text.
func (s *scanner) scan() error {
	if _, err := s.value(keyOther, false); err != nil {
		return err
	}
	if s.r.Space(); !s.r.End() {
		return s.r.Unexpected()
	}
	return nil
}

// value reads the next value. k is the key it stands under, in an array the key of the array; inArray tells that it is
// an element.
func (s *scanner) value(k key, inArray bool) (isString bool, err error) {
	switch s.r.Space() {
	case '"':
		return true, s.str(k)
	case '{':
		return false, s.nested(func() error {
			return s.object(inArray && k == keyContent || k == keyToolResult, k == keySource && !inArray)
		})
	case '[':
		return false, s.nested(func() error { return s.array(k) })
	case 't', 'f', 'n':
		return false, s.r.Literal()
	}
	_, err = s.r.Number(nil)
	return false, err
}

// nested reads the inside of brackets.
func (s *scanner) nested(inside func() error) error {
	if s.depth == jsonscan.MaxDepth {
		return s.r.TooDeep()
	}
	s.depth++
	s.r.Skip()
	err := inside()
	s.r.Skip()
	s.depth--
	return err
}

func (s *scanner) array(k key) error {
	c := s.r.Space()
	for c != ']' {
		if _, err := s.value(k, true); err != nil {
			return err
		}
		var err error
		if c, err = s.separator(']'); err != nil {
			return err
		}
	}
	return nil
}

// separator reads up to the next element or the closing bracket, and returns its first byte.
func (s *scanner) separator(closing byte) (byte, error) {
	c := s.r.Space()
	if c == ',' {
		s.r.Skip()
		if c = s.r.Space(); c != closing {
			return c, nil
		}
		return 0, s.r.Unexpected()
	}
	if c != closing {
		return 0, s.r.Unexpected()
	}
	return c, nil
}

// object reads the members of an object; inContent tells that it is an element of an array under content, or stands for
// one, inSource that such a one has its data in it.
func (s *scanner) object(inContent, inSource bool) error {
	mark := len(s.edits)
	o := object{content: -1}
	before := int64(-1) // end of the preceding member, -1 as long as none was kept
	c := s.r.Space()
	for c != '}' {
		start := s.r.Offset()
		k, err := s.key()
		if err != nil {
			return err
		}
		own := len(s.edits)
		if err = s.member(&o, k, inContent, inSource); err != nil {
			return err
		}
		end := s.r.Offset()
		if c, err = s.separator('}'); err != nil {
			return err
		}
		if k != keyTransient {
			before = end
			continue
		}
		s.edits = s.edits[:own]
		if before, err = s.strip(start, end, before, c == '}'); err != nil {
			return err
		}
	}
	if inSource {
		s.source = o
	}
	return s.finish(&o, mark, inContent)
}

// key reads the name of a member and its colon.
func (s *scanner) key() (key, error) {
	if s.r.Space() != '"' {
		return 0, s.r.Unexpected()
	}
	s.r.Skip()
	name := s.name[:0]
	for {
		p, err := s.r.Part()
		if err != nil {
			return 0, err
		}
		if len(p.Raw) == 0 {
			break
		}
		name = appendHead(name, p)
	}
	if s.r.Space() != ':' {
		return 0, s.r.Unexpected()
	}
	s.r.Skip()
	return s.classify(name), nil
}

// strip removes a member (SPEC T3) together with the comma before it, or, if no member before it was kept, the comma after.
func (s *scanner) strip(start, end, before int64, last bool) (newBefore int64, err error) {
	e := edit{start: start, end: end, rule: stripped}
	switch {
	case before >= 0:
		e.start, before = before, end
	case !last:
		e.end = s.r.Offset()
	}
	return before, s.add(e)
}

func (s *scanner) add(e edit) error {
	if s.check {
		return nil
	}
	if len(s.edits) == maxEdits {
		return ErrTooManyEdits
	}
	s.edits = append(s.edits, e)
	return nil
}

// object is what the rules about whole objects look at. Of duplicate keys the last counts, as in JSON.parse.
type object struct {
	typ     string     // the type, if it is one that a rule names
	filled  [keys]bool // strings that are not empty
	image   edit       // data as a blob
	isImage bool       // data is long enough for a blob, or a ref
	canMove bool       // image may be done
	content int        // newlines in a string content after T1, else -1
	count   count
}

// count is a numeric lineCount; the zero value stands for none.
type count struct {
	start, end int64
	is         float64 // -1 if it can not be the number of lines of anything
}

// member reads the value of a member and notes what it means for its object.
func (s *scanner) member(o *object, k key, inContent, inSource bool) error {
	if k == keyLineCount {
		return s.lineCount(o)
	}
	walk := k
	if k == keyData && !inContent && !inSource || k == keySource && !inContent {
		walk = keyOther
	}
	if k == keySource {
		s.source = object{}
	}
	isString, err := s.value(walk, false)
	if err != nil {
		return err
	}
	o.filled[k] = isString && s.text.units > 0
	switch k {
	case keyType:
		if o.typ = ""; isString {
			o.typ = blockType(s.text.head)
		}
	case keyContent:
		if o.content = -1; isString {
			o.content = s.text.linesKept()
		}
	case keyData:
		long := s.text.units >= MinImage || IsRef(string(s.text.head))
		if o.isImage = isString && (inContent || inSource) && long; o.isImage {
			o.image, o.canMove = s.moved()
		}
	case keySource:
		if inContent && s.source.isImage {
			o.isImage, o.image, o.canMove = s.source.isImage, s.source.image, s.source.canMove
		}
	}
	return nil
}

// blockType returns the type name if a rule looks for it, else "".
func blockType(name []byte) string {
	switch string(name) {
	case "image":
		return "image"
	case "thinking":
		return "thinking"
	case "text":
		return "text"
	case "toolCall":
		return "toolCall"
	case "redactedThinking":
		return "redactedThinking"
	case "reasoning":
		return "reasoning"
	case "anthropicServerTool", "anthropicCompaction":
		return "anthropic"
	}
	return ""
}

func (s *scanner) lineCount(o *object) error {
	o.count = count{}
	c := s.r.Space()
	if c != '-' && (c < '0' || c > '9') {
		_, err := s.value(keyLineCount, false)
		return err
	}
	start := s.r.Offset()
	spelled, err := s.r.Number(make([]byte, 0, maxCount))
	if err != nil {
		return err
	}
	n, err := strconv.ParseFloat(string(spelled), 64)
	if err != nil || len(spelled) == maxCount {
		n = -1
	}
	o.count = count{start: start, end: s.r.Offset(), is: n}
	return nil
}

// maxCount is the longest spelling of a number that is held against the lines; a longer one is no number of lines.
const maxCount = 64

// finish applies the rules that look at an object as a whole.
func (s *scanner) finish(o *object, mark int, inContent bool) error {
	switch {
	case s.opt.Signed == SignedVerbatim && o.signed():
		s.edits = s.edits[:mark]
	case inContent && o.typ == "image" && o.isImage:
		s.edits = s.edits[:mark]
		if o.canMove {
			return s.add(o.image)
		}
	case len(s.edits) > mark && o.content >= 0 && o.count.end > 0 && o.count.is != float64(o.content+1):
		return s.add(edit{start: o.count.start, end: o.count.end, rule: counted, lines: o.content + 1})
	}
	return nil
}

// signed recognizes the blocks SignedVerbatim lists.
func (o *object) signed() bool {
	switch o.typ {
	case "thinking":
		return o.filled[keyThinkingSignature]
	case "text":
		return o.filled[keyTextSignature]
	case "toolCall":
		return o.filled[keyThoughtSignature]
	case "redactedThinking":
		return o.filled[keyData]
	case "reasoning":
		return o.filled[keyEncrypted]
	}
	return o.typ == "anthropic"
}

// str reads a string: SPEC T6 first, then T2 and T1. For T5 the object decides at its end.
func (s *scanner) str(k key) error {
	s.r.Skip()
	s.text.begin(s.r.Offset())
	if k == keyData || k == keyImageURL {
		s.data.begin(k == keyImageURL, s.hash)
	}
	for {
		at := s.r.Offset()
		p, err := s.r.Part()
		if err != nil {
			return err
		}
		if len(p.Raw) == 0 {
			break
		}
		s.text.add(p, at)
		if k == keyData || k == keyImageURL {
			s.data.add(p)
		}
	}
	if k == keyImageURL && s.data.isDataURL(s.text.head) {
		if e, ok := s.moved(); ok {
			return s.add(e)
		}
		return nil
	}
	end := s.r.Offset() - 1
	switch {
	case s.text.units <= MaxUnits || k.signature() && s.opt.Signed == SignedVerbatim:
		return nil
	case k.signature():
		return s.add(edit{start: s.text.start, end: end, rule: cleared})
	}
	return s.add(edit{start: s.text.cut, end: end, rule: truncated})
}

// moved is the edit that puts a blob in the place of the last string, and whether the blob would be exact (SPEC T7).
func (s *scanner) moved() (edit, bool) {
	ok := s.data.close()
	return edit{start: s.text.start, end: s.r.Offset() - 1, rule: externalized, exact: !s.data.escaped, form: s.data.form,
		size: s.data.size, ref: s.data.ref()}, ok
}
