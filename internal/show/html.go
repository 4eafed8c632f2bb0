package show

import (
	"cmp"
	_ "embed" // style.css
	"encoding/base64"
	"fmt"
	"html"
	"strings"
	"time"

	"spool/internal/text"
	"spool/pkg/events"
)

//go:embed style.css
var style string

// HTML is the form of one file that holds all that it shows: it has no script, and asks nobody for anything.
type HTML struct {
	Zone *time.Location

	calls Calls
}

// Begin implements Form.
func (d *HTML) Begin(h Head) string {
	title := escape(cmp.Or(h.Title, h.Thread.String()))
	out := "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n" +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">` +
		"\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" + title + "</title>\n<style>\n" +
		style + "</style>\n<main>\n<h1>" + title + "</h1>\n<p class=\"facts\">"
	return out + escape(strings.Join(append([]string{h.Thread.String()}, h.Facts...), " · ")) + "</p>\n"
}

// Earlier implements Form.
func (d *HTML) Earlier(i Item) { d.calls.earlier(i) }

// End implements Form.
func (d *HTML) End() string { return "</main>\n</html>\n" }

// Item implements Form.
func (d *HTML) Item(i Item) string {
	r, known := d.calls.Next(i)
	who := escape(i.Who())
	place := fmt.Sprintf(`<a href="#%d">%s</a>`, i.N, placeOf(i, d.Zone, time.DateTime))
	body := ""
	switch i.Kind {
	case events.TypeToolCall:
		body = heading(who+" <code>"+escape(i.Argument())+"</code>", place)
		if i.Input != "" {
			body += "<details><summary>Input</summary><pre>" + signed(i.Input) + "</pre></details>\n"
		}
		for _, fact := range i.Facts {
			body += "<p>" + escape(fact) + "</p>\n"
		}
	case events.TypeToolResult:
		says, class := "✓ ok", "ok"
		if i.Failed {
			says, class = "✗ failed", "failed"
		}
		head := `<span class="` + class + `">` + says + `</span> ` + escape(r.facts(i)) + ` <small>` + place + `</small>`
		switch {
		case i.Output != "" && (i.Failed || lines(i.Output) <= Folded):
			body = "<details open><summary>" + head + "</summary><pre>" + escape(i.Output) + "</pre></details>\n"
		case i.Output != "":
			body = "<details><summary>" + head + "</summary><pre>" + escape(i.Output) + "</pre></details>\n"
		case known:
			body = "<p>" + head + "</p>\n"
		default:
			body = "<p>" + head + "</p>\n" + prose(i.Text)
		}
	case events.TypeThinking:
		body = "<details><summary>" + who + " <small>" + place + "</small></summary>" + prose(i.Text) + "</details>\n"
	case events.TypeStatus, events.TypeTurnEnd:
		body = "<p>" + escape(strings.Join(append([]string{cmp.Or(i.Brief, i.Who())}, i.Facts...), " · ")) + " <small>" + place +
			"</small></p>\n"
	default:
		body = heading(who, place) + prose(i.Text)
	}
	for _, image := range i.Images {
		body += picture(image)
	}
	return fmt.Sprintf("<article id=\"%d\" class=\"%s\">\n%s</article>\n", i.N, classOf(i.Kind), body)
}

func heading(who, place string) string { return "<h2>" + who + " <small>" + place + "</small></h2>\n" }

// classOf is a name of style.css: a type of somebody else's has none of its own.
func classOf(kind string) string {
	switch kind {
	case events.TypeMessage, events.TypeToolCall, events.TypeToolResult, events.TypeThinking, events.TypeStatus, events.TypeTurnEnd,
		events.TypePendingPrompt:
		return kind
	}
	return events.TypeText
}

func prose(s string) string {
	out := ""
	for _, p := range pieces(s) {
		if p.code {
			out += "<pre>" + escape(p.text) + "</pre>\n"
		} else {
			out += `<div class="prose">` + escape(p.text) + "</div>\n"
		}
	}
	return out
}

// signed marks the lines of a difference.
func signed(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		switch shown := escape(strings.TrimSuffix(line, "\n")); {
		case strings.HasPrefix(line, "+ "):
			out.WriteString("<ins>" + shown + "</ins>\n")
		case strings.HasPrefix(line, "- "):
			out.WriteString("<del>" + shown + "</del>\n")
		default:
			out.WriteString(shown + "\n")
		}
	}
	return out.String()
}

func picture(i Image) string {
	name := escape(i.Name())
	if i.Bytes == nil || i.Type == "" {
		return "<p class=\"facts\">[" + name + "]</p>\n"
	}
	return "<figure><img alt=\"" + name + "\" src=\"data:" + i.Type + ";base64," + base64.StdEncoding.EncodeToString(i.Bytes) +
		"\"><figcaption>" + name + "</figcaption></figure>\n"
}

// escape is a text that is no markup, and has no characters that a page must not have or that turn its direction.
func escape(s string) string { return html.EscapeString(printable(s)) }

// printable is a text of which each line is.
func printable(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = text.Printable(strings.TrimSuffix(all[i], "\r"))
	}
	return strings.Join(all, "\n")
}
