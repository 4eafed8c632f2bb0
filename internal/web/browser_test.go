package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"spool/internal/must"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a page may take to become what a test waits for.
const patience = must.Patience

var browser struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

func closeBrowser() {
	if browser.close != nil {
		browser.close()
	}
}

// chromium finds the browser. Where SPOOL_CI is set, a test that needs one fails without it.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome", "headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("SPOOL_CI") != "" {
		t.Fatal("no Chromium on the PATH: install it with: apt-get install -y chromium")
	}
	t.Skip("no Chromium on the PATH: the page is not tested")
	return ""
}

// tab is a tab of a headless browser.
type tab struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	told []string // errors and warnings of the console
	may  []string // parts of those that are expected
}

// open shows an address in a new tab of its own size. What the page writes to the console as an error fails the test.
func open(t *testing.T, address string, width, height int64) *tab {
	t.Helper()
	path := chromium(t)
	browser.once.Do(func() {
		opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
		alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, cancel := chromedp.NewContext(alloc)
		browser.ctx, browser.err = ctx, chromedp.Do(ctx)
		browser.close = func() {
			_ = chromedp.Cancel(ctx)
			cancel()
			cancelAlloc()
		}
	})
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
	console := chromedp.Console(ctx)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for m, err := range console {
			if err != nil {
				return
			}
			if slices.Contains([]chromedp.ConsoleType{"error", "warning", chromedp.ConsoleException}, m.Type) {
				p.mu.Lock()
				p.told = append(p.told, fmt.Sprintf("%s: %s %s", m.Type, m.Text, m.URL))
				p.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-listening
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, line := range p.told {
			if !slices.ContainsFunc(p.may, func(part string) bool { return strings.Contains(line, part) }) {
				t.Errorf("console: %s", line)
			}
		}
	})
	p.do(chromedp.Navigate(address))
	return p
}

// expect lets the console say something.
func (p *tab) expect(part string) { p.may = append(p.may, part) }

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	must.Do(p.t, chromedp.Do(ctx, steps...))
}

// eval is the value of an expression.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// wait waits until an expression is true.
func (p *tab) wait(js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	look := fmt.Sprintf(`new Promise((done) => { const look = () => ((%s) ? done(true) : setTimeout(look, 10)); look(); })`, js)
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](look, chromedp.EvalAwaitPromise)); err != nil {
		p.t.Fatalf("%s does not come true: %v\nthe page says: %s", js, err,
			eval[string](p, `document.body.innerText.replace(/\s+/g, ' ').slice(0, 1500)`))
	}
}

// has waits until the page shows a text.
func (p *tab) has(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.body.innerText.replace(/\s+/g, ' ').includes(%s)`, quoted(text)))
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`!!document.querySelector(%s)`, quoted(selector)))
	eval[bool](p, fmt.Sprintf(`(() => { const el = document.querySelector(%s); el.focus(); el.click(); return true; })()`, quoted(selector)))
}

// press sends keys to what has the focus, as a keyboard does: a key that the page takes types nothing.
func (p *tab) press(keys string) {
	p.t.Helper()
	for _, r := range keys {
		events := kb.Encode(r)
		down, up := events[0], events[len(events)-1]
		if len(events) == 3 {
			down.Text, down.UnmodifiedText = events[1].Text, events[1].UnmodifiedText
		}
		for _, e := range []*input.DispatchKeyEventParams{down, up} {
			must.Get(chromedp.Call(p.ctx, input.DispatchKeyEvent, *e))(p.t)
		}
	}
}

// colours chooses light or dark, as the system would.
func (p *tab) colours(scheme string) {
	p.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	must.Get(chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}))(p.t)
}

// picture saves what is seen where SPOOL_SHOTS names a directory.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("SPOOL_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(dir+"/"+name+".png", png, 0o644)
	}
	must.Do(p.t, err)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
