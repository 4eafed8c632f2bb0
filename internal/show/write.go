package show

import (
	"fmt"
	"io"
	"iter"

	"spool/internal/text"
)

// Write writes what a form begins with, items, and its end. Where an item would make it more than most bytes (0: it may have any number)
// it ends before that, and says so with what to do about it; cut is what it says. of is how many items the thread has.
func Write(w io.Writer, form Form, begin string, items iter.Seq2[Item, error], of, most int64, advice string) (cut string, err error) {
	written, err := io.WriteString(w, begin)
	for item, e := range items {
		if err == nil {
			err = e
		}
		if err != nil {
			return "", err
		}
		shown := form.Item(item)
		if most > 0 && int64(written+len(shown)) > most {
			cut = fmt.Sprintf("This page ends before item %d of %d: with it, it would have more than %s.%s", item.N, of, text.Bytes(most), advice)
			shown = "\n" + cut + "\n"
			if _, ok := form.(*HTML); ok {
				shown = "<article class=\"status\">\n<p><strong>" + escape(cut) + "</strong></p>\n</article>\n"
			}
		}
		var n int
		n, err = io.WriteString(w, shown)
		written += n
		if cut != "" {
			break
		}
	}
	if err == nil {
		_, err = io.WriteString(w, form.End())
	}
	return cut, err
}
