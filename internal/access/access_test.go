package access_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spool/internal/access"
	"spool/internal/must"
)

const first, second = "0123456789abcdef", "fedcba9876543210"

func admit(tokens *access.Tokens, text string) (access.Grant, bool) {
	_, g, ok := tokens.Admit(context.Background(), text)
	return g, ok
}

func TestParse(t *testing.T) {
	tokens, err := access.Parse("# fleet\n\nci write,read " + first + " session=ci- session=nightly-\nops admin " + second + "\n")
	if err != nil || !tokens.Required() {
		t.Fatalf("Parse = %v", err)
	}
	ci, ok := admit(tokens, first)
	if !ok || ci.Name != "ci" || ci.Scopes != access.Read|access.Write || ci.Everything() || !ci.Session("ci-3") ||
		!ci.Session("nightly-") || ci.Session("prod") || ci.Session("ci") {
		t.Errorf("ci = %+v, %v", ci, ok)
	}
	ops, ok := admit(tokens, second)
	if !ok || ops.Scopes&(access.Read|access.Write|access.Admin) != access.Read|access.Write|access.Admin || !ops.Session("prod") {
		t.Errorf("ops = %+v, %v", ops, ok)
	}
	for _, wrong := range []string{"", "ci", first[:15], first + "0", strings.ToUpper(first)} {
		if g, ok := admit(tokens, wrong); ok || g.Scopes != access.None {
			t.Errorf("Grant(%q) = %+v", wrong, g)
		}
	}
}

// One word alone in its file gives everything, as it did before there were scopes.
func TestBareToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for content, good := range map[string]bool{"": false, "short": false, "0123456789 abcdef": false, " " + first + "\n": true} {
		must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		tokens, err := access.ReadFile(file)
		if (err == nil) != good {
			t.Errorf("ReadFile of %q = %v, want ok = %v", content, err, good)
		}
		if !good {
			if err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("error %q does not name the file", err)
			}
			continue
		}
		if g, ok := admit(tokens, first); !ok || g.Scopes&access.Admin == 0 || !g.Everything() {
			t.Errorf("Grant = %+v, %v, want everything", g, ok)
		}
	}
	if _, err := access.ReadFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is taken")
	}
}

// Every mistake is told at once, with its line, and no token is shown.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"# nothing\n":                                  "no token",
		"ci write\n":                                   "NAME SCOPES TOKEN",
		"ci wrote " + first:                            `"wrote" is no scope`,
		"ci read,,write " + first:                      `"" is no scope`,
		"ci read short-token":                          "at least 16",
		"ci read " + first + " ci-":                    "session=PREFIX",
		"ci read " + first + " session=":               "session=PREFIX",
		"a read " + first + "\na read " + second:       "line 2: the name a",
		"a read " + first + "\nb read " + first + "\n": "line 2: b has the token",
	} {
		_, err := access.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), first) ||
			strings.Contains(err.Error(), "short-token") {
			t.Errorf("Parse(%q) = %v, want %q and no token", text, err, want)
		}
	}
	_, err := access.Parse("a x " + first + "\nb y " + second)
	if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("Parse = %v, want both lines", err)
	}
}

func TestContext(t *testing.T) {
	if g := access.From(context.Background()); g.Scopes != access.None {
		t.Errorf("a request that nobody let in may %s", g.Scopes)
	}
	if g := access.From(access.With(t.Context(), access.All())); g.Scopes.String() != "admin" {
		t.Errorf("From = %+v", g)
	}
	if (*access.Tokens)(nil).Required() {
		t.Error("no tokens are required")
	}
}
