package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"spool/internal/service"
	"spool/internal/show"
	"spool/internal/text"
	"spool/internal/view"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
)

type showCmd struct {
	What string `arg:"" name:"session[/thread][#n]" help:"The session, or the beginning of its id; its thread, main unless named; the number of one item."`
	Last int64  `placeholder:"N" help:"Only the newest N items."`
	Full bool   `help:"Fold nothing, and show whole what a size rule cut."`
	MD   bool   `name:"md" xor:"form" help:"As Markdown."`
	HTML bool   `name:"html" xor:"form" help:"As one HTML file, which holds its pictures and needs no script."`
	Most size   `name:"max-page" default:"64MiB" placeholder:"SIZE" help:"With --html, the most bytes of the page, which ends before the item that does not fit (${default})."`
	JSON bool   `xor:"form" help:"Each item as one line of JSON, as the HTTP API has it."`
}

func (c *showCmd) Help() string {
	return "Who said what, and what tools were asked and answered: of long inputs and outputs the beginning. On a terminal it is shown by " +
		"$PAGER (less), unless that is empty or cat; NO_COLOR takes the colours away. With #n, one item is shown, and nothing of it folded."
}

func (c *showCmd) Run(a *app) error {
	name, number, one := strings.Cut(c.What, "#")
	n := int64(0)
	if one {
		var err error
		if n, err = strconv.ParseInt(number, 10, 64); err != nil || n < 1 {
			return service.UsageError{Err: fmt.Errorf("%q: behind the # stands the number of an item, from 1", c.What)}
		}
		if c.Last > 0 {
			return service.UsageError{Err: errors.New("--last and #n: give one of them")}
		}
	}
	return a.readThread(name, func(cl *client.Client, t events.Thread) error {
		head, err := cl.Thread(t).AwaitHead(a.ctx)
		if err != nil {
			return err
		}
		if n > head.N {
			return fmt.Errorf("%s has no item %d: its items are 1 to %d", t, n, head.N)
		}
		from, most := max(1, n), head.N
		switch {
		case one:
			most = 1
		case c.Last > 0:
			from = max(1, head.N-c.Last+1)
		}
		return c.show(a, cl, t, head, from, most, one)
	})
}

// show writes items from a number on.
func (c *showCmd) show(a *app, cl *client.Client, t events.Thread, head threads.Head, from, most int64, one bool) error {
	if c.JSON {
		enc := a.plainJSON()
		for item, err := range c.items(a, cl, t, head, from, most) {
			if err == nil {
				err = enc.Encode(view.OfItem(item))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return a.paged(!c.MD && !c.HTML, func(w io.Writer) error {
		agents, err := cl.Session(t.Session).AgentCalls(a.ctx)
		if err != nil {
			return err
		}
		form, begin, bytes := c.form(a, one), "", int64(0)
		if c.HTML {
			bytes = int64(c.Most)
		}
		if !one || c.HTML {
			begin = form.Begin(c.head(a, cl, t, head))
		}
		before, names := earlier{from: from}, slices.Sorted(maps.Keys(agents))
		items := func(yield func(show.Item, error) bool) {
			for raw, err := range c.items(a, cl, t, head, from, most) {
				item := show.Read(raw)
				if err == nil {
					err = before.tell(form, a, cl, t, head, item)
				}
				for _, name := range names {
					if item.Kind == events.TypeToolCall && item.Call == agents[name] && name != t.Name {
						if !strings.Contains(name, "/") {
							name = t.Session + "/" + name
						}
						item.Facts = append(item.Facts, "subagent: "+name)
					}
				}
				c.images(a, cl, &item)
				if !yield(item, err) {
					return
				}
			}
		}
		cut, err := show.Write(w, form, begin, items, head.N, bytes, " --max-page gives it more, --last N shows the newest items.")
		if cut != "" {
			fmt.Fprintln(a.err, "spool: "+cut)
		}
		return err
	})
}

// mostEarlier is how many items before the first that is shown are read for the calls of results. They are looked for
// from the end of the thread, at most ten times so far.
const mostEarlier = 1000

// earlier finds the calls of results that are shown, where they stand before the first item that is.
type earlier struct {
	from  int64
	seen  show.Calls
	calls map[string]show.Item // nil: nobody asked for one yet
}

// tell gives a form the call of an item that is a result, if it is not shown and stands not far before. Items come in order.
func (e *earlier) tell(form show.Form, a *app, cl *client.Client, t events.Thread, head threads.Head, i show.Item) error {
	_, known := e.seen.Next(i)
	if known || i.Kind != events.TypeToolResult || i.Call == "" || e.from <= 1 || head.N-e.from > 10*mostEarlier {
		return nil
	}
	if e.calls == nil {
		e.calls = map[string]show.Item{}
		for p, err := range cl.Thread(t).ItemsBack(a.ctx, head, e.from) {
			if err != nil {
				return err
			}
			if p.N+mostEarlier < e.from {
				break
			}
			if before := show.Read(p.Data); before.Kind == events.TypeToolCall {
				e.calls[before.Call] = before
			}
		}
	}
	if call, ok := e.calls[i.Call]; ok {
		form.Earlier(call)
	}
	return nil
}

func (c *showCmd) form(a *app, one bool) show.Form {
	switch {
	case c.MD:
		return &show.Markdown{Full: c.Full || one, Zone: time.Local}
	case c.HTML:
		return &show.HTML{Zone: time.Local}
	}
	return &show.Terminal{Columns: a.columns(), Colour: a.coloured(), Full: c.Full || one, Zone: time.Local}
}

// items makes items again from the thread's nodes; with --full as they were before a size rule cut them, where that fits
// into memory.
func (c *showCmd) items(a *app, cl *client.Client, t events.Thread, head threads.Head, from, most int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if most == 0 {
			return
		}
		for p, err := range cl.Thread(t).ItemsFrom(a.ctx, head, from) {
			raw := p.Data
			if err == nil && c.Full && show.Read(raw).Cut {
				whole, e := cl.Thread(t).FullItem(a.ctx, head, p.N)
				switch {
				case e == nil:
					raw = whole
				case errors.Is(e, client.ErrTooLong):
					fmt.Fprintf(a.err, "spool: item %d is shown as it was cut: %v\n", p.N, e)
				default:
					err = e
				}
			}
			if most--; !yield(raw, err) || err != nil || most == 0 {
				return
			}
		}
	}
}

// head is what is known of the session.
func (c *showCmd) head(a *app, cl *client.Client, t events.Thread, head threads.Head) show.Head {
	h := show.Head{Thread: t}
	if all, err := cl.Sessions(a.ctx, t.Session); err == nil && len(all) > 0 {
		row := all[0].Row()
		h.Title = text.Line(row.Name())
		for _, fact := range []string{row.Agent(), row.Model, row.Cwd} {
			if fact != "" {
				h.Facts = append(h.Facts, fact)
			}
		}
	}
	if head.Created > 0 {
		h.Facts = append(h.Facts, time.UnixMilli(head.Created).Local().Format("2006-01-02 15:04"))
	}
	items := "items"
	if head.N == 1 {
		items = "item"
	}
	h.Facts = append(h.Facts, fmt.Sprintf("%d %s", head.N, items))
	if head.Status != threads.StatusActive {
		h.Facts = append(h.Facts, strings.TrimSpace(head.Status.String()+" "+head.Failure))
	}
	return h
}

// largestImage is the most bytes of an image that is put into a page.
const largestImage = 24 << 20

// images finds out what the images of an item are; a page is given their bytes, too.
func (c *showCmd) images(a *app, cl *client.Client, item *show.Item) {
	for k := range item.Images {
		if err := c.image(cl, a, &item.Images[k]); err != nil {
			item.Images[k].Lost = err.Error()
		}
	}
}

func (c *showCmd) image(cl *client.Client, a *app, i *show.Image) error {
	data := i.Source
	var in io.Reader
	if ref, err := casstore.ParseRef(data); err == nil {
		body, size, err := cl.SeekBlob(a.ctx, ref)
		if err != nil {
			return err
		}
		defer body.Close()
		in, i.Size = body, size
		begin := make([]byte, len("data:"))
		n, _ := io.ReadFull(body, begin)
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if data = string(begin[:n]); data == "data:" && size <= largestImage {
			url, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			in, data = nil, string(url)
		}
	}
	if in == nil {
		if strings.Contains(data, "://") {
			return errors.New("it is elsewhere: " + data)
		}
		if _, behind, ok := strings.Cut(data, ";base64,"); ok && strings.HasPrefix(data, "data:") {
			data = behind
		}
		in = base64.NewDecoder(base64.StdEncoding, strings.NewReader(data))
		i.Size = int64(base64.StdEncoding.DecodedLen(len(data)) - strings.Count(data, "="))
	}
	most := int64(512)
	if c.HTML && i.Size <= largestImage {
		most = largestImage
	}
	b, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return err
	}
	if kind := http.DetectContentType(b); view.IsPicture(kind) {
		if i.Type = kind; most == largestImage {
			i.Bytes = b
		}
	}
	return nil
}

// paged gives write standard output, or on a terminal the pager that PAGER names. Who ends the pager early has seen enough.
func (a *app) paged(wanted bool, write func(io.Writer) error) error {
	pager, set := os.LookupEnv("PAGER")
	if !set {
		if pager = "less"; !found(pager) {
			pager = ""
		}
	}
	if !wanted || a.columns() == 0 || strings.TrimSpace(pager) == "" || pager == "cat" {
		return write(a.out)
	}
	cmd := exec.Command("sh", "-c", pager) // a person's setting, as git runs it
	cmd.Stdout, cmd.Stderr = a.out, a.err
	cmd.Env = os.Environ()
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} {
		if _, set := os.LookupEnv(name); !set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return write(a.out)
	}
	err = write(in)
	if gone(err) {
		err = nil
	}
	_ = in.Close()
	if e := cmd.Wait(); err == nil && e != nil {
		err = fmt.Errorf("PAGER %q: %w", pager, e)
	}
	return err
}

func found(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
