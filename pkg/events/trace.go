package events

import "strings"

// HeaderTrace is the header of an item's message with the trace context of the event that it comes from (W3C Trace Context).
const HeaderTrace = "traceparent"

// HeaderLife is the header of an item's message with the life of its thread (SPEC P12), a decimal number; without one it is 0.
const HeaderLife = "Spool-Life"

// TraceParent is the trace context if it is one as W3C Trace Context, version 00, writes it, and "" if not: what a publisher
// says about its traces never costs an entry.
func TraceParent(s string) string {
	const form = "00-________________________________-________________-__"
	if len(s) != len(form) {
		return ""
	}
	for i := range len(form) {
		if form[i] == '_' {
			if !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
				return ""
			}
		} else if s[i] != form[i] {
			return ""
		}
	}
	if strings.Trim(s[3:35], "0") == "" || strings.Trim(s[36:52], "0") == "" {
		return ""
	}
	return s
}
