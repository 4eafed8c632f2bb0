package redact

import (
	"bytes"
	"cmp"
	"math"
	"regexp"
	"slices"
)

// span is a part of a text.
type span struct{ from, to int }

// A match is looked for around its keywords only: regular expressions are slow, and most text has no secrets.
const (
	nearBefore = 256     // bytes before a keyword
	maxReach   = 8 << 10 // bytes behind it, at most
	enough     = 4       // times a text may be looked at for a token; then it is searched from end to end, so that no text takes long
)

// find gives what is secret in text: in order, none overlapping another.
func (r *Rules) find(text []byte) (out []finding) {
	var near [][]span // by rule: where it may match, in order, none overlapping another
	var spent []int   // by rule: bytes that were looked at for a token
	r.keywords.each(text, func(n, from, to int) {
		rule := &r.rules[n]
		switch {
		case rule.detect != nil:
			for _, s := range rule.detect(text, from, to) {
				if !r.allowed(rule, text, []int{s.from, s.to}, text[s.from:s.to]) {
					out = append(out, finding{s.from, s.to, n})
				}
			}
		case rule.token:
			if !isSolid(text[from:], rule.solid) || !startsWord(text, from) {
				return
			}
			if spent == nil {
				spent = make([]int, len(r.rules))
			}
			if spent[n] += min(rule.reach, len(text)-from); spent[n] <= enough*(len(text)+maxReach) {
				out = r.match(out, n, text, span{from, min(len(text), from+rule.reach+1)})
			}
		default:
			if near == nil {
				near = make([][]span, len(r.rules))
			}
			near[n] = join(near[n], span{max(0, from-nearBefore), min(len(text), to+rule.reach+1)})
		}
	})
	for n, bytes := range spent {
		if bytes > enough*(len(text)+maxReach) {
			out = r.matchAll(out, n, text)
		}
	}
	for n, spans := range near {
		for _, s := range spans {
			out = r.match(out, n, text, s)
		}
	}
	for _, n := range r.always {
		out = r.match(out, n, text, span{0, len(text)})
	}
	if len(out) < 2 {
		return out
	}
	slices.SortFunc(out, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.rule,
			b.rule))
	})
	keep := out[:1]
	for _, f := range out[1:] {
		if last := &keep[len(keep)-1]; f.from < last.to {
			last.to = max(last.to, f.to)
		} else {
			keep = append(keep, f)
		}
	}
	return keep
}

// findDense is find without the zeros of a text, which words may have in them; they are in what it finds.
func (r *Rules) findDense(text []byte) []finding {
	if bytes.IndexByte(text, 0) < 0 {
		return r.find(text)
	}
	dense := make([]byte, 0, len(text))
	places := make([]int, 0, len(text)+1) // behind the byte before, of each
	end := 0
	for i, c := range text {
		if c != 0 {
			dense, places = append(dense, c), append(places, end)
			end = i + 1
		}
	}
	places = append(places, end)
	found := r.find(dense)
	for i := range found {
		found[i].from, found[i].to = places[found[i].from], places[found[i].to]
	}
	return found
}

// join adds a span to others. It begins behind where they begin, but for the different lengths of keywords.
func join(spans []span, s span) []span {
	for len(spans) > 0 && s.from <= spans[len(spans)-1].to {
		last := spans[len(spans)-1]
		s = span{min(s.from, last.from), max(s.to, last.to)}
		spans = spans[:len(spans)-1]
	}
	return append(spans, s)
}

// matchAll appends all tokens that a rule finds in the text.
func (r *Rules) matchAll(out []finding, n int, text []byte) []finding {
	rule := &r.rules[n]
	for _, m := range rule.loose().FindAllIndex(text, -1) {
		if startsWord(text, m[0]) {
			out = r.match(out, n, text, span{m[0], m[1]})
		}
	}
	return out
}

// match appends what a rule finds in a part of the text.
func (r *Rules) match(out []finding, n int, text []byte, at span) []finding {
	rule := &r.rules[n]
	part := text[at.from:at.to]
	most := -1
	if rule.token {
		most = 1
	}
	for _, m := range rule.regex.FindAllSubmatchIndex(part, most) {
		from, to := rule.secret(m)
		secret := part[from:to]
		switch {
		case from == to || rule.entropy > 0 && entropy(secret) <= rule.entropy:
		case rule.check != nil && !rule.check(secret):
		case rule.token && inBase64(text, at.from+from, at.from+to):
		case r.allowed(rule, part, m, secret):
		default:
			out = append(out, finding{at.from + from, at.from + to, n})
		}
	}
	return out
}

// mostApart is how much base64 may stand around a token of at most mostOfImage bytes: what images are made of looks like any short one
// somewhere.
const (
	mostApart   = 1 << 10
	mostOfImage = 128
)

// inBase64 reports whether text[from:to] is a small part of much base64, which has no words.
func inBase64(text []byte, from, to int) bool {
	if to-from > mostOfImage {
		return false
	}
	n := 0
	for n < mostApart && n < from && isBase64(text[from-1-n]) {
		n++
	}
	for n < mostApart && to < len(text) && isBase64(text[to]) {
		n, to = n+1, to+1
	}
	return n >= mostApart
}

func isBase64(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '+' || c == '/' || c == '-' || c == '_'
}

func (r *Rules) allowed(rule *rule, text []byte, m []int, secret []byte) bool {
	return allowed(rule.allow, text, m, secret) || allowed(r.allow, text, m, secret)
}

// isSolid reports whether a text begins with so many bytes that are no space and no control character.
func isSolid(text []byte, n int) bool {
	if len(text) < n {
		return false
	}
	for i := n - 1; i >= 0; i-- {
		if text[i] <= ' ' {
			return false
		}
	}
	return true
}

// startsWord reports whether a word may begin at a place: behind what belongs to no word, or behind an escape that ends
// in what does, of a string or of a URL.
func startsWord(text []byte, at int) bool {
	if at == 0 || !isWord(text[at-1]) || !isWord(text[at]) {
		return true
	}
	switch {
	case at >= 2 && text[at-2] == '\\':
		return text[at-1] == 'b' || text[at-1] == 'f'
	case at >= 3 && text[at-3] == '%':
		return isHex(text[at-2]) && isHex(text[at-1])
	case at >= 6 && text[at-6] == '\\' && text[at-5] == 'u':
		return isHex(text[at-4]) && isHex(text[at-3]) && isHex(text[at-2]) && isHex(text[at-1])
	}
	return false
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func isWord(c byte) bool { return isAlnum(c) || c == '_' }

func isAlnum(c byte) bool { return isDigit(c) || isLetter(c) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

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
