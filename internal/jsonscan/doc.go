// Package jsonscan reads JSON without decoding it: values stay the raw text they arrived as.
//
// It stands under everything that looks into an entry. An entry is checked once with [Valid]; after that [Object],
// [Array] and [Get] walk the same bytes and hand out sub-slices, so key order, number spelling, escapes, lone surrogates
// and invalid UTF-8 survive whatever is copied through (SPEC T11). Nothing here allocates unless a string has to be
// unescaped.
//
// Two levels of trust: Valid accepts exactly the grammar of RFC 8259, nested at most [MaxDepth] deep. The walking
// functions assume that Valid passed and check only what they need to find their way; on other input they may accept
// what is not JSON, but they never panic and never read outside the slice.
package jsonscan
