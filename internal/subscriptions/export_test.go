package subscriptions

import "strings"

// Matches reports whether a pattern matches the name of a stream.
func Matches(pattern, name string) bool {
	return matches(strings.Split(pattern, "/"), strings.Split(name, "/"))
}
