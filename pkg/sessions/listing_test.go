package sessions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spool/internal/must"
)

func row(id, cwd string, modified int64) Row {
	return Row{Info: Info{ID: id, Cwd: cwd, Answered: true}, Modified: modified}
}

func rowIDs(rows []Row) (out []string) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func TestList(t *testing.T) {
	waiting := row("w", "/srv/a", 9)
	waiting.Answered = false
	rows := []Row{row("a", "/srv/a", 1), row("b", "/srv/a", 5), row("c", "/srv/b", 7), row("d", "", 3), row("e", "/srv/a/", 5), waiting}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{}, "c e b d a"},
		{Query{Cwd: "/srv/a"}, "e b a"},
		{Query{Cwd: "/srv/a", Unanswered: true}, "w e b a"},
		{Query{Cwd: "/srv", Unanswered: true}, ""},
		{Query{Limit: 2}, "c e"},
		{Query{Limit: 99}, "c e b d a"},
	} {
		must.Same(t, strings.Join(rowIDs(List(slices.Clone(rows), tt.q)), " "), tt.want, "List(%+v) = %s, want %s", tt.q)
	}
}

func TestResume(t *testing.T) {
	rows := []Row{row("019AA0", "/srv/a", 1), row("019ab0", "/srv/b", 2), row("019ab", "/srv/b", 3), row("7b3e", "/srv/c", 4)}
	for _, tt := range []struct{ cwd, prefix, want string }{
		{"", "7B", "7b3e"},
		{"", "019aa", "019AA0"},
		{"", "019ab", "019ab"},       // an id that is also the beginning of another
		{"/srv/a", "019a", "019AA0"}, // unique here
		{"/srv/a", "7b", "7b3e"},     // not here, and unique
		{"/srv/a", "019ab0", "019ab0"},
	} {
		must.Same(t, must.Get(Resume(rows, tt.cwd, tt.prefix))(t).ID, tt.want, "Resume(%q, %q) = %s, want %s", tt.cwd, tt.prefix)
	}
	if _, err := Resume(rows, "", "8"); !errors.Is(err, ErrNoSession) || !strings.Contains(err.Error(), `"8"`) {
		t.Errorf("Resume(8) = %v, want ErrNoSession with the prefix", err)
	}
	for _, cwd := range []string{"", "/srv/b", "/srv/c"} {
		_, err := Resume(rows, cwd, "019A")
		var several *AmbiguousError
		if !errors.As(err, &several) || strings.Join(rowIDs(several.Candidates), " ") != "019ab 019ab0 019AA0" {
			t.Errorf("Resume(%q, 019A) = %v, want three candidates, newest first", cwd, err)
		}
		for _, r := range rows[:3] {
			if !strings.Contains(err.Error(), r.ID) {
				t.Errorf("%v does not name %s", err, r.ID)
			}
		}
	}
}

func TestAmbiguousErrorIsBounded(t *testing.T) {
	var rows []Row
	for i := range 1000 {
		rows = append(rows, row(fmt.Sprintf("s%d", i), "", int64(i)))
	}
	_, err := Resume(rows, "", "s")
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "and 990 more") {
		t.Errorf("Resume of 1000 candidates: %v", err)
	}
}

// Whatever the sessions: a prefix that belongs to one alone finds it, and no other prefix finds anything.
func TestResumeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching(`[abAB]{1,4}`), func(s string) string { return s }).Draw(t, "ids")
		prefix := rapid.StringMatching(`[abAB]{1,4}`).Draw(t, "prefix")
		var rows []Row
		var match []string
		for _, id := range names {
			rows = append(rows, row(id, "", 0))
			if strings.HasPrefix(strings.ToLower(id), strings.ToLower(prefix)) {
				match = append(match, id)
			}
		}
		got, err := Resume(rows, "", prefix)
		switch {
		case slices.Contains(names, prefix):
			if got.ID != prefix {
				t.Fatalf("Resume = %s, %v, want the id itself", got.ID, err)
			}
		case len(match) == 1:
			if got.ID != match[0] {
				t.Fatalf("Resume = %s, %v, want %s", got.ID, err, match[0])
			}
		case err == nil:
			t.Fatalf("Resume = %s, want an error: %v match", got.ID, match)
		}
	})
}

func TestRowName(t *testing.T) {
	for _, tt := range []struct {
		info Info
		want string
	}{
		{Info{Title: "Title", Summary: "Summary", Prompt: "Prompt"}, "Title"},
		{Info{Title: " \x1b ", Summary: "Summary"}, "Summary"},
		{Info{Prompt: "first \x1b[31mline\r\nsecond"}, "first [31mline"},
		{Info{Prompt: "\nsecond"}, "Untitled"},
		{Info{}, "Untitled"},
	} {
		must.Same(t, (Row{Info: tt.info}).Name(), tt.want, "Name of %+v = %q, want %q", tt.info)
	}
}

func TestDirName(t *testing.T) {
	for cwd, want := range map[string]string{
		"/": "----", "/w/pi": "--w-pi--", "/w/pi/": "--w-pi--", `/a:b/c\d`: "--a-b-c-d--", "/home/mira": "-", "/home/mira/x/y-z": "-x-y-z",
		"/home/mirabel": "--home-mirabel--", "/tmp": "-tmp", "/tmp/x": "-tmp-x", "/tmpfiles": "--tmpfiles--",
	} {
		must.Same(t, DirName(cwd, "/home/mira", "/tmp/"), want, "DirName(%s) = %s, want %s", cwd)
	}
}

func TestInfoRoundTrip(t *testing.T) {
	want := Info{Version: InfoVersion, ID: "s", Title: "t", Summary: "u", Prompt: "p\n\"", Created: 5, Answered: true}
	got, err := DecodeInfo(want.Encode())
	if err != nil || got != want {
		t.Errorf("DecodeInfo(Encode()) = %+v, %v, want %+v", got, err, want)
	}
	if _, err := DecodeInfo([]byte(`{"v":9}`)); err == nil {
		t.Error("DecodeInfo of version 9 gave no error")
	}
}
