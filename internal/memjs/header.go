package memjs

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

const headerLine = "NATS/1.0\r\n"

// headerValue is the first value of a key in a message's header, without the spaces before it.
func headerValue(hdr []byte, key string) (value []byte, ok bool) {
	for rest := hdr; ; {
		i := bytes.Index(rest, []byte(key))
		if i < 0 {
			return nil, false
		}
		after := i + len(key)
		if i < 2 || rest[i-1] != '\n' || after >= len(rest) || rest[after] != ':' {
			rest = rest[after:]
			continue
		}
		value = rest[after+1:]
		if end := bytes.IndexByte(value, '\r'); end >= 0 {
			value = value[:end]
		}
		return bytes.TrimLeft(value, " "), true
	}
}

func header(hdr []byte, key string) string {
	v, _ := headerValue(hdr, key)
	return string(v)
}

// headerNumber: a number that is not one counts as not there.
func headerNumber(hdr []byte, key string) (n uint64, ok bool) {
	v, ok := headerValue(hdr, key)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	return n, err == nil
}

// addHeader returns a header with one line more.
func addHeader(hdr []byte, key, value string) []byte {
	out := make([]byte, 0, len(hdr)+len(headerLine)+len(key)+len(value)+6)
	if len(hdr) == 0 {
		out = append(out, headerLine...)
	} else {
		out = append(out, hdr[:len(hdr)-2]...)
	}
	return append(append(append(append(append(out, key...), ": "...), value...), crlf...), crlf...)
}

// dropHeaders returns a header without the lines whose key begins with one of the prefixes; nil when none is left.
func dropHeaders(hdr []byte, prefixes ...string) []byte {
	has := func(prefix string) bool { return bytes.Contains(hdr, []byte(prefix)) }
	if len(hdr) > len(headerLine)+2 && !slices.ContainsFunc(prefixes, has) {
		return hdr
	}
	lines := strings.SplitAfter(string(hdr), "\r\n")
	out := lines[:0]
	for i, line := range lines {
		drop := false
		for _, p := range prefixes {
			drop = drop || i > 0 && strings.HasPrefix(line, p)
		}
		if !drop {
			out = append(out, line)
		}
	}
	if left := strings.Join(out, ""); left != headerLine+"\r\n" {
		return []byte(left)
	}
	return nil
}
