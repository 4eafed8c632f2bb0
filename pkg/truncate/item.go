package truncate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"spool/internal/family"
	"spool/internal/jsonscan"
	"spool/internal/runes"
)

// Limits of a thread item in bytes (SPEC U1).
const (
	// ItemBudget is the length of an item as Python's json.dumps prints it.
	ItemBudget = 350_000
	// ItemHead and ItemTail are what is kept of a field that is cut, as UTF-8.
	ItemHead = 4_000
	ItemTail = 2_000
)

var (
	// ErrItemTooLarge says that an item is over its budget even without its long fields: the thread fails (SPEC I4).
	ErrItemTooLarge = family.Invalid.New("THREAD_ITEM_TOO_LARGE")
	// ErrItemShape says that an item over its budget has metadata that is no object, so a cut could not be recorded.
	ErrItemShape = family.Invalid.New("thread item metadata is not an object")
)

// Parts is an item: {"content": Content, "metadata": Metadata, …}. Both are JSON text that passed jsonscan.Valid; nil
// or empty means that the item has no such member.
type Parts struct {
	Content, Metadata []byte
	// Extra is PythonLen of an object that holds the item's other members, 0 if there are none.
	Extra int
	// CutOutput has metadata.tool.output cut even where the item fits: all of it is an artifact (SPEC A4).
	CutOutput bool
}

// Budget is what an item must fit in, and where the whole of it can be found.
type Budget struct {
	// Bytes is the most an item may have, measured by PythonLen. 0 means ItemBudget.
	Bytes int
	// LocalLog goes into the marker of each cut and into metadata.local_log: <session>/threads/<thread>/logs/thread.log.
	LocalLog string
	// Node, if not empty, becomes metadata.node of an item that was cut.
	Node string
}

// ItemResult is an item within its budget.
type ItemResult struct {
	// Content and Metadata are the Parts themselves if nothing was cut.
	Content, Metadata []byte
	// Fields are the names of the fields that were cut, in the order of SPEC I4.
	Fields []string
	// Len is the measured length, or 0 if the item was too small to need measuring.
	Len int
}

// Item makes an item fit its budget (SPEC I4). Over it, metadata.tool.output, metadata.tool.input, metadata.text and
// content[0].text are cut in this order until the item fits: head, marker `…[truncated N bytes; see PATH]…`, tail, where N
// is the UTF-8 bytes left out. Fields of at most ItemHead+ItemTail bytes are passed over. An object or array under
// tool.output or tool.input is cut as its JSON text without white space between tokens and becomes a string. What is kept
// of a cut field is valid UTF-8: a lone surrogate or an invalid byte in it becomes U+FFFD. If that does not do, every
// field that was cut becomes its marker alone, N being the whole field; last, the fields passed over do too, where the
// marker is shorter. With CutOutput the first field is cut in any case.
//
// Each cut is recorded in metadata (created if there was none): truncated, truncated_fields, local_log, node. All else
// keeps its place and spelling. Errors: ErrItemTooLarge, ErrItemShape, jsonscan.ErrSyntax and ErrDepth.
func Item(item Parts, budget Budget) (ItemResult, error) {
	budget.Bytes = cmp.Or(budget.Bytes, ItemBudget)
	f := fitter{budget: budget, extra: item.Extra, ItemResult: ItemResult{Content: item.Content, Metadata: item.Metadata}}
	if item.CutOutput {
		f.cutField(0)
	}
	if f.surelyFits() {
		return f.ItemResult, nil
	}
	for _, part := range [][]byte{item.Content, item.Metadata} {
		if len(part) > 0 {
			if err := jsonscan.Valid(part); err != nil {
				return ItemResult{}, fmt.Errorf("truncate item: %w", err)
			}
		}
	}
	if f.fits() {
		return f.ItemResult, nil
	}
	if kind := jsonscan.KindOf(item.Metadata); kind != jsonscan.KindInvalid && kind != jsonscan.KindNull && kind != jsonscan.KindObject {
		return ItemResult{}, fmt.Errorf("truncate item of %d bytes: %w", f.Len, ErrItemShape)
	}
	if before := f.Len; !f.cutFields() && !f.dropFields(true) && !f.dropFields(false) {
		return ItemResult{}, fmt.Errorf("%w: %d bytes as posted, %d without its long fields, the budget is %d; see %s",
			ErrItemTooLarge, before, f.Len, budget.Bytes, budget.LocalLog)
	}
	return f.ItemResult, nil
}

// fields in the order in which they are cut.
var fields = [...]field{
	{name: "tool.output", path: []string{"tool", "output"}, structured: true},
	{name: "tool.input", path: []string{"tool", "input"}, structured: true},
	{name: "text", path: []string{"text"}},
	{name: "content[0].text", path: []string{"text"}, inContent: true},
}

// field is a place in an item that may be cut.
type field struct {
	name       string
	path       []string
	inContent  bool // in the first element of content; otherwise in metadata
	structured bool // an object or array there counts as its JSON text
}

// fitter is an item on its way into the budget.
type fitter struct {
	ItemResult
	budget Budget
	extra  int
	cut    [len(fields)]int // bytes of the whole field, 0 as long as it was not cut
}

// wrapping is what Python prints around content and metadata.
const wrapping = len(`{"content": , "metadata": }`)

// surelyFits uses that no byte of JSON is printed as more than six.
func (f *fitter) surelyFits() bool {
	return 6*(len(f.Content)+len(f.Metadata))+wrapping+f.extra <= f.budget.Bytes
}

// fits measures the item.
func (f *fitter) fits() bool {
	f.Len = wrapping + f.extra
	for _, part := range [...]struct {
		raw    []byte
		absent int // what is not printed without it
	}{{f.Content, len(`"content": , `)}, {f.Metadata, len(`"metadata": , `)}} {
		if len(part.raw) == 0 {
			f.Len -= part.absent
			continue
		}
		m := meter{raw: part.raw}
		n, _ := m.value(jsonscan.SkipSpace(part.raw, 0))
		f.Len += n
	}
	return f.Len <= f.budget.Bytes
}

// cutFields leaves head and tail of one field after the other until the item fits.
func (f *fitter) cutFields() bool {
	for k := range fields {
		if f.cutField(k) && f.fits() {
			return true
		}
	}
	return false
}

// cutField leaves head and tail of a field that is longer and was not cut.
func (f *fitter) cutField(k int) bool {
	text, at, ok := f.read(fields[k])
	if !ok || f.cut[k] > 0 || len(text) <= ItemHead+ItemTail {
		return false
	}
	head, tail := runes.Head(text, ItemHead), runes.Tail(text, ItemTail)
	f.cut[k] = len(text)
	f.write(fields[k], at, head+f.marker(len(text)-len(head)-len(tail))+tail)
	return true
}

// dropFields leaves only the marker of the fields that were cut, or of those that were not.
func (f *fitter) dropFields(cut bool) bool {
	for k, field := range fields {
		text, at, ok := f.read(field)
		if !ok || (f.cut[k] > 0) != cut {
			continue
		}
		whole := f.cut[k]
		if !cut {
			if whole = len(text); whole <= len(f.marker(whole)) {
				continue
			}
		}
		f.write(field, at, f.marker(whole))
	}
	return f.fits()
}

func (f *fitter) marker(n int) string {
	return "…[truncated " + strconv.Itoa(n) + " bytes; see " + f.budget.LocalLog + "]…"
}

// read returns the text of a field and its place in Content or Metadata.
func (f *fitter) read(field field) (text string, at span, ok bool) {
	raw := f.Metadata
	if field.inContent {
		if raw = f.Content; jsonscan.KindOf(raw) != jsonscan.KindArray {
			return "", at, false
		}
		at.start = jsonscan.SkipSpace(raw, jsonscan.SkipSpace(raw, 0)+1)
	}
	at.end = len(raw)
	for _, name := range field.path {
		if at, ok = member(raw, at.start, name); !ok {
			return "", at, false
		}
	}
	token := at.of(raw)
	if kind := jsonscan.KindOf(token); field.structured && (kind == jsonscan.KindObject || kind == jsonscan.KindArray) {
		return compact(token), at, true
	}
	text, ok = jsonscan.Text(token)
	return text, at, ok
}

// write replaces a field by a string and records it in metadata.
func (f *fitter) write(field field, at span, text string) {
	if field.inContent {
		f.Content = replace(f.Content, at, jsonscan.AppendString(nil, text))
	} else {
		f.Metadata = replace(f.Metadata, at, jsonscan.AppendString(nil, text))
	}
	if slices.Contains(f.Fields, field.name) {
		return
	}
	f.Fields = append(f.Fields, field.name)
	if jsonscan.KindOf(f.Metadata) != jsonscan.KindObject { // there was none
		f.Metadata = []byte("{}")
	}
	f.Metadata = set(f.Metadata, "truncated", []byte("true"))
	f.Metadata = set(f.Metadata, "truncated_fields", listed(jsonscan.Get(f.Metadata, "truncated_fields"), field.name))
	f.Metadata = set(f.Metadata, "local_log", jsonscan.AppendString(nil, f.budget.LocalLog))
	if f.budget.Node != "" {
		f.Metadata = set(f.Metadata, "node", jsonscan.AppendString(nil, f.budget.Node))
	}
}
