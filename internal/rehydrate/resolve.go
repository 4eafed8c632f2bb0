package rehydrate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"spool/internal/jsonscan"
	"spool/pkg/casstore"
	"spool/pkg/sessions"
	"spool/pkg/truncate"
)

// Missing is a blob that could not be put back where an entry refers to it; its ref stands there instead (SPEC T10).
type Missing struct {
	Ref   casstore.Ref
	Entry int64 // index of the entry in its thread; 0 for an entry by itself
	Err   error // wraps casstore.ErrNotFound, ErrGone or ErrCorrupt
}

// Corrupt tells that the blob is there and its bytes are not those its hash names, or not all.
func (m Missing) Corrupt() bool { return errors.Is(m.Err, casstore.ErrCorrupt) }

func (m Missing) Error() string {
	what := "is missing"
	if m.Corrupt() {
		what = "is corrupt"
	}
	where := ""
	if m.Entry > 0 {
		where = fmt.Sprintf("entry %d: ", m.Entry)
	}
	return fmt.Sprintf("%sblob %s, its ref stays in place: %v", where, what, m.Err)
}

func (m Missing) Unwrap() error { return m.Err }

// isMissing tells errors about one blob from those that end the work.
func isMissing(err error) bool {
	return errors.Is(err, casstore.ErrNotFound) || errors.Is(err, casstore.ErrGone) || errors.Is(err, casstore.ErrCorrupt)
}

// Resolve puts the images of a persisted entry back in line, wherever SPEC T5 and T6 move them out: as standard base64 in
// an image block, as the URL itself under image_url. All else stays as it is spelled, and so does a session header. A blob
// that is missing is reported to warn and its ref kept. text must have passed jsonscan.Valid; it is returned itself if
// there is nothing to put back.
//
// It goes by the rules alone. The exact original of an entry of a thread is Source.Raw, which knows the places.
func Resolve(ctx context.Context, text []byte, blobs casstore.BlobGetter, warn func(Missing)) ([]byte, error) {
	if typ, _ := jsonscan.Text(jsonscan.Get(text, "type")); typ == sessions.TypeHeader {
		return text, nil
	}
	var refs refWalk
	refs.value(text, jsonscan.SkipSpace(text, 0), "", false)
	var out []byte
	from := 0
	for _, at := range refs.places {
		b, err := blobs.Blob(ctx, at.ref)
		if isMissing(err) {
			warn(Missing{Ref: at.ref, Err: err})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", at.ref, err)
		}
		out = append(out, text[from:at.start]...)
		if at.url {
			out = jsonscan.AppendString(out, string(b))
		} else {
			out = append(base64.StdEncoding.AppendEncode(append(out, '"'), b), '"')
		}
		from = at.end
	}
	if from == 0 {
		return text, nil
	}
	return append(out, text[from:]...), nil
}

// refWalk finds the string tokens that are refs to images, in order.
type refWalk struct{ places []refPlace }

type refPlace struct {
	start, end int
	ref        casstore.Ref
	url        bool // under image_url
}

// value walks the value at raw[i] and returns the index after it. key is what it stands under, in an array the key of the
// array.
func (w *refWalk) value(raw []byte, i int, key string, inArray bool) int {
	switch raw[i] {
	case '"':
		end := jsonscan.SkipString(raw, i)
		if key == "image_url" {
			w.add(raw, i, end, true)
		}
		return end
	case '{':
		return w.object(raw, i, inArray && key == "content")
	case '[':
		i = jsonscan.SkipSpace(raw, i+1)
		for raw[i] != ']' {
			i = next(raw, w.value(raw, i, key, true))
		}
		return i + 1
	}
	return jsonscan.SkipValue(raw, i)
}

// object walks an object; block tells that it is an element of an array under content.
func (w *refWalk) object(raw []byte, i int, block bool) int {
	image, start, end := false, 0, 0
	i = jsonscan.SkipSpace(raw, i+1)
	for raw[i] != '}' {
		after := jsonscan.SkipString(raw, i)
		key, _ := jsonscan.Text(raw[i:after])
		i = jsonscan.SkipSpace(raw, jsonscan.SkipSpace(raw, after)+1)
		after = w.value(raw, i, key, false)
		if block && key == "type" {
			typ, _ := jsonscan.Text(raw[i:after])
			image = typ == "image"
		}
		if block && key == "data" {
			start, end = i, after
		}
		i = next(raw, after)
	}
	if image && end > start {
		w.add(raw, start, end, false)
	}
	return i + 1
}

// add notes a token that is a ref.
func (w *refWalk) add(raw []byte, start, end int, url bool) {
	text, ok := jsonscan.Text(raw[start:end])
	if !ok || !truncate.IsRef(text) {
		return
	}
	ref, err := casstore.ParseRef(text)
	if err != nil {
		return
	}
	w.places = append(w.places, refPlace{start, end, ref, url})
}

// next returns the index of the next member or element, or of the closing bracket.
func next(raw []byte, i int) int {
	if i = jsonscan.SkipSpace(raw, i); raw[i] == ',' {
		i = jsonscan.SkipSpace(raw, i+1)
	}
	return i
}
