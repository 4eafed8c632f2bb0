package redact

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// plain is what a rule finds whose name says it.
var plain = regexp.MustCompile(`^an? (?:key|token) of (.*)$`)

// Table is what the rules find, in Markdown: those whose names say it in a sentence, the others as a table.
func (r *Rules) Table() string {
	var b strings.Builder
	line := "By its form, a key or token of"
	for _, rule := range r.rules {
		if of := plain.FindStringSubmatch(rule.description); of != nil && rule.detect == nil && rule.token && rule.check == nil {
			part := of[1] + " `" + rule.id + "`,"
			if len(line)+1+len(part) > 140 {
				b.WriteString(line + "\n")
				line = part
				continue
			}
			line += " " + part
		}
	}
	b.WriteString(strings.TrimSuffix(line, ",") + ". And:\n\n| rule | what it finds | how |\n|---|---|---|\n")
	for _, rule := range r.rules {
		how := "its form"
		switch {
		case rule.detect != nil:
			how = "what stands around it"
		case !rule.token:
			how = "its form, and what stands beside it"
		}
		if rule.check != nil {
			how += "; judged"
		}
		if how != "its form" || !plain.MatchString(rule.description) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", rule.id, rule.description, how)
		}
	}
	return b.String()
}

// IDs are the names of the rules.
func (r *Rules) IDs() (ids []string) {
	for _, rule := range r.rules {
		ids = append(ids, rule.id)
	}
	return ids
}

// Keywords are those of all rules.
func Keywords() (words []string) {
	var f rulesFile
	if err := toml.Unmarshal(defaults, &f); err != nil {
		panic(err)
	}
	for _, rule := range f.Rules {
		words = append(words, rule.Keywords...)
	}
	return words
}
