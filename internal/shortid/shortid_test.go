package shortid_test

import (
	"fmt"
	"strings"
	"testing"

	"spool/internal/must"
	"spool/internal/shortid"
)

var ids = []string{
	"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2-1790-7f03-b6c1-2e94d0a7f358", "7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3",
	"art_20261128_103302_M4M2KZ2JXDVHJESG", "01kc5z3x9qj8r7w6v5t4s3r2q1", "build-42", "build-4", "019AA0D2-1790-7F03-B6C1-2E94D0A7F359",
}

// A beginning that is shown leads to its id, and one that is a character shorter does not, or is too short.
func TestShorten(t *testing.T) {
	short := shortid.Shorten(ids)
	must.Same(t, len(short), 6, "%d ids are shortened, want %d: those that a program made up")
	must.Same(t, short[ids[0]], "019aa0d2-178", "short is %q, want %q")
	must.Same(t, short[ids[2]], "7b3e1c52", "short is %q, want %q")
	for id, s := range short {
		for _, name := range []string{s, strings.ToUpper(s)} {
			got, err := shortid.Find("ids", ids, name)
			if got != id || err != nil {
				t.Errorf("Find(%q) = %q, %v, want %q", name, got, err, id)
			}
		}
		if _, err := shortid.Find("ids", ids, s[:len(s)-1]); len(s) > shortid.Least && err == nil {
			t.Errorf("%q is longer than it must be", s)
		}
	}
}

// A whole id is itself whatever begins with it; a message names ten candidates.
func TestFind(t *testing.T) {
	got, err := shortid.Find("ids", ids, "build-4")
	must.Do(t, err)
	must.Same(t, got, "build-4", "Find = %q, want %q")
	must.Is(t, must.Err(shortid.Find("ids", ids, "x")), shortid.ErrNone, "Find of what none begins with")
	var many []string
	for i := range 13 {
		many = append(many, fmt.Sprintf("n%02d", i))
	}
	_, err = shortid.Find("runs", many, "n")
	if err == nil || strings.Count(err.Error(), "\n  n") != 10 || !strings.Contains(err.Error(), `13 runs begin with "n"`) ||
		!strings.HasSuffix(err.Error(), "\n  and 3 more") {
		t.Errorf("Find of what many begin with = %v", err)
	}
}

// Of what is seen one after the other each id is as long as it must be among those before it; what a person named is whole.
func TestSeen(t *testing.T) {
	var seen shortid.Seen
	for _, x := range [][2]string{
		{"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2"}, {"019aa0d2-1790-7f03-b6c1-2e94d0a7f358", "019aa0d2-179"},
		{"019aa0d2-1780-7f03-b6c1-2e94d0a7f358", "019aa0d2-178"}, {"build-42-of-the-orchard", "build-42-of-the-orchard"},
		{"7b3e1c52-9d4a-4f61-8a20-5c1de0f4a9b3", "7b3e1c52"},
	} {
		must.Same(t, seen.Short(x[0]), x[1], "Short = %q, want %q")
	}
}
