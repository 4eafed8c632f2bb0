package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// expand replaces every recipe in a decoded value by the string that it makes:
//
//	{"$rep":[s,n]}         s, n times
//	{"$cat":[…]}           the parts, one after the other
//	{"$u16":[…]}           UTF-16 code units; surrogates may stand alone
//	{"$img":n,"seed":k}    base64 of n bytes of a xorshift32 generator
func expand(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			x, err := expand(e)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		if s, ok, err := recipe(v); ok || err != nil {
			return s, err
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			x, err := expand(e)
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	}
	return v, nil
}

// recipe makes the string of an object that is a recipe; ok is false for any other object.
func recipe(m map[string]any) (s string, ok bool, err error) {
	if rep, ok := m["$rep"].([]any); ok && len(rep) == 2 {
		part, err := expand(rep[0])
		text, isText := part.(string)
		n, isCount := number(rep[1])
		if err != nil || !isText || !isCount || n < 0 {
			return "", false, fmt.Errorf("recipe %v: $rep takes [string, count]", m)
		}
		return strings.Repeat(text, n), true, nil
	}
	if cat, ok := m["$cat"].([]any); ok {
		var out []byte
		for _, part := range cat {
			x, err := expand(part)
			text, isText := x.(string)
			if err != nil || !isText {
				return "", false, fmt.Errorf("recipe %v: $cat takes strings", m)
			}
			out = append(out, text...)
		}
		return joinSurrogates(string(out)), true, nil
	}
	if units, ok := m["$u16"].([]any); ok {
		var out []byte
		for _, unit := range units {
			n, isUnit := number(unit)
			if !isUnit || n < 0 || n > 0xFFFF {
				return "", false, fmt.Errorf("recipe %v: $u16 takes code units", m)
			}
			out = appendUnit(out, rune(n))
		}
		return joinSurrogates(string(out)), true, nil
	}
	if n, ok := number(m["$img"]); ok {
		seed, _ := number(m["seed"])
		return base64.StdEncoding.EncodeToString(xorshift(n, uint32(seed))), true, nil
	}
	return "", false, nil
}

// number is the value of a decoded integer.
func number(v any) (int, bool) {
	text, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(string(text))
	return n, err == nil
}

// joinSurrogates makes one character of each high surrogate that has come to stand before a low one.
func joinSurrogates(s string) string {
	var out []byte
	for i := 0; i < len(s); {
		high, low := surrogateAt(s, i), surrogateAt(s, i+3)
		if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
			out = utf8.AppendRune(out, pair)
			i += 6
			continue
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}

// surrogateAt is the lone surrogate at byte i of a WTF-8 string, or 0.
func surrogateAt(s string, i int) rune {
	if i+3 > len(s) || s[i] != 0xED || s[i+1] < 0xA0 {
		return 0
	}
	return 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
}

// xorshift is the oracle's generator of bytes that look like an image.
func xorshift(n int, seed uint32) []byte {
	x := seed * 0x9E3779B1
	out := make([]byte, n)
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte(x)
	}
	return out
}
