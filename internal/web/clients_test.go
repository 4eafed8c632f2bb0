package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"spool/internal/must"
)

// TestPackageInBrowser: a web page of another origin, which --cors-origin names, publishes and follows with the package for JavaScript, as it
// is in clients/javascript.
func TestPackageInBrowser(t *testing.T) {
	chromium(t)
	files := http.FileServer(http.Dir("../../clients/javascript"))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			files.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><title>A page of somebody else</title>")
	}))
	t.Cleanup(page.Close)
	s := up(t, page.URL)
	p := open(t, page.URL, wide, tall)
	got := eval[[]string](p, fmt.Sprintf(`(async () => {
		const { Client, item, Conflict, NotFound } = await import("/index.js"), said = [];
		const thread = new Client({ url: %q }).thread("page");
		await thread.head().catch((error) => said.push(String(error instanceof NotFound)));
		await (await thread.publish([item("one"), item("two"), item("three")])).applied();
		for await (const it of thread.live({ from: 2 })) {
			said.push(it.n + " " + it.item.content[0].text);
			if (it.n === 3) break;
		}
		said.push(String((await thread.output("make", "built\n")).n));
		await thread.end();
		await thread.publish(item("late")).catch((error) => said.push(String(error instanceof Conflict)));
		return said;
	})()`, s.url))
	must.Same(t, fmt.Sprint(got), "[true 2 two 3 three 4 true]", "the page says %s, want %s")
	p.expect("404") // the browser tells of each refusal
	p.expect("409")
}
