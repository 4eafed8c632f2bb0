package retention

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spool/internal/must"
)

const day = 24 * time.Hour

var now = time.UnixMilli(1795176000000)

func aged(id, cwd string, age time.Duration, bytes int64) Session {
	return Session{ID: id, Cwd: cwd, Harness: "omp", Modified: now.Add(-age).UnixMilli(), Bytes: bytes}
}

func ids(due []Due) string {
	var list []string
	for _, d := range due {
		list = append(list, d.Session)
	}
	return strings.Join(list, " ")
}

func TestPlan(t *testing.T) {
	all := []Session{
		aged("new", "/a", time.Hour, 10), aged("week", "/a", 7*day, 20), aged("month", "/a", 30*day, 30), aged("year", "/b", 365*day, 40),
		{ID: "busy", Cwd: "/b", Harness: "codex", Modified: now.Add(-365 * day).UnixMilli(), Bytes: 50, Active: true},
		{ID: "timeless", Cwd: "/c", Bytes: 60},
	}
	for name, c := range map[string]struct {
		policies []Policy
		want     string
	}{
		"none":                        {nil, ""},
		"age":                         {[]Policy{{Name: "p", MaxAge: 29 * day}}, "year month"},
		"age, strictly over":          {[]Policy{{Name: "p", MaxAge: 30 * day}}, "year"},
		"age, the last of each stays": {[]Policy{{Name: "p", MaxAge: day, KeepLast: 1}}, "year month week"},
		"last of each directory":      {[]Policy{{Name: "p", KeepLast: 2}}, "month"},
		"bytes, the oldest go":        {[]Policy{{Name: "p", Session: "*e*", MaxBytes: 30}}, "timeless year"},
		"bytes that are busy count":   {[]Policy{{Name: "p", Cwd: "/b", MaxBytes: 60}}, "year"},
		"the first match decides":     {[]Policy{{Name: "keep", Cwd: "/b"}, {Name: "p", MaxAge: day}}, "month week"},
		"pattern of the directory":    {[]Policy{{Name: "p", Cwd: "/*", MaxAge: day, Session: "m*"}}, "month"},
		"harness":                     {[]Policy{{Name: "p", Harness: "codex", MaxAge: day}}, ""},
	} {
		must.Same(t, ids(Plan(c.policies, all, now)), c.want, "%s: Plan = %q, want %q", name)
	}
}

func TestBrake(t *testing.T) {
	for _, c := range []struct {
		due, all int
		share    float64
		ok       bool
	}{{0, 0, 0, true}, {10, 10, 0, true}, {11, 11, 0, false}, {30, 100, 0, true}, {31, 100, 0, false}, {31, 100, 0.5, true},
		{100, 100, 1, true}} {
		if err := Brake(c.due, c.all, c.share); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBrake) {
			t.Errorf("Brake(%d, %d, %v) = %v", c.due, c.all, c.share, err)
		}
	}
	for off, ok := range map[time.Duration]bool{0: true, MaxSkew: true, -MaxSkew: true, MaxSkew + 1: false, -MaxSkew - 1: false} {
		if err := CheckClocks(now, now.Add(off)); (err == nil) != ok || err != nil && !errors.Is(err, ErrBrake) {
			t.Errorf("CheckClocks, %v apart: %v", off, err)
		}
	}
}

func TestValidate(t *testing.T) {
	must.Is(t, Validate([]Policy{{Name: "a"}, {Name: "b", MaxAge: 1, MaxBytes: 1, KeepLast: 1}}), nil, "Validate")
	err := Validate([]Policy{{}, {Name: "a", MaxAge: -1}, {Name: "a"}})
	for _, want := range []string{"policy 1", "policy 2", "policy 3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want it to name %s", err, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "any", true}, {"*", "", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true},
		{"a*c*e", "abcde", true}, {"a*c*e", "abcd", false}, {"*a*a*", "aa", true}, {"*aab", "aaab", true}, {"/home/*/x", "/home/m/y/x", true},
	} {
		must.Same(t, glob(c.pattern, c.text), c.want, "glob(%q, %q) = %v, want %v", c.pattern, c.text)
	}
}

// Whatever the policies: what is active stays, a session goes once, under the first policy that matches, what goes is not among
// the newest that are to be kept, and what is carried out leaves nothing due.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Session {
			return Session{
				Cwd: rapid.SampledFrom([]string{"/a", "/b", "/c"}).Draw(t, "cwd"), Modified: now.UnixMilli() - rapid.Int64Range(0, 1e10).Draw(t, "age"),
				Bytes: rapid.Int64Range(0, 1000).Draw(t, "bytes"), Active: rapid.Bool().Draw(t, "active"),
			}
		}), 0, 30).Draw(t, "sessions")
		for i := range all {
			all[i].ID = fmt.Sprint("s", i)
		}
		policies := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Policy {
			return Policy{
				Name: "p", Cwd: rapid.SampledFrom([]string{"", "/a", "/*"}).Draw(t, "pattern"),
				MaxAge:   time.Duration(rapid.Int64Range(0, 2e10).Draw(t, "max age")) * time.Millisecond,
				MaxBytes: rapid.Int64Range(0, 5000).Draw(t, "max bytes"), KeepLast: rapid.IntRange(0, 3).Draw(t, "keep last"),
			}
		}), 0, 3).Draw(t, "policies")
		due := map[string]bool{}
		for _, d := range Plan(policies, all, now) {
			if due[d.Session] {
				t.Fatalf("%s goes twice", d.Session)
			}
			due[d.Session] = true
		}
		var rest []Session
		for _, s := range all {
			if !due[s.ID] {
				rest = append(rest, s)
			} else if s.Active {
				t.Fatalf("%s is active, and goes", s.ID)
			}
		}
		if again := Plan(policies, rest, now); len(again) > 0 {
			t.Fatalf("%v is due when all that was due is gone", again)
		}
		for _, p := range policies[:min(len(policies), 1)] {
			newest := map[string]int{}
			for _, s := range all {
				newer := 0
				for _, o := range all {
					if o.Cwd == s.Cwd && o.Modified > s.Modified && p.matches(o) {
						newer++
					}
				}
				if newer < p.KeepLast && p.matches(s) {
					newest[s.Cwd]++
				}
			}
			for _, cwd := range []string{"/a", "/b", "/c"} {
				kept := 0
				for _, s := range rest {
					if s.Cwd == cwd && p.matches(s) {
						kept++
					}
				}
				if kept < min(newest[cwd], p.KeepLast) {
					t.Fatalf("%d sessions of %s are kept, want at least %d", kept, cwd, p.KeepLast)
				}
			}
		}
	})
}
