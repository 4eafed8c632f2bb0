package access_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"spool/internal/access"
	"spool/internal/must"
	"spool/internal/natstest"
	"spool/internal/reload"
)

// settle is how long a change takes at most (docs/http.md).
const settle = 3 * reload.Every

// followed is a token file that is followed, and its log.
type followed struct {
	t    *testing.T
	file string
	*access.Tokens
	log natstest.Log
}

// follow starts in a synctest bubble.
func follow(t *testing.T, content string) *followed {
	t.Helper()
	f := &followed{t: t, file: filepath.Join(t.TempDir(), "tokens")}
	f.write(content)
	var err error
	if f.Tokens, err = access.ReadFile(f.file); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Follow(ctx, slog.New(slog.NewTextHandler(&f.log, nil))) }()
	t.Cleanup(func() { stop(); <-done })
	return f
}

func (f *followed) write(content string) {
	f.t.Helper()
	must.Do(f.t, os.WriteFile(f.file, []byte(content), 0o600))
}

// A changed file is in force within the time that is said: who lost its token, or a part of what it gave, is refused,
// and what it had open ends; nobody else notices.
func TestRotation(t *testing.T) {
	const third = "aaaaaaaabbbbbbbb"
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, "gone read "+first+"\nstays read "+second+"\nnarrowed read "+third+"\n")
		open := map[string]context.Context{}
		for _, text := range []string{first, second, third} {
			ctx, _, ok := f.Admit(t.Context(), text)
			if !ok {
				t.Fatalf("%s is refused", text)
			}
			open[text] = ctx
		}
		f.write("stays read " + second + "\nnarrowed read " + third + " session=ci-\nfresh read " + first + "0\n")
		time.Sleep(settle)
		for text, want := range map[string]bool{first: false, second: true, third: true, first + "0": true} {
			if _, ok := admit(f.Tokens, text); ok != want {
				t.Errorf("after the change %s is taken: %v, want %v", text, ok, want)
			}
		}
		for text, ended := range map[string]bool{first: true, second: false, third: true} {
			must.Same(t, errors.Is(context.Cause(open[text]), access.ErrRevoked), ended, "the request of %s ended: %v, want %v", text)
		}
		if strings.Contains(f.log.String(), first) || !strings.Contains(f.log.String(), f.file) {
			t.Errorf("log = %s, want the file and no token", f.log.String())
		}
	})
}

// A file that is no good changes nothing, is said once, and is taken once it is good.
func TestBadFileChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(t, first+"\n")
		for content, why := range map[string]string{
			"": "no newline", "\n": "no token", "# soon\n": "no token", "a read short\n": "at least 16",
			second: "no newline", "a read " + second: "no newline", "a all " + second + "\n": "no scope",
		} {
			f.write(first + "\n")
			time.Sleep(settle)
			f.log.Reset()
			f.write(content)
			time.Sleep(3 * settle)
			if _, ok := admit(f.Tokens, first); !ok {
				t.Errorf("%q locks out who was let in", content)
			}
			if _, ok := admit(f.Tokens, second); ok {
				t.Errorf("%q lets in", content)
			}
			if n := strings.Count(f.log.String(), why); n != 1 {
				t.Errorf("%q is logged %d times, want once with %s: %s", content, n, why, f.log.String())
			}
		}
		must.Do(t, os.Remove(f.file))
		time.Sleep(settle)
		if _, ok := admit(f.Tokens, first); !ok {
			t.Error("without its file the token is refused")
		}
		f.write(second + "\n")
		time.Sleep(settle)
		if _, ok := admit(f.Tokens, second); !ok {
			t.Error("a good file behind bad ones is not taken")
		}
	})
}

// A file that was cut anywhere, for good, lets nobody in whom neither the old nor the new one lets in so, and does not
// lock out all of them.
func TestCutFile(t *testing.T) {
	const before = "integration-agents-of-ci write " + first + " session=ci-\n"
	const after = "# of today\nintegration-agents-of-ci write,read " + second + " session=ci- session=nightly-\n" +
		"operators-of-the-fleet admin aaaaaaaabbbbbbbb\n"
	grants := map[string]access.Grant{}
	for _, text := range []string{before, after} {
		whole := must.Get(access.Parse(text))(t)
		for _, word := range strings.Fields(text) {
			if g, ok := admit(whole, word); ok {
				grants[word] = g
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for cut := range after {
			f := follow(t, before)
			f.write(after[:cut])
			time.Sleep(settle)
			in := 0
			for _, line := range []string{before, after, after[:cut]} {
				for _, word := range strings.Fields(line) {
					g, ok := admit(f.Tokens, word)
					if want := grants[word]; ok && (g.Scopes != want.Scopes || !slices.Equal(g.Sessions, want.Sessions)) {
						t.Errorf("cut at %d, %q gives %+v, want %+v", cut, word, g, want)
					}
					if ok {
						in++
					}
				}
			}
			if in == 0 {
				t.Errorf("cut at %d, the file locks everybody out", cut)
			}
		}
	})
	for _, cut := range []int{1, 9} { // at a start a cut file is refused, too
		file := filepath.Join(t.TempDir(), fmt.Sprint("tokens", cut))
		must.Do(t, os.WriteFile(file, []byte(before[:len(before)-cut]), 0o600))
		if _, err := access.ReadFile(file); err == nil || !strings.Contains(err.Error(), "no newline") {
			t.Errorf("ReadFile of a file without its last %d bytes = %v, want a refusal", cut, err)
		}
	}
}
