package hostile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"spool/internal/must"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// letter is a line of spool dead ls --json.
type letter struct {
	At      uint64 `json:"at"`
	Seq     uint64 `json:"event_seq"`
	Session string `json:"session"`
	Reason  string `json:"reason"`
}

func (w *world) letters(session ...string) (all []letter) {
	w.t.Helper()
	for line := range bytes.Lines(w.run("spool", append([]string{"dead", "ls", "--json"}, session...)...)) {
		var l letter
		must.Do(w.t, json.Unmarshal(line, &l))
		all = append(all, l)
	}
	return all
}

// producers counts those of envelopes: each is its own, so that none passes for a repetition of another.
var producers int

func producer() string {
	producers++
	return fmt.Sprintf("p%d", producers)
}

// envelope is one as msgpack, with other fields in the place of its own.
func envelope(change map[int]any) []byte {
	fields := []any{uint64(events.Version), producer(), uint64(0), uint64(1), uint64(0), uint64(events.KindEntry), "raw", "h",
		"main", int64(0), "", "", "", []byte("body"), nil}
	for i, v := range change {
		fields[i] = v
	}
	b, err := msgpack.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return b
}

// in puts raw msgpack in the place of an envelope's field.
func in(field int, raw string) []byte {
	const mark = "here it goes"
	return bytes.Replace(envelope(map[int]any{field: mark}), append([]byte{0xa0 | byte(len(mark))}, mark...), []byte(raw), 1)
}

func jsonEnvelope(dialect, body string) []byte {
	return fmt.Appendf(nil, `{"producer":%q,"seq":1,"dialect":%q,"body":%s}`, producer(), dialect, body)
}

const depth = 100_000

// wide is an object of so many members.
func wide(members int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range members {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	b.WriteString(`"type":"x"}`)
	return b.String()
}

// bad are messages that no persister can apply, by what is wrong with them. The server takes a megabyte at most.
func bad() map[string][]byte {
	long := strings.Repeat("s", 10_000)
	return map[string][]byte{
		"nothing":                     {},
		"one byte":                    {0xc1},
		"text":                        []byte("hello"),
		"array of 4 billion":          []byte("\xdd\xff\xff\xff\xff"),
		"map of 4 billion":            []byte("\xdf\xff\xff\xff\xff"),
		"4 GiB of bytes":              []byte("\xc6\xff\xff\xff\xff"),
		"4 GiB of text":               []byte("\xdb\xff\xff\xff\xff"),
		"4 GiB of extension":          []byte("\xc9\xff\xff\xff\xff\x01"),
		"a body of 4 GiB":             in(13, "\xc6\xff\xff\xff\xff"),
		"a producer of 4 billion":     in(1, "\xdd\xff\xff\xff\xff"),
		"nested 10,000 deep":          []byte(strings.Repeat("\x91", 10_000) + "\xc0"),
		"nested 900,000 deep":         []byte(strings.Repeat("\x91", 900_000) + "\xc0"),
		"maps nested 400,000 deep":    []byte(strings.Repeat("\x81\x01", 400_000) + "\xc0"),
		"a body that is an abyss":     in(13, strings.Repeat("\x91", 100_000)+"\xc0"),
		"a map":                       []byte("\x81\x01\x02"),
		"keys twice":                  []byte("\x82\xa1a\x01\xa1a\x02"),
		"a seq that is not a number":  in(3, "\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01"),
		"a seq below zero":            envelope(map[int]any{3: int64(-1)}),
		"an epoch of infinity":        in(2, "\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"),
		"another version":             envelope(map[int]any{0: uint64(9)}),
		"a kind that is none":         envelope(map[int]any{5: uint64(99)}),
		"a kind of 2^64-1":            envelope(map[int]any{5: ^uint64(0)}),
		"a dialect that is none":      envelope(map[int]any{6: "../../etc/passwd", 13: []byte("{}")}),
		"a dialect of 10 kB":          envelope(map[int]any{6: long, 13: []byte("{}")}),
		"a dialect of controls":       envelope(map[int]any{6: "\x1b[2J\r\n", 13: []byte("{}")}),
		"no dialect":                  envelope(map[int]any{6: ""}),
		"another session":             envelope(map[int]any{7: "other"}),
		"a session that is a path":    envelope(map[int]any{7: "../h"}),
		"a session of 10 kB":          envelope(map[int]any{7: long}),
		"a thread that is a wildcard": envelope(map[int]any{8: ">"}),
		"no producer":                 envelope(map[int]any{1: ""}),
		"a producer of 10 kB":         envelope(map[int]any{1: long}),
		"no seq":                      envelope(map[int]any{3: uint64(0)}),
		"a body that is text":         envelope(map[int]any{13: 7}),
		"a reference to nothing":      envelope(map[int]any{13: []byte{}, 14: []any{"", int64(-1), []byte("x")}}),
		"a reference to a path":       envelope(map[int]any{13: []byte{}, 14: []any{"../../etc/passwd", int64(10), make([]byte, 32)}}),
		"a reference of 2^62 bytes":   envelope(map[int]any{13: []byte{}, 14: []any{"nowhere", int64(1) << 62, make([]byte, 32)}}),
		"cut off":                     envelope(nil)[:20],
		"bytes behind it":             append(envelope(nil), 0xc0),
		"JSON that is cut off":        []byte(`{"producer":"j"`),
		"JSON 100,000 deep":           []byte(`{"x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`),
		"JSON without a body":         []byte(`{"producer":"j","seq":1,"dialect":"raw"}`),
		"JSON with two bodies":        []byte(`{"producer":"j","seq":1,"dialect":"raw","body":"a","body_base64":"YQ=="}`),
		"JSON with a seq of 1e400":    []byte(`{"producer":"j","seq":1e400,"dialect":"raw","body":"a"}`),
		"JSON with base64 that isn't": []byte(`{"producer":"j","seq":1,"dialect":"raw","body_base64":"*"}`),
		"JSON that is not UTF-8":      []byte("{\"producer\":\"\xff\",\"seq\":\"1\"}"),
		"an entry that is no JSON":    jsonEnvelope("claude", `"{not json"`),
		"an entry 100,000 deep":       jsonEnvelope("claude", encode(strings.Repeat("[", depth)+strings.Repeat("]", depth))),
		"an entry of half an object":  jsonEnvelope("omp", `"{\"a\":"`),
		"an entry with an odd number": jsonEnvelope("item", `"{\"a\":01}"`),
		"a control that is none":      envelope(map[int]any{5: uint64(events.KindControl), 13: []byte(`{"op":"format c:"}`)}),
		"a control 10,000 deep":       envelope(map[int]any{5: uint64(events.KindControl), 13: []byte(strings.Repeat(`{"op":`, 10_000))}),
		"a chunk that is none":        envelope(map[int]any{5: uint64(events.KindChunk), 13: []byte("\xdd\xff\xff\xff\xff")}),
		"a chunk of an endless text":  envelope(map[int]any{5: uint64(events.KindChunk), 13: []byte("\x96\xdb\xff\xff\xff\xff")}),
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings marshal
	}
	return string(b)
}

// odd are entries that are taken, though nobody would write them, and come back as they were.
var odd = map[string]string{
	"a half of a surrogate pair": `{"type":"user","message":{"content":"\ud800 \udc00 \ud83d"}}`,
	"members twice":              `{"type":"user","type":"assistant","type":7,"message":{},"message":[]}`,
	"a number of 1e400":          `{"type":"user","n":1e400,"m":-1e-400,"k":123456789012345678901234567890}`,
	"zeros":                      `{"type":"user","n":-0,"m":0.0e+00}`,
	"NUL":                        `{"type":"user","\u0000":"\u0000"}`,
	"control characters":         `{"type":"user","message":{"content":"\u001b[2J\u0007\u202e\ufeff\r\n"}}`,
	"a name that is a prototype": `{"__proto__":{"type":"user"},"constructor":{"prototype":{}}}`,
	"a type of another kind":     `{"type":{"type":[{"type":null}]},"id":[],"parentId":{},"timestamp":-1e308}`,
	"200 levels":                 strings.Repeat(`{"a":[`, 100) + strings.Repeat(`]}`, 100),
	"a scalar":                   `7`,
	"an empty array":             `[ ]`,
	"200,000 members":            wide(200_000),
	"200,000 empty arrays":       `{"a":[` + strings.Repeat("[],", 200_000) + `[]]}`,
	"a name of a megabyte":       `{"` + strings.Repeat("n", 1<<20) + `":1}`,
	"a line of 4 megabytes":      `{"type":"user","message":{"content":"` + strings.Repeat("é🍊x", 500_000) + `"}}`,
	"not UTF-8":                  "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"\xff\xfe \xed\xa0\x80 \xc0\xaf\"}}",
	"markup":                     `{"type":"user","message":{"content":"<script>alert(1)</script>]]>\u2028"}}`,
	"a type of 10 kB":            `{"type":"` + strings.Repeat("t.*>", 2500) + `","message":{"role":"` + strings.Repeat("r ", 5000) + `"}}`,
}

// refusedOverHTTP are bodies of entries that are answered with what is wrong.
var refusedOverHTTP = map[string]string{
	"no JSON":         `{"a":`,
	"100,000 deep":    strings.Repeat("[", depth) + strings.Repeat("]", depth),
	"objects deep":    strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
	"two values":      `{} {}`,
	"a bare word":     `NaN`,
	"Infinity":        `{"a":Infinity}`,
	"a leading zero":  `{"a":01}`,
	"raw control":     "{\"a\":\"\x01\"}",
	"a comment":       `{"a":1/**/}`,
	"a broken escape": `{"a":"\x"}`,
	"nothing":         ``,
	"only space":      " \t\n",
}

// TestHostileInput sends everything that is hostile to a system that goes on working.
func TestHostileInput(t *testing.T) {
	w, daemons := newWorld(t, "2s")
	conn := w.dial()
	js := conn.JetStream()
	sent := map[uint64][]byte{}
	names := map[uint64]string{}
	for name, data := range bad() {
		kind := events.KindEntry
		switch {
		case strings.HasPrefix(name, "a control"):
			kind = events.KindControl
		case strings.HasPrefix(name, "a chunk"):
			kind = events.KindChunk
		}
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: events.EventSubject(events.Thread{Session: "h", Name: "main"},
			kind), Data: data})
		if err != nil {
			t.Fatalf("publish %s: %v", name, err)
		}
		sent[ack.Sequence], names[ack.Sequence] = data, name
	}
	for _, subject := range []string{"spool.v1.event.\u202ex.main.entry", "spool.v1.event.\u0430dmin.main.entry",
		"spool.v1.event.a\x00b.main.entry",
		"spool.v1.event." + strings.Repeat("a", 3000) + ".main.entry", "spool.v1.event.$JS.main.entry",
		"spool.v1.event.h.main.surprise", "spool.v1.event.h.~.entry"} {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Data: []byte(`{"producer":"j","seq":1,"dialect":"raw","body":"a"}`)})
		if err != nil {
			t.Logf("the server refuses the subject %.60q: %v", subject, err)
			continue
		}
		sent[ack.Sequence], names[ack.Sequence] = []byte(`{"producer":"j","seq":1,"dialect":"raw","body":"a"}`), subject
	}
	var letters []letter
	must.Eventually(w.t, "everything is a dead letter", func() error {
		if letters = w.letters(); len(letters) < len(sent) {
			missing := []string{}
			for seq := range sent {
				if !slices.ContainsFunc(letters, func(l letter) bool { return l.Seq == seq }) {
					missing = append(missing, names[seq])
				}
			}
			return fmt.Errorf("%d of %d; not %.60q", len(letters), len(sent), missing)
		}
		return nil
	})
	t.Run("dead letters", func(t *testing.T) { w.checkLetters(t, letters, sent, names) })
	t.Run("odd entries", w.checkOdd)
	t.Run("refused entries", w.checkRefused)
	t.Run("names", w.checkNames)
	t.Run("commands of dead letters", w.checkDead)
	t.Run("queries", w.checkQueries)
	must.Same(t, len(w.letters()), 0, "%d dead letters more, want %d")
	w.run("spool", "fsck")
	for _, p := range daemons {
		checkAlive(t, p)
	}
}

// checkLetters: each has its bytes and a reason that says something.
func (w *world) checkLetters(t *testing.T, letters []letter, sent map[uint64][]byte, names map[uint64]string) {
	for _, l := range letters {
		data, ok := sent[l.Seq]
		if !ok {
			t.Errorf("dead letter %d is of event %d, which is not one of them: %s", l.At, l.Seq, l.Reason)
			continue
		}
		delete(sent, l.Seq)
		if len(l.Reason) < 10 || len(l.Reason) > 2048 {
			t.Errorf("%s: reason %.300q", names[l.Seq], l.Reason)
		}
		if got := w.run("spool", "dead", "show", strconv.FormatUint(l.At, 10)); !bytes.Equal(got, data) {
			t.Errorf("%s: dead show gives %d bytes %.40q, want the %d that were sent", names[l.Seq], len(got), got, len(data))
		}
	}
	for seq := range sent {
		t.Errorf("%s: event %d is no dead letter", names[seq], seq)
	}
}

// checkOdd: what is taken comes back byte for byte.
func (w *world) checkOdd(t *testing.T) {
	for name, entry := range odd {
		session := "odd-" + events.Token(strings.ReplaceAll(name, " ", "-"))
		if status, answer := w.post("/v1/sessions/"+session+"/threads/main/entries?dialect=claude", "application/json",
			strings.NewReader(entry)); status != http.StatusAccepted {
			t.Errorf("%s: %d %.300s, want it taken", name, status, answer)
			continue
		}
		must.Eventually(w.t, name, func() error {
			out, errs, code := w.try(nil, "spool", "export", session)
			if code != 0 {
				return fmt.Errorf("exit code %d: %.300s", code, errs)
			}
			if string(out) != entry+"\n" {
				t.Errorf("%s: export = %d bytes %.100q, want the %d of the entry", name, len(out), out, len(entry))
			}
			return nil
		})
		if resp, err := http.Get("http://" + w.http + "/v1/sessions/" + session + "/threads/main/items"); err != nil ||
			resp.StatusCode != http.StatusOK {
			t.Errorf("%s: items = %v, %v", name, resp, err)
		} else {
			_ = resp.Body.Close()
		}
	}
}

func (w *world) checkRefused(t *testing.T) {
	for name, body := range refusedOverHTTP {
		if status, answer := w.post("/v1/sessions/refused/threads/main/entries?dialect=claude", "application/json",
			strings.NewReader(body)); status != http.StatusBadRequest || !strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %d %.300s, want 400 and why", name, status, answer)
		}
		line, _, code := w.try(strings.NewReader(body+"\n"), "spool", "publish", "--session", "refused", "--dialect", "claude", "-")
		if blank := strings.TrimSpace(body) == ""; code == 0 && !blank {
			t.Errorf("spool publish of %s: exit code 0\n%.300s", name, line)
		}
	}
	if status, answer := w.post("/v1/sessions/refused/threads/main/entries?dialect=claude", "application/json",
		strings.NewReader(`{"type":"user"}`)); status != http.StatusAccepted {
		t.Errorf("a good entry behind them: %d %s", status, answer)
	}
}

// hostileNames are not for a session, a thread or anything that becomes a subject, a key or a path.
var hostileNames = []string{
	"..", ".", "a/b", "../../etc/passwd", "/etc/passwd", "*", ">", "a.b", "a.>", "$JS.API.INFO", "_INBOX.x", "a b", " ",
	"a\x00b", "a\r\nb", "a\nSet-Cookie: x",
	"\u202etxt.exe", "\ufeff", "\u0430dmin", "a\u2028b", "\xff\xfe", strings.Repeat("a", 10_000), "a\\b", "C:", "%2e%2e",
	"<script>", "a\tb", "é",
}

// checkNames: none of them is taken anywhere, and nothing is written where they lead to.
func (w *world) checkNames(t *testing.T) {
	before := w.files(t)
	for _, name := range hostileNames {
		esc := url.PathEscape(name)
		for _, path := range []string{"/v1/sessions/" + esc + "/threads/main/entries?dialect=raw", "/v1/sessions/s/threads/" +
			esc + "/entries?dialect=raw"} {
			if status, answer := w.post(path, "application/json", strings.NewReader("1")); status < 400 || status >= 500 {
				t.Errorf("POST %.80q = %d %.200s, want it refused", path, status, answer)
			}
		}
		status, answer := w.post("/v1/events", "application/x-ndjson",
			strings.NewReader(encode(map[string]any{"session": name, "thread": "main", "dialect": "raw", "body": "x"})+"\n"))
		if status < 400 && !strings.Contains(answer, `"ok":false`) {
			t.Errorf("envelope for the session %.80q = %d %.200s, want it refused", name, status, answer)
		}
		if strings.Contains(name, "\x00") {
			continue // no argument can hold it
		}
		commands := [][]string{
			{"publish", "--session", name, "--dialect", "raw", "-"}, {"publish", "--session", "s", "--thread", name, "--dialect", "raw", "-"},
			{"exec", "--session", name, "--", "true"}, {"session", "rm", "--yes", "--by", "x", "--now", name},
		}
		if name != "a/b" { // the thread b of a session a
			commands = append(commands, []string{"thread", "fork", "odd-zeros", name})
		}
		for _, args := range commands {
			if _, errs, code := w.try(strings.NewReader("x\n"), "spool", args...); code == 0 || errs == "" {
				t.Errorf("spool %.80q: exit code %d, %.200s, want it refused", args, code, errs)
			}
		}
	}
	// The name of an artifact is what its writer says; where it is written to is not.
	for _, name := range []string{"../../../evil", "/tmp/evil", "..", "a/../../evil", "evil\x00.txt", "\u202e", strings.Repeat("n", 10_000)} {
		status, answer := w.post("/v1/sessions/odd-zeros/artifacts?filename="+url.QueryEscape(name), "application/octet-stream",
			strings.NewReader("evil"))
		t.Logf("artifact %.30q: %d %.100s", name, status, answer)
		if status >= 500 {
			t.Errorf("artifact of the name %.40q = %d %s", name, status, answer)
		}
	}
	out := filepath.Join(w.home, "out")
	w.try(nil, "spool", "session", "export", "odd-zeros", "--dir", out)
	w.run("spool", "export", "--all", out)
	for _, path := range w.files(t) {
		if !slices.Contains(before, path) && !strings.HasPrefix(path, out+string(filepath.Separator)) {
			t.Errorf("%s was written", path)
		}
	}
	if _, err := os.Lstat(filepath.Join(os.TempDir(), "evil")); err == nil {
		t.Error("a file was written to the temporary directory")
	}
	for line := range bytes.Lines(w.run("spool", "session", "ls", "--all", "--unanswered", "--json")) {
		var s struct {
			ID      string `json:"id"`
			Harness string `json:"harness"`
		}
		if err := json.Unmarshal(line, &s); err != nil || events.CheckToken("session", s.ID) != nil {
			t.Errorf("a session is listed as %.1000s, %v", line, err)
		}
		if _, known := dialect.Lookup(s.Harness); !known && s.Harness != "" {
			t.Errorf("%s: harness %.100q, which no entry was taken of", s.ID, s.Harness)
		}
	}
	for _, args := range [][]string{{"session", "ls", "--all", "--unanswered"}, {"thread", "ls", "odd-control-characters"},
		{"thread", "show", "odd-control-characters"}, {"dead", "ls"}, {"top", "--once"}} {
		out := w.run("spool", args...)
		if at := bytes.IndexFunc(out, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == '\u202e' }); at >= 0 {
			t.Errorf("spool %s writes control characters to a terminal: %.80q", args, out[max(0, at-20):])
		}
	}
}

// files are those around the world, but not the server's.
func (w *world) files(t *testing.T) (all []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(filepath.Dir(w.home), func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == w.data, strings.HasPrefix(path, filepath.Join(w.home, ".")):
			if d.IsDir() && path != w.home {
				return fs.SkipDir
			}
			return nil
		case err == nil && !d.IsDir():
			all = append(all, path)
		}
		return nil
	}))
	return all
}

// checkDead: dead letters are removed, and published again; what is still wrong comes back.
func (w *world) checkDead(t *testing.T) {
	letters := w.letters("h")
	if len(letters) < 10 {
		t.Fatalf("%d dead letters of the session", len(letters))
	}
	readable := slices.IndexFunc(letters, func(l letter) bool { return strings.Contains(l.Reason, "entry is not JSON") })
	if readable < 0 {
		t.Fatal("no dead letter is of an entry that is no JSON")
	}
	again := letters[readable]
	if _, errs, code := w.try(nil, "spool", "dead", "replay", strconv.FormatUint(again.At, 10)); code != 1 ||
		!strings.Contains(errs, "came back") {
		t.Errorf("replay of what still is no JSON = exit code %d, %s, want 1", code, errs)
	}
	if !slices.ContainsFunc(w.letters("h"), func(l letter) bool { return l.At > again.At && l.Seq > again.Seq && l.Reason == again.Reason }) {
		t.Error("a replayed letter did not come back")
	}
	if _, errs, code := w.try(nil, "spool", "dead", "show", strconv.FormatUint(again.At, 10)); code == 0 ||
		!strings.Contains(errs, "there is no dead letter") {
		t.Errorf("a replayed letter is still there: exit code %d, %s", code, errs)
	}
	none := letters[slices.IndexFunc(letters, func(l letter) bool { return l.At != again.At })]
	w.run("spool", "dead", "rm", "--yes", strconv.FormatUint(none.At, 10))
	if slices.ContainsFunc(w.letters(), func(l letter) bool { return l.At == none.At }) {
		t.Error("a removed letter is still there")
	}
	if _, errs, code := w.try(nil, "spool", "dead", "rm", "--yes", strconv.FormatUint(none.At, 10)); code == 0 || errs == "" {
		t.Errorf("removing it again: exit code %d, %s", code, errs)
	}
	w.run("spool", "dead", "rm", "--yes", "--all")
}

// checkQueries: addresses with queries answer or refuse, whatever they ask for.
func (w *world) checkQueries(t *testing.T) {
	status, answer := w.post("/v1/sessions/odd-zeros/artifacts?agent=Reviewer", "application/octet-stream",
		strings.NewReader(`{"a":[{"b":1}],"__proto__":{"x":2}}`))
	if status != http.StatusCreated {
		t.Fatalf("agent's output = %d %s", status, answer)
	}
	for _, q := range []string{
		".a[0].b", ".a[99999999999999999999]", ".a[-1]", strings.Repeat("[", 5000), strings.Repeat(".a", 5000), ".__proto__.x",
		".a[", "['", "$..*", ".a|.b", ".a[0]/../b", "\x00", "%", ".\u202ea",
	} {
		_, errs, code := w.try(nil, "spool", "read", "--session", "odd-zeros", "agent://Reviewer?q="+url.QueryEscape(q))
		if code != 0 && errs == "" {
			t.Errorf("agent://Reviewer?q=%.40q: exit code %d, and no word", q, code)
		}
		resp, err := http.Get("http://" + w.http + "/v1/read?session=odd-zeros&url=" + url.QueryEscape("agent://Reviewer?q="+url.QueryEscape(q)))
		must.Do(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode >= 500 || (resp.StatusCode == http.StatusOK) != (code == 0) {
			t.Errorf("agent://Reviewer?q=%.40q = %d over HTTP, exit code %d", q, resp.StatusCode, code)
		}
	}
}
