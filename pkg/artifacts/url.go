package artifacts

import (
	"strings"
	"unicode/utf8"

	"spool/internal/family"
)

// URL is the address of something a session keeps: artifact://<seq>, agent://<id>[/path][?q=query] or blob:sha256:<hex>.
type URL struct {
	Scheme string // lower case
	Host   string // decoded; of a blob everything after "blob:"
	Path   string // as written, without dot segments: "" or "/…"
	Query  string // as written, without "?"
}

// ErrURL is wrapped by everything that cannot be an address, whatever is stored.
var ErrURL = family.Invalid.New("bad address")

// Schemes of URL.
const (
	schemeArtifact = "artifact"
	schemeAgent    = "agent"
	schemeBlob     = "blob"
)

// parseURL splits an address. A fragment is dropped.
func parseURL(raw string) (URL, error) {
	text := strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
	text, _, _ = strings.Cut(text, "#")
	scheme, rest, ok := strings.Cut(text, ":")
	scheme = strings.ToLower(scheme)
	if scheme == schemeBlob && ok {
		return URL{Scheme: scheme, Host: rest}, nil
	}
	rest, authority := strings.CutPrefix(rest, "//")
	if !ok || !authority || scheme != schemeArtifact && scheme != schemeAgent {
		return URL{}, refuse(ErrURL, "Invalid URL: %s; use artifact://<number>, agent://<id>, blob:sha256:<hash> or "+
			"<session>/threads/<thread>/logs/thread.log", raw)
	}
	rest, query, _ := strings.Cut(rest, "?")
	host, path, hasPath := strings.Cut(rest, "/")
	u := URL{Scheme: scheme, Host: decodeComponent(host), Query: query}
	if hasPath {
		u.Path = "/" + withoutDots(path)
	}
	return u, nil
}

// withoutDots resolves the segments "." and ".." of a path, in any spelling.
func withoutDots(path string) string {
	var out []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case "..":
			out = out[:max(0, len(out)-1)]
		case ".":
		default:
			out = append(out, s)
			continue
		}
		if i == len(segments)-1 {
			out = append(out, "")
		}
	}
	return strings.Join(out, "/")
}

// segments are the parts of the path that are not empty, decoded.
func (u URL) segments() []string {
	var out []string
	for s := range strings.SplitSeq(u.Path, "/") {
		if s != "" {
			out = append(out, decodeComponent(s))
		}
	}
	return out
}

// param is the first value of a parameter of the query; "" if there is none.
func (u URL) param(name string) string {
	for pair := range strings.SplitSeq(u.Query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if decodeForm(key) == name {
			return decodeForm(value)
		}
	}
	return ""
}

// decodeComponent decodes percent escapes; a text with a bad one, or that is no UTF-8 then, stays as it is.
func decodeComponent(s string) string {
	out, ok := unescape(s)
	if !ok || !utf8.ValidString(out) {
		return s
	}
	return out
}

// decodeForm decodes a part of a query: "+" is a space, and bad escapes stay.
func decodeForm(s string) string {
	out, _ := unescape(strings.ReplaceAll(s, "+", " "))
	return strings.ToValidUTF8(out, "\uFFFD")
}

// unescape replaces each %XX by its byte and tells whether every percent sign began one.
func unescape(s string) (string, bool) {
	ok := true
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			out = append(out, hexValue(s[i+1])<<4|hexValue(s[i+2]))
			i += 2
			continue
		}
		ok = false
		out = append(out, '%')
	}
	return string(out), ok
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
