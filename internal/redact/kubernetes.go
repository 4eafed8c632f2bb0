package redact

import (
	"bytes"
	"regexp"
)

// A Secret of Kubernetes has its values in base64 under names of any kind: what makes them secret is the kind of the
// object around.

// objectBytes is how far from its kind an object is looked at, to both sides.
const objectBytes = 16 << 10

var (
	secretData = regexp.MustCompile(`(?:^|[\s"'{,])(?:data|stringData)(?:\\*["'])?:`)
	dataInJSON = regexp.MustCompile(`^\s*\{`)
	pairInJSON = regexp.MustCompile(`\\*"[\w.-]+\\*"\s*:\s*\\*"([^"\\]+)`)
	lineOfYAML = regexp.MustCompile(`^([ \t]*)(?:["']?[\w./-]+["']?:(?:[ \t]+|$))?["']?([^"'\s]*)`)
	lineBreak  = regexp.MustCompile(`\r?\n`)
)

// findKubernetes is the detector "kubernetes". Its keywords are the ways to write the kind of a Secret.
func findKubernetes(text []byte, from, to int) (out []span) {
	if to < len(text) && isWord(text[to]) {
		return nil // SecretList
	}
	l, r := max(0, from-objectBytes), min(len(text), to+objectBytes)
	if n := bytes.LastIndex(text[l:from], []byte("\n---")); n >= 0 {
		l += n
	}
	if n := bytes.Index(text[to:r], []byte("\n---")); n >= 0 {
		r = to + n
	}
	if n := bytes.LastIndex(text[l:from], text[from:to]); n >= 0 { // another object is there
		l += n
	}
	if n := bytes.Index(text[to:r], text[from:to]); n >= 0 {
		r = to + n
	}
	for _, m := range secretData.FindAllIndex(text[l:r], -1) {
		at := l + m[1]
		if open := dataInJSON.FindIndex(text[at:r]); open != nil {
			out = append(out, valuesInJSON(text[:r], at+open[1])...)
		} else {
			out = append(out, valuesInYAML(text[:r], l+m[0], at)...)
		}
	}
	return out
}

// valuesInJSON are the values of an object of strings that opens before a place.
func valuesInJSON(text []byte, at int) (out []span) {
	end := bytes.IndexByte(text[at:], '}')
	if end < 0 {
		end = len(text) - at
	}
	for _, m := range pairInJSON.FindAllSubmatchIndex(text[at:at+end], -1) {
		out = appendValue(out, text, span{at + m[2], at + m[3]})
	}
	return out
}

// valuesInYAML are the values in the lines that are further in than the one of a key.
func valuesInYAML(text []byte, key, at int) (out []span) {
	for text[key] != 'd' && text[key] != 's' {
		key++
	}
	margin := 0
	for key-margin > 0 && text[key-margin-1] == ' ' {
		margin++
	}
	next := lineBreak.FindIndex(text[at:])
	if next == nil || len(bytes.TrimSpace(text[at:at+next[0]])) > 0 {
		return nil
	}
	for at += next[1]; at < len(text); {
		end, skip := len(text), 0
		if next := lineBreak.FindIndex(text[at:]); next != nil {
			end, skip = at+next[0], next[1]-next[0]
		}
		m := lineOfYAML.FindSubmatchIndex(text[at:end])
		if m[3]-m[2] <= margin && end > at {
			break
		}
		out = appendValue(out, text, span{at + m[4], at + m[5]})
		at = end + skip
	}
	return out
}

func appendValue(out []span, text []byte, s span) []span {
	if v := text[s.from:s.to]; len(v) < 4 || isReference(v) || bytes.HasSuffix(v, []byte(":")) {
		return out
	}
	return append(out, s)
}
