package service

import (
	"fmt"
	"os"

	"spool/internal/persist"
	"spool/internal/redact"
)

// Secrets are the flags that say what is done with secrets in what agents write.
type Secrets struct {
	Secrets     string `env:"SPOOL_SECRETS" default:"off" enum:"off,report,mask" help:"Secrets in entries and outputs: ${enum} (${default}). mask replaces them before anything is hashed."`
	SecretRules string `env:"SPOOL_SECRET_RULES" type:"existingfile" placeholder:"FILE" help:"Rules for them, as gitleaks has them (default: Spool's own)."`
}

// Open reads the rules; nil when nobody looks for secrets.
func (s Secrets) Open() (persist.Secrets, error) {
	rules := redact.Default()
	if s.SecretRules != "" {
		text, err := os.ReadFile(s.SecretRules)
		if err == nil {
			rules, err = redact.Parse(text)
		}
		if err != nil {
			return nil, UsageError{Err: fmt.Errorf("--secret-rules %s: %w", s.SecretRules, err)}
		}
	}
	switch s.Secrets {
	case "report", "mask":
		return redact.New(rules, s.Secrets == "mask"), nil
	case "off", "":
		return nil, nil
	}
	return nil, UsageError{Err: fmt.Errorf("--secrets %q: use off, report or mask", s.Secrets)}
}
