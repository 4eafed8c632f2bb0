package redact

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Table is what the rules find, as a table of Markdown.
func (r *Rules) Table() string {
	var b strings.Builder
	b.WriteString("| rule | what it finds | how |\n|---|---|---|\n")
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
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", rule.id, rule.description, how)
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
