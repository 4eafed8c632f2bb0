package text

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Sprintf is fmt.Sprintf that counts: where a format says "%d entries" or "%d dead letters", one is "1 entry" or "1 dead letter". What
// stands behind "of" stays, as "1 of 1 files". A format has no explicit indexes, and no width given by "*".
func Sprintf(format string, args ...any) string { return fmt.Sprintf(counted(format, args), args...) }

// Fprintf is fmt.Fprintf that counts as Sprintf does.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, counted(format, args), args...)
}

// Errorf is fmt.Errorf that counts as Sprintf does.
func Errorf(format string, args ...any) error { return fmt.Errorf(counted(format, args), args...) }

// counts finds the verbs of a format, and in front of one for a whole number "of", behind it a noun in the plural, which may have an
// adjective.
var counts = regexp.MustCompile(`%%|(of )?%d ((?:[a-z]+ )??[a-z]{2,}[a-rt-z]s)\b|%[-+# 0-9.]*[a-zA-Z]`)

// counted is a format whose nouns are as its numbers want them.
func counted(format string, args []any) string {
	at := -1
	return counts.ReplaceAllStringFunc(format, func(part string) string {
		if part == "%%" {
			return part
		}
		at++
		found := counts.FindStringSubmatch(part)
		if found[2] == "" || found[1] != "" || at >= len(args) || fmt.Sprint(args[at]) != "1" {
			return part
		}
		return "%d " + singular(found[2])
	})
}

// singular is a noun in the plural made one.
func singular(s string) string {
	if stem, ok := strings.CutSuffix(s, "ies"); ok {
		return stem + "y"
	}
	for _, end := range []string{"ch", "sh", "x"} {
		if stem, ok := strings.CutSuffix(s, end+"es"); ok {
			return stem + end
		}
	}
	return strings.TrimSuffix(s, "s")
}
