package rehydrate

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

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
// it refers to none.
//
// It goes by the rules alone. The exact original of an entry of a thread is Source.Raw, which knows the places.
func Resolve(ctx context.Context, text []byte, blobs casstore.BlobGetter, warn func(Missing)) ([]byte, error) {
	return Source{Blobs: blobs, Warn: warn}.resolve(ctx, 0, text)
}

// resolve is Resolve for an entry of a thread.
func (s Source) resolve(ctx context.Context, index int64, text []byte) ([]byte, error) {
	if len(images(text)) == 0 {
		return text, nil
	}
	var out bytes.Buffer
	err := s.ResolveTo(ctx, index, text, &out, nil)
	return out.Bytes(), err
}

// ResolveTo writes what Resolve gives, an image at a time. literal writes what stands between the images; nil: as it
// is.
func (s Source) ResolveTo(
	ctx context.Context, index int64, text []byte, w io.Writer, literal func(part []byte) error,
) error {
	if literal == nil {
		literal = func(part []byte) error {
			_, err := w.Write(part)
			return err
		}
	}
	from := 0
	for _, at := range images(text) {
		blob, err := s.open(ctx, index, at.ref)
		if err != nil {
			return fmt.Errorf("resolve %s: %w", at.ref, err)
		}
		if blob == nil {
			continue
		}
		if err := literal(text[from:at.start]); err != nil {
			return err
		}
		if err := at.write(w, blob); err != nil {
			return fmt.Errorf("resolve %s: %w", at.ref, err)
		}
		from = at.end
	}
	return literal(text[from:])
}

func (p refPlace) write(w io.Writer, blob io.Reader) error {
	if p.url {
		b, err := io.ReadAll(blob)
		if err == nil {
			_, err = w.Write(jsonscan.AppendString(nil, string(b)))
		}
		return err
	}
	if _, err := io.WriteString(w, `"`); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.Copy(encoder, blob); err != nil {
		return err
	}
	err := encoder.Close()
	if err == nil {
		_, err = io.WriteString(w, `"`)
	}
	return err
}

// images finds the refs that Resolve puts back.
func images(text []byte) []refPlace {
	if !bytes.Contains(text, refMark) {
		return nil
	}
	if typ, _ := jsonscan.Text(jsonscan.Get(text, "type")); typ == sessions.TypeHeader {
		return nil
	}
	var walk refWalk
	walk.value(text, jsonscan.SkipSpace(text, 0), "", false)
	return walk.places
}

// refMark is in every text that refers to a blob, unless it is spelled with escapes, as nobody does.
var refMark = []byte("blob:sha256:")

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
		return w.object(raw, i, inArray && key == "content" || key == "toolUseResult")
	case '[':
		i = jsonscan.SkipSpace(raw, i+1)
		for raw[i] != ']' {
			i = next(raw, w.value(raw, i, key, true))
		}
		return i + 1
	}
	return jsonscan.SkipValue(raw, i)
}

// object walks an object; block tells that it is an element of an array under content, or of what Claude Code has of a
// result, where the data of an image is one object deeper (truncate.Options).
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
		switch {
		case block && key == "data" && isRef(raw[i:after]):
			start, end = i, after
		case block && (key == "source" || key == "file"):
			_ = jsonscan.Members(raw, i, func(name []byte, at int) int {
				to := jsonscan.SkipValue(raw, at)
				if (string(name) == "data" || string(name) == "base64") && isRef(raw[at:to]) {
					start, end = at, to
				}
				return to
			})
		}
		i = next(raw, after)
	}
	if image && end > start {
		w.add(raw, start, end, false)
	}
	return i + 1
}

func isRef(token []byte) bool {
	text, ok := jsonscan.Text(token)
	return ok && truncate.IsRef(text)
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
