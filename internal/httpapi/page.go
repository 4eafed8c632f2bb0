package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"spool/internal/show"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/events"
)

// mostPage is how many bytes a page of a thread has at most, as that of spool show.
const mostPage = 64 << 20

// page gives a thread as one file to read: as HTML that needs nothing beside it, or as Markdown.
func (a *api) page(w http.ResponseWriter, r *http.Request, t events.Thread) error {
	var form show.Form
	name, kind := t.Session+"-"+t.Name, ""
	switch as := r.URL.Query().Get("as"); as {
	case "", "html":
		form, name, kind = &show.HTML{Zone: time.UTC}, name+".html", "text/html; charset=utf-8"
	case "md":
		form, name, kind = &show.Markdown{Zone: time.UTC}, name+".md", "text/markdown; charset=utf-8"
	default:
		return fmt.Errorf("%w: as=%.50q: use html or md", ErrRequest, as)
	}
	head, err := a.cfg.Client.Thread(t).AwaitHead(r.Context())
	if err != nil {
		return err
	}
	begin := show.Head{Thread: t, Facts: []string{text.Sprintf("%d items", head.N)}}
	if s, err := view.NewReader(a.cfg.Client).Session(r.Context(), t.Session); err == nil { // without it the page has no title
		begin.Title = text.Line(s.Name)
	}
	download(w, name, kind)
	if r.Method == http.MethodHead {
		return nil
	}
	written := int64(0)
	write := func(s string) error {
		written += int64(len(s))
		if _, err := io.WriteString(w, s); err != nil {
			return begunError{err}
		}
		return nil
	}
	if err := write(form.Begin(begin)); err != nil {
		return err
	}
	for p, err := range a.cfg.Client.Thread(t).ItemsFrom(r.Context(), head, 1) {
		if err != nil {
			return begunError{err}
		}
		item := show.Read(p.Data)
		for k := range item.Images {
			item.Images[k].Lost = "spool show --html has it"
		}
		shown := form.Item(item)
		if written+int64(len(shown)) > mostPage {
			shown = fmt.Sprintf("\nThis page ends before item %d of %d: with it, it would have more than %s.\n", item.N, head.N, text.Bytes(mostPage))
			if html, ok := form.(*show.HTML); ok {
				shown = html.Bounded(shown)
			}
			if err := write(shown); err != nil {
				return err
			}
			break
		}
		if err := write(shown); err != nil {
			return err
		}
	}
	return write(form.End())
}
