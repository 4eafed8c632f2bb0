package service

import (
	"flag"
	"fmt"
	"os"

	"spool/internal/persist"
	"spool/internal/redact"
)

// Secrets are the flags that say what is done with secrets in what agents write. The tags are kong's; the daemons use Flags.
type Secrets struct {
	Secrets     string `env:"SPOOL_SECRETS" default:"off" enum:"off,report,mask" help:"Secrets in entries and outputs: ${enum} (${default}). mask replaces them before anything is hashed."`
	SecretRules string `env:"SPOOL_SECRET_RULES" type:"existingfile" placeholder:"FILE" help:"Rules for them, as gitleaks has them (default: Spool's own)."`
}

// Flags registers the flags on a standard flag set; the environment gives the defaults.
func (s *Secrets) Flags(fs *flag.FlagSet) {
	mode := os.Getenv("SPOOL_SECRETS")
	if mode == "" {
		mode = "off"
	}
	fs.StringVar(&s.Secrets, "secrets", mode, "secrets in entries and outputs: off, report, mask (before anything is hashed) [SPOOL_SECRETS]")
	fs.StringVar(&s.SecretRules, "secret-rules", os.Getenv("SPOOL_SECRET_RULES"), "`file` of rules for them, as gitleaks has them [SPOOL_SECRET_RULES]")
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
			return nil, UsageError{fmt.Errorf("--secret-rules %s: %w", s.SecretRules, err)}
		}
	}
	switch s.Secrets {
	case "report", "mask":
		return redact.New(rules, s.Secrets == "mask"), nil
	case "off", "":
		return nil, nil
	}
	return nil, UsageError{fmt.Errorf("--secrets %q: use off, report or mask", s.Secrets)}
}
