package memjs

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// pattern is a subject with or without wildcards. The zero value matches everything.
type pattern struct {
	text    string
	literal bool
	prefix  string // all before the first wildcard: tells most of what does not match
}

func newPattern(text string) pattern {
	p := pattern{text: text, literal: text != "" && !hasWildcard(text)}
	if p.literal || text == "" {
		p.prefix = text
		return p
	}
	end := 0
	for token := range strings.SplitSeq(text, ".") {
		if token == "*" || token == ">" {
			break
		}
		end += len(token) + 1
	}
	p.prefix = text[:end]
	return p
}

func hasWildcard(subject string) bool {
	tokens := strings.Split(subject, ".")
	return slices.Contains(tokens, "*") || slices.Contains(tokens, ">")
}

func (p pattern) all() bool { return p.text == "" || p.text == ">" }

func (p *pattern) matches(subject string) bool {
	switch {
	case p.literal:
		return p.text == subject
	case p.all():
		return true
	}
	if n := len(p.prefix); n > 1 && (len(subject) < n || subject[n-2] != p.prefix[n-2]) { // inboxes begin alike
		return false
	} else if !strings.HasPrefix(subject, p.prefix) {
		return false
	}
	return matchTokens(subject[len(p.prefix):], p.text[len(p.prefix):])
}

// matchTokens compares token by token. In the subject a wildcard stands for itself: "*" matches "*" and ">" does not
// match "*".
func matchTokens(subject, filter string) bool {
	for {
		ft, frest, fmore := strings.Cut(filter, ".")
		if ft == ">" {
			return subject != ""
		}
		st, srest, smore := strings.Cut(subject, ".")
		if st == ">" || st != ft && ft != "*" {
			return false
		}
		if !fmore || !smore {
			return fmore == smore
		}
		filter, subject = frest, srest
	}
}

func newPatterns(subjects []string) []pattern {
	var ps []pattern
	for _, s := range subjects {
		ps = append(ps, newPattern(s))
	}
	return ps
}

// matchesAny: no patterns match everything.
func matchesAny(ps []pattern, subject string) bool {
	return len(ps) == 0 || slices.ContainsFunc(ps, func(p pattern) bool { return p.matches(subject) })
}
