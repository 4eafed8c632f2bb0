package redact

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Rules say what a secret is. They are read from a file of the form that gitleaks has: [[rules]] with id, regex, secretGroup,
// entropy, keywords and allowlists; and allowlists for all. What is about files and commits (path, paths, commits) means nothing
// here: a rule with nothing else is left out.
type Rules struct {
	rules []rule
	allow []allowlist
}

type rule struct {
	id       string
	regex    *regexp.Regexp
	group    int
	entropy  float64
	keywords [][]byte // lower case: without any of them there is no match
	allow    []allowlist
}

type allowlist struct {
	regexes []*regexp.Regexp
	words   [][]byte // lower case
	target  string   // of the regexes: "" the secret, "match", "line"
	all     bool     // both kinds must allow, not one
	never   bool     // it wants a path or a commit as well, which nothing here has
}

// ErrRules is wrapped by every error about a file of rules.
var ErrRules = errors.New("secret rules")

//go:embed rules.toml
var defaults []byte

// Default is the rules that come with Spool (rules.toml): formats of tokens and keys that say what they are.
func Default() *Rules {
	r, err := Parse(defaults)
	if err != nil {
		panic(err) // it is part of the program
	}
	return r
}

type allowFile struct {
	Regexes     []string
	StopWords   []string
	Paths       []string
	Commits     []string
	RegexTarget string
	Condition   string
	TargetRules []string
}

type rulesFile struct {
	Extend     map[string]any
	Allowlist  *allowFile
	Allowlists []allowFile
	Rules      []struct {
		ID          string
		Regex       string
		SecretGroup int
		Entropy     float64
		Keywords    []string
		Allowlist   *allowFile
		Allowlists  []allowFile
	}
}

// Parse reads rules. The error names every rule that is wrong.
func Parse(text []byte) (*Rules, error) {
	var f rulesFile
	if err := toml.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRules, err)
	}
	var errs []error
	if f.Extend != nil {
		errs = append(errs, fmt.Errorf("%w: [extend] is not followed: put the rules into this file", ErrRules))
	}
	out := &Rules{}
	for _, from := range f.Rules {
		if from.Regex == "" {
			continue // about paths
		}
		r := rule{id: from.ID, group: from.SecretGroup, entropy: from.Entropy}
		var err error
		if r.regex, err = regexp.Compile(from.Regex); err != nil {
			errs = append(errs, fmt.Errorf("%w: rule %q: %w", ErrRules, r.id, err))
			continue
		}
		if !ruleID.MatchString(r.id) {
			errs = append(errs, fmt.Errorf("%w: rule %q: an id has 1 to 64 of A-Z a-z 0-9 _ . -", ErrRules, r.id))
		}
		if r.group < 0 || r.group > r.regex.NumSubexp() {
			errs = append(errs, fmt.Errorf("%w: rule %q: secretGroup %d, its regex has %d groups", ErrRules, r.id, r.group, r.regex.NumSubexp()))
		}
		for _, k := range from.Keywords {
			r.keywords = append(r.keywords, bytes.ToLower([]byte(k)))
		}
		r.allow, err = allowlists(from.Allowlist, from.Allowlists)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: rule %q: %w", ErrRules, r.id, err))
		}
		out.rules = append(out.rules, r)
	}
	var err error
	if out.allow, err = allowlists(f.Allowlist, f.Allowlists); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrRules, err))
	}
	if len(out.rules) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%w: there is no [[rules]] with a regex", ErrRules))
	}
	return out, errors.Join(errs...)
}

var ruleID = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func allowlists(one *allowFile, more []allowFile) (out []allowlist, err error) {
	if one != nil {
		more = append(more, *one)
	}
	for _, f := range more {
		if len(f.TargetRules) > 0 {
			return nil, errors.New("allowlist with targetRules: put it into those rules")
		}
		a := allowlist{all: strings.EqualFold(f.Condition, "AND"), target: f.RegexTarget}
		a.never = a.all && len(f.Paths)+len(f.Commits) > 0
		for _, text := range f.Regexes {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("allowlist: %w", err)
			}
			a.regexes = append(a.regexes, re)
		}
		for _, w := range f.StopWords {
			a.words = append(a.words, bytes.ToLower([]byte(w)))
		}
		out = append(out, a)
	}
	return out, nil
}

// find gives what is secret in text: in order, none overlapping another.
func (r *Rules) find(text []byte) (out []finding) {
	lower := asciiLower(text)
	for i := range r.rules {
		rule := &r.rules[i]
		for _, near := range rule.places(lower) {
			text := text[near.from:near.to]
			for _, m := range rule.regex.FindAllSubmatchIndex(text, -1) {
				from, to := rule.secret(m)
				secret := text[from:to]
				if from == to || rule.entropy > 0 && entropy(secret) <= rule.entropy {
					continue
				}
				if allowed(rule.allow, text, m, secret) || allowed(r.allow, text, m, secret) {
					continue
				}
				out = append(out, finding{near.from + from, near.from + to, rule.id})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b finding) int { return cmp.Compare(a.from, b.from) })
	keep := out[:0]
	for _, f := range out {
		if n := len(keep); n > 0 && f.from < keep[n-1].to {
			keep[n-1].to = max(keep[n-1].to, f.to)
			continue
		}
		keep = append(keep, f)
	}
	return keep
}

// A match is looked for around its keywords only: regular expressions are slow, and most text has no secrets.
const (
	nearBefore = tailBytes
	nearBehind = 8 << 10
)

// span is a part of a text.
type span struct{ from, to int }

// places are the parts of a text where the rule may match, in order, none overlapping another.
func (r *rule) places(lower []byte) []span {
	if len(r.keywords) == 0 {
		return []span{{0, len(lower)}}
	}
	var out []span
	for _, k := range r.keywords {
		for i := 0; ; {
			n := bytes.Index(lower[i:], k)
			if n < 0 {
				break
			}
			i += n
			near := span{max(0, i-nearBefore), min(len(lower), i+nearBehind)}
			if n := len(out); n > 0 && out[n-1].from <= near.from && near.from <= out[n-1].to {
				out[n-1].to = near.to
			} else {
				out = append(out, near)
			}
			i += len(k)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	keep := out[:0]
	for _, s := range out {
		if n := len(keep); n > 0 && s.from <= keep[n-1].to {
			keep[n-1].to = max(keep[n-1].to, s.to)
			continue
		}
		keep = append(keep, s)
	}
	return keep
}

func asciiLower(text []byte) []byte {
	lower := bytes.Clone(text)
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}

// secret is what of a match is the secret: the group that the rule names, else the first that matched, else all.
func (r *rule) secret(m []int) (from, to int) {
	if r.group > 0 {
		return max(m[2*r.group], 0), max(m[2*r.group+1], 0)
	}
	for g := 2; g+1 < len(m); g += 2 {
		if m[g] >= 0 && m[g+1] > m[g] {
			return m[g], m[g+1]
		}
	}
	return m[0], m[1]
}

func allowed(lists []allowlist, text []byte, m []int, secret []byte) bool {
	for _, a := range lists {
		target := secret
		switch a.target {
		case "match":
			target = text[m[0]:m[1]]
		case "line":
			from := bytes.LastIndexByte(text[:m[0]], '\n') + 1
			to := len(text)
			if n := bytes.IndexByte(text[m[1]:], '\n'); n >= 0 {
				to = m[1] + n
			}
			target = text[from:to]
		}
		byRegex := slices.ContainsFunc(a.regexes, func(re *regexp.Regexp) bool { return re.Match(target) })
		lower := bytes.ToLower(secret)
		byWord := slices.ContainsFunc(a.words, func(w []byte) bool { return bytes.Contains(lower, w) })
		switch {
		case a.never:
		case a.all && len(a.regexes)+len(a.words) > 0 && (byRegex || len(a.regexes) == 0) && (byWord || len(a.words) == 0):
			return true
		case !a.all && (byRegex || byWord):
			return true
		}
	}
	return false
}

// entropy is Shannon's, in bits a byte.
func entropy(b []byte) (bits float64) {
	var n [256]int
	for _, c := range b {
		n[c]++
	}
	for _, k := range n {
		if k > 0 {
			p := float64(k) / float64(len(b))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
