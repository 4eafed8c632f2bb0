// Package runes cuts texts between characters.
package runes

import "unicode/utf8"

// Head is the beginning of a text, at most n bytes, cut before a character that does not fit (SPEC U2).
func Head[T ~string | ~[]byte](text T, n int) T {
	if n >= len(text) {
		return text
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Tail is the end of a text, at most n bytes, cut behind a character that does not fit (SPEC U2).
func Tail[T ~string | ~[]byte](text T, n int) T {
	start := len(text) - max(n, 0)
	if start <= 0 {
		return text
	}
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}

// Whole is the length of a text without the character that is cut at its end.
func Whole(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				return len(text)
			}
			return i
		}
	}
	return len(text)
}
