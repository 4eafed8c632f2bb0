package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"spool/internal/must"
	"spool/internal/redact"
)

// secrets of every rule that comes with Spool, none of them anybody's. They are put together here so that no scanner takes
// this file for a leak.
var secrets = map[string]string{
	"aws-access-key":     "AKIA" + "Q3EGRZ7MXL2TVB5D",
	"github-token":       "ghp_" + "9aZ2kQ7xV4mN8bT1rW6yP3sD5fG0hJcLuEoI",
	"gitlab-token":       "glpat-" + "x9Z2kQ7xV4mN8bT1rW6y",
	"anthropic-key":      "sk-ant-" + "api03-" + "b7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2Lq9Zr4Tn6",
	"openai-key":         "sk-proj-" + "b7Xw2Lq9Zr4Tn6Vy1Kp8" + "T3Blbk" + "FJ" + "Md3Hs5Jf0GcAeUiOb7Xw",
	"google-api-key":     "AIza" + "SyB7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAe",
	"slack-token":        "xoxb-" + "123456789012-1234567890123-b7Xw2Lq9Zr4Tn6Vy1Kp8Md3H",
	"stripe-key":         "sk_live_" + "b7Xw2Lq9Zr4Tn6Vy1Kp8Md3H",
	"npm-token":          "npm_" + "b7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiO",
	"pypi-token":         "pypi-" + "AgEIcHlwaS5vcmcCJDU2b7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2L",
	"huggingface-token":  "hf_" + "bXwLqZrTnVyKpMdHsJfGcAeUiObXwLqZrT",
	"sendgrid-key":       "SG." + "b7Xw2Lq9Zr4Tn6Vy1Kp8Md." + "b7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf0GcAeUiOb7Xw2Lq",
	"digitalocean-token": "dop_v1_" + strings.Repeat("0a1b2c3d", 8),
	"age-secret-key":     "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF", 6)[:58],
	"nkey-seed":          "SU" + "AB5MX3Q7ZKD2TVN4WRYJ6LCHEGFOIPUSAB5MX3Q7ZKD2TVN4WRYJ6LCH",
	"jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" +
		".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"password-in-url": "q7Zr4Tn6Vy1K",
	"bearer-token":    "b7Xw2Lq9Zr4Tn6Vy1Kp8Md3Hs5Jf",
	"named-secret":    "b7Xw2Lq9Zr4Tn6Vy1Kp8",
	"aws-secret-key":  "b7Xw2Lq9/r4Tn6Vy1Kp8Md3Hs5Jf+GcAeUiOb7Xw",
	"slack-webhook":   "T0AB2CD3E/B0AB2CD3E/b7Xw2Lq9Zr4Tn6Vy1Kp8Md3H",
	"private-key":     "\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n", 4),
}

// beside is what has to be beside a secret to make it one.
var beside = map[string][2]string{
	"password-in-url": {"postgres://app:", "@db.local/x"},
	"bearer-token":    {"Authorization: Bearer ", "\n"},
	"named-secret":    {`api_key = "`, `"`},
	"aws-secret-key":  {"AWS_SECRET_ACCESS_KEY=", "\n"},
	"slack-webhook":   {"https://hooks.slack.com/services/", " "},
	"nkey-seed":       {"-----BEGIN USER NKEY SEED-----\n", "\n"},
	"private-key":     {"-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"},
}

func mask() *redact.Redactor { return redact.New(redact.Default(), true) }

// entry is an entry in whose text a secret stands, at the start of a line.
func entry(rule string) []byte {
	b := beside[rule]
	text := "first\n" + b[0] + secrets[rule] + b[1] + "\nlast \"quoted\" é ☃ 😀"
	raw, err := json.Marshal(map[string]any{"type": "user", "n": 7, "text": text})
	if err != nil {
		panic(err)
	}
	return raw
}

func plain(t *testing.T, raw []byte) string {
	t.Helper()
	var v struct{ Text string }
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v.Text
}

// TestEveryRule: its secret goes, all else of the entry stays, and doing it again changes nothing.
func TestEveryRule(t *testing.T) {
	for rule, secret := range secrets {
		raw := entry(rule)
		got, n := mask().Clean(raw, true)
		want := strings.Replace(plain(t, raw), secret, "[redacted:"+rule+"]", 1)
		if n != 1 || plain(t, got) != want {
			t.Errorf("Clean(%s) = %d, %q, want 1, %q", rule, n, plain(t, got), want)
			continue
		}
		if again, n := mask().Clean(got, true); n != 0 || !bytes.Equal(again, got) {
			t.Errorf("Clean of what is clean (%s) = %d, %q", rule, n, again)
		}
		if got, n := redact.New(redact.Default(), false).Clean(raw, true); n != 1 || !bytes.Equal(got, raw) {
			t.Errorf("without mask Clean(%s) = %d and changes %v, want 1, unchanged", rule, n, !bytes.Equal(got, raw))
		}
		text := []byte(plain(t, raw))
		if got, n := mask().Blank(text); n != 1 || len(got) != len(text) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("Blank(%s) = %d, %q, want 1 and as many bytes", rule, n, got)
		}
	}
}

// TestEscapedTwice: a secret in JSON that is a string of other JSON is found, also at the beginning of a line.
func TestEscapedTwice(t *testing.T) {
	for rule, secret := range secrets {
		raw := entry(rule)
		for depth := 2; depth <= 3; depth++ {
			outer := must.Get(json.Marshal(map[string]string{"text": string(raw)}))(t)
			raw = outer
			core := strings.TrimSpace(strings.SplitN(strings.TrimSpace(secret), "\n", 2)[0])
			got, n := mask().Clean(raw, true)
			if n != 1 || !json.Valid(got) || bytes.Contains(got, []byte(core)) {
				t.Errorf("%s, escaped %d times: %d found: %s", rule, depth, n, got)
			}
		}
	}
}

// TestOtherSpellings of a string in JSON do not hide what it says; and a secret that is a name's value is found across them.
func TestOtherSpellings(t *testing.T) {
	key := secrets["aws-access-key"]
	for _, raw := range []string{
		`{"text":"\u0041` + key[1:] + `"}`,
		`{"text":"a\/` + key + `"}`,
		`{"text":"\n` + key + `\t"}`,
		`{"text":"\ud83d\ude00 ` + key + ` \udc00"}`,
		`{"` + key + `":1,"text":""}`,
		`{"api_key":"` + secrets["named-secret"] + `","text":""}`,
		`{"text":"{\"api_key\":\"` + secrets["named-secret"] + `\"}"}`,
	} {
		got, n := mask().Clean([]byte(raw), true)
		if n != 1 || !json.Valid(got) || bytes.Contains(got, []byte(key[1:])) || bytes.Contains(got, []byte(secrets["named-secret"])) {
			t.Errorf("Clean(%s) = %d, %s", raw, n, got)
		}
	}
}

// TestReader finds the same as Clean, wherever a secret lies to the borders of its windows and however it is read.
func TestReader(t *testing.T) {
	for _, rule := range []string{"aws-access-key", "named-secret", "private-key"} {
		b := beside[rule]
		for _, at := range []int{0, 1<<20 - 200, 1<<20 - 30, 1<<20 - 12, 1<<20 - 1, 1 << 20, 1<<20 + 64<<10 - 5, 2 << 20} {
			text := strings.Repeat("x\n", at/2+1)[:at] + "\n" + b[0] + secrets[rule] + b[1] + strings.Repeat("\ny", 100<<10)
			raw := must.Get(json.Marshal(map[string]string{"text": text}))(t)
			for _, c := range []struct {
				name string
				raw  []byte
				json bool
				read func(io.Reader) io.Reader
			}{{"json", raw, true, iotest.HalfReader}, {"text", []byte(text), false, iotest.DataErrReader}} {
				want, _ := mask().Clean(c.raw, c.json)
				n := 0
				got, err := io.ReadAll(mask().Reader(c.read(bytes.NewReader(c.raw)), c.json, &n))
				if err != nil || n != 1 || !bytes.Equal(got, want) {
					t.Errorf("%s at %d, %s: %d found, %v, %d bytes, want 1 and the %d of Clean", rule, at, c.name, n, err, len(got), len(want))
				}
			}
		}
	}
	must.Is(t, must.Err(io.ReadAll(mask().Reader(iotest.ErrReader(io.ErrUnexpectedEOF), true, nil))), io.ErrUnexpectedEOF,
		"Reader of what cannot be read")
}

// TestExamples: nothing in the transcripts that come with Spool is taken for a secret.
func TestExamples(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../examples", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		if got, n := mask().Clean(text, true); n != 0 {
			i := 0
			for i < len(got) && got[i] == text[i] {
				i++
			}
			t.Errorf("%s: %d found, the first at %d: …%s", path, n, i, text[max(0, i-40):min(len(text), i+80)])
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d transcripts read, %v", files, err)
	}
}

// TestRules of a file like gitleaks'.
func TestRules(t *testing.T) {
	rules := must.Get(redact.Parse([]byte(`
[allowlist]
paths = ['''vendor/''']
stopwords = ["sample"]
[[rules]]
id = "only-a-path"
path = '''\.p12$'''
[[rules]]
id = "tok"
description = "a token"
regex = '''tok-(a|b)-([a-z0-9]{8,})'''
secretGroup = 2
entropy = 2.0
keywords = ["TOK-"]
[[rules.allowlists]]
condition = "AND"
regexTarget = "line"
regexes = ['''# fake''']
stopwords = ["deadbeef"]
[[rules.allowlists]]
condition = "AND"
paths = ['''x''']
regexes = ['''.''']
`)))(t)
	r := redact.New(rules, true)
	for in, want := range map[string]string{
		"tok-a-k3j9x2m4":                "tok-a-[redacted:tok]",
		"tok-b-aaaaaaaa":                "tok-b-aaaaaaaa",
		"tok-a-sample12345":             "tok-a-sample12345",
		"tok-a-deadbeef12":              "tok-a-[redacted:tok]",
		"tok-a-deadbeef12 # fake":       "tok-a-deadbeef12 # fake",
		"tok-a-k3j9x2m4 # fake":         "tok-a-[redacted:tok] # fake",
		"tok-c-k3j9x2m4":                "tok-c-k3j9x2m4",
		"tok-a-k3j9x2m4 tok-b-z8y7x6w5": "tok-a-[redacted:tok] tok-b-[redacted:tok]",
	} {
		if got, _ := r.Clean([]byte(in), false); string(got) != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	for what, text := range map[string]string{
		"no rules": "", "not TOML": "[[", "regex": "[[rules]]\nid='a'\nregex='('", "id": "[[rules]]\nid='a b'\nregex='x'",
		"group": "[[rules]]\nid='a'\nregex='(x)'\nsecretGroup=2", "extend": "[extend]\nuseDefault=true\n[[rules]]\nid='a'\nregex='x'",
		"targets": "[[allowlists]]\ntargetRules=['a']\n[[rules]]\nid='a'\nregex='x'",
	} {
		must.Is(t, must.Err(redact.Parse([]byte(text))), redact.ErrRules, "Parse(%s)", what)
	}
}

// FuzzClean: JSON stays JSON, what is read as a stream is the same, and doing it again changes nothing.
func FuzzClean(f *testing.F) {
	for rule := range secrets {
		f.Add(entry(rule))
	}
	f.Add([]byte(`{"\u00`))
	f.Add([]byte("\"\\"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, n := mask().Clean(raw, true)
		if json.Valid(raw) && !json.Valid(got) {
			t.Fatalf("Clean(%q) = %q", raw, got)
		}
		if n == 0 && !bytes.Equal(got, raw) {
			t.Fatalf("Clean(%q) = %q with nothing found", raw, got)
		}
		count := 0
		read, err := io.ReadAll(mask().Reader(bytes.NewReader(raw), true, &count))
		if err != nil || count != n || !bytes.Equal(read, got) {
			t.Fatalf("Reader(%q) = %q, %d, %v, want %q, %d", raw, read, count, err, got, n)
		}
		if blank, _ := mask().Blank(raw); len(blank) != len(raw) {
			t.Fatalf("Blank(%q) = %q", raw, blank)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for _, size := range []int{2 << 10, 1 << 20} {
		text := bytes.Repeat([]byte(`{"type":"assistant","text":"the key is to read the token\n of https://example.com/x"}`+"\n"), size/84)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := mask()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Clean(text, true)
			}
		})
	}
}

// BenchmarkHostile is how fast texts are searched that are nothing but the keywords of the rules, and the slowest of
// them; one round takes some seconds.
func BenchmarkHostile(b *testing.B) {
	const size = 32 << 10
	for b.Loop() {
		var slowest time.Duration
		var word string
		for _, k := range redact.Keywords() {
			for _, between := range []string{" ", "='"} {
				text := bytes.Repeat([]byte(k+between), size/len(k+between))
				start := time.Now()
				mask().Clean(text, false)
				if took := time.Since(start); took > slowest {
					slowest, word = took, k+between
				}
			}
		}
		b.ReportMetric(size/1e6/slowest.Seconds(), "slowest-MB/s")
		b.Logf("slowest: %q", word)
	}
}

func TestHides(t *testing.T) {
	for _, tt := range []struct {
		clean, text string
		want        bool
	}{
		{`{"a":"[redacted:x]"}`, `{"a":"secret"}`, true},
		{`{"a":"1 [redacted:x] 2 [redacted:y] 3"}`, `{"a":"1 s 2 t 3"}`, true},
		{`[redacted:x]`, `s`, true},
		{`{"a":"[redacted:x]"}`, `{"a":"s","b":"t"}`, false},
		{`{"a":"[redacted:x] 2"}`, `{"a":"s 3"}`, false},
		{`{"a":"1 [redacted:x]"}`, `{"a":"2 s"}`, false},
		{`{"a":"1 [redacted:x] 1"}`, `{"a":"1 1"}`, false},
		{`{"a":"[redacted:x`, `{"a":"s"}`, false},
		{`{"a":"s"}`, `{"a":"s"}`, false},
		{`{"a":"1 [redacted:x] 2"}`, `{"a":"1 s\"t 2"}`, true},
		{`{"a":"1\\[redacted:x]"}`, `{"a":"1\\s","b":"t"}`, false},
	} {
		must.Same(t, redact.Hides([]byte(tt.clean), []byte(tt.text), true), tt.want, "Hides(%s, %s) = %v, want %v", tt.clean, tt.text)
	}
}

// TestImagesStay: base64 looks like a token somewhere, between signs of its own that end words too; between less of it than an image has, a
// token is one.
func TestImagesStay(t *testing.T) {
	tried := 0
	for rule, secret := range secrets {
		if strings.Trim(secret, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-") != "" || beside[rule] != [2]string{} {
			continue
		}
		tried++
		for around, want := range map[int]int{8 << 10: 0, 300: 1} {
			b := make([]byte, around)
			for i := range b {
				b[i] = byte(i * 251 >> 3)
			}
			base64 := base64.StdEncoding.EncodeToString(b)
			raw := []byte(`{"data":"` + base64 + "/" + secret + "+" + base64 + `"}`)
			if got, n := mask().Clean(raw, true); n != want || bytes.Equal(got, raw) != (want == 0) {
				t.Errorf("%s between %d bytes of base64: %d found, want %d", rule, 2*len(base64), n, want)
			}
			var read bytes.Buffer
			must.Get(io.Copy(&read, mask().Reader(bytes.NewReader(raw), true, nil)))(t)
			if bytes.Equal(read.Bytes(), raw) != (want == 0) {
				t.Errorf("%s between %d bytes of base64, read in parts: changed %t", rule, 2*len(base64), want == 0)
			}
		}
	}
	if tried < 10 {
		t.Errorf("%d rules were tried, want 10 and more", tried)
	}
}
