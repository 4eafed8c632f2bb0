package redact

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// Rules say what a secret is. They are read from a file of the form that gitleaks has: [[rules]] with id, description,
// regex, secretGroup, entropy, keywords and allowlists; and allowlists for all. What is about files and commits (path,
// paths, commits) means nothing here: a rule with nothing else is left out. Spool adds three members, which gitleaks
// passes over:
//
//	token = true     a match begins with a keyword, at the begin of a word
//	reach = N        a match ends at most so many bytes behind a keyword; 8 KiB unless it is said
//	check = "NAME"   what the regex found is a secret if this function of judge.go says so
//	detector = "NAME" a function of this package finds the secrets around the keywords, and there is no regex
type Rules struct {
	rules    []rule
	allow    []allowlist
	keywords *keywords
	always   []int // rules without keywords
}

type rule struct {
	id, description string
	regex           *regexp.Regexp
	group           int
	entropy         float64
	allow           []allowlist
	token           bool                  // regex is anchored
	reach           int                   // bytes from a keyword (its begin, of a token) to the end of a match, at most
	solid           int                   // of a token: so many bytes from its begin are no space
	loose           func() *regexp.Regexp // of a token: regex, not anchored
	check           func(value []byte) bool
	detect          detector
}

// detector finds secrets around a keyword, which stands at text[from:to].
type detector func(text []byte, from, to int) []span

var detectors = map[string]detector{"assignment": findAssigned, "kubernetes": findKubernetes}

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

// Default is the rules that come with Spool (rules.toml): formats of tokens and keys that say what they are, and values
// beside a name that says so.
func Default() *Rules { return parseDefaults() }

var parseDefaults = sync.OnceValue(func() *Rules {
	r, err := Parse(defaults)
	if err != nil {
		panic(err) // it is part of the program
	}
	return r
})

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
	Rules      []ruleFile
}

type ruleFile struct {
	ID          string
	Description string
	Regex       string
	SecretGroup int
	Entropy     float64
	Keywords    []string
	Allowlist   *allowFile
	Allowlists  []allowFile

	Token    bool
	Reach    int
	Check    string
	Detector string
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
	words := map[string][]int{}
	for _, from := range f.Rules {
		if from.Regex == "" && from.Detector == "" {
			continue // about paths
		}
		r, err := newRule(from)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, k := range from.Keywords {
			if k = string(asciiLower([]byte(k))); k != "" && !slices.Contains(words[k], len(out.rules)) {
				words[k] = append(words[k], len(out.rules))
			}
		}
		if len(from.Keywords) == 0 {
			out.always = append(out.always, len(out.rules))
		}
		out.rules = append(out.rules, r)
	}
	out.keywords = newKeywords(words)
	var err error
	if out.allow, err = allowlists(f.Allowlist, f.Allowlists); err != nil {
		errs = append(errs, fmt.Errorf("%w: %w", ErrRules, err))
	}
	if len(out.rules) == 0 && len(errs) == 0 {
		errs = append(errs, fmt.Errorf("%w: there is no [[rules]] with a regex", ErrRules))
	}
	return out, errors.Join(errs...)
}

// newRule reads a rule. The error names all that is wrong with it.
func newRule(from ruleFile) (rule, error) {
	r := rule{id: from.ID, description: from.Description, group: from.SecretGroup, entropy: from.Entropy,
		token: from.Token}
	var errs []error
	wrong := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: rule %q: "+format, append([]any{ErrRules, r.id}, a...)...))
	}
	if !ruleID.MatchString(r.id) {
		wrong("an id has 1 to 64 of A-Z a-z 0-9 _ . -")
	}
	text := from.Regex
	if r.token {
		text = "^(?:" + text + ")"
	}
	re, err := regexp.Compile(text)
	if err != nil {
		wrong("%w", err)
		return r, errors.Join(errs...)
	}
	switch r.regex, r.reach = re, maxReach; {
	case r.token:
		r.loose = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(from.Regex) })
		r.reach, r.solid = longest(text), shortest(text)
		if from.Reach > 0 {
			r.reach = min(r.reach, from.Reach)
		}
	case from.Reach > 0:
		r.reach = min(from.Reach, maxReach)
	}
	if r.group < 0 || r.group > re.NumSubexp() {
		wrong("secretGroup %d, its regex has %d groups", r.group, re.NumSubexp())
	}
	if r.check = checks[from.Check]; r.check == nil && from.Check != "" {
		wrong("there is no check %q", from.Check)
	}
	if r.detect = detectors[from.Detector]; r.detect == nil && from.Detector != "" {
		wrong("there is no detector %q", from.Detector)
	}
	if (r.token || r.detect != nil) && len(from.Keywords) == 0 {
		wrong("token and detector want keywords")
	}
	if r.allow, err = allowlists(from.Allowlist, from.Allowlists); err != nil {
		wrong("%w", err)
	}
	return r, errors.Join(errs...)
}

// shortest is how many bytes a match has at least; 0 if there may be spaces among them.
func shortest(regex string) int {
	re, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return 0
	}
	n, spaces := shortestOf(re.Simplify())
	if spaces {
		return 0
	}
	return n
}

func shortestOf(re *syntax.Regexp) (n int, spaces bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), slices.Contains(re.Rune, ' ')
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			spaces = spaces || re.Rune[i] <= ' ' && ' ' <= re.Rune[i+1]
		}
		return 1, spaces
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, true
	case syntax.OpAlternate:
		n = maxReach
		for _, sub := range re.Sub {
			some, space := shortestOf(sub)
			n, spaces = min(n, some), spaces || space
		}
		return n, spaces
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary:
		return 0, false
	}
	for _, sub := range re.Sub {
		some, space := shortestOf(sub)
		n, spaces = n+some, spaces || space
	}
	if re.Op == syntax.OpStar || re.Op == syntax.OpQuest {
		n = 0
	}
	return n, spaces
}

// longest is how many bytes a match has at most, as far as places reach (maxReach).
func longest(regex string) int {
	re, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return maxReach
	}
	return min(longestOf(re.Simplify()), maxReach)
}

func longestOf(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral:
		return utf8.UTFMax * len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		if r := re.Rune; re.Op == syntax.OpCharClass && len(r) > 0 && r[len(r)-1] < utf8.RuneSelf {
			return 1
		}
		return utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		return maxReach
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, longestOf(sub))
		}
	default:
		for _, sub := range re.Sub {
			n = min(n+longestOf(sub), maxReach)
		}
	}
	return n
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
