package httpapi

import (
	"fmt"
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
	items := func(yield func(show.Item, error) bool) {
		for p, err := range a.cfg.Client.Thread(t).ItemsFrom(r.Context(), head, 1) {
			item := show.Read(p.Data)
			for k := range item.Images {
				item.Images[k].Lost = "spool show --html has it"
			}
			if !yield(item, err) {
				return
			}
		}
	}
	if _, err := show.Write(w, form, form.Begin(begin), items, head.N, mostPage, ""); err != nil {
		return begunError{err}
	}
	return nil
}
