package service

import (
	"fmt"

	"spool/pkg/artifacts"
	"spool/pkg/truncate"
)

// Artifacts are the flags that say which results become artifacts by themselves (SPEC A4), and what is cut beside them.
type Artifacts struct {
	ArtifactBytes  int `env:"SPOOL_ARTIFACT_BYTES" placeholder:"BYTES" help:"A tool's result of more bytes becomes an artifact (default 65536)."`
	ArtifactTokens int `env:"SPOOL_ARTIFACT_TOKENS" placeholder:"TOKENS" help:"So does one of more tokens, estimated as a quarter of its characters (default 16000)."`

	Signed string `env:"SPOOL_SIGNED" placeholder:"HOW" help:"cleared: a model's signature of more than 500,000 characters is emptied; verbatim: signed blocks stay as they are (default cleared)."`
}

// Cuts is what the flags say of the rules that cut entries (SPEC T2).
func (a Artifacts) Cuts() (o truncate.Options, err error) {
	switch o.Signed = truncate.Signed(a.Signed); o.Signed {
	case "", truncate.SignedCleared, truncate.SignedVerbatim:
		return o, nil
	}
	return o, UsageError{Err: fmt.Errorf("signed %q: use cleared or verbatim", a.Signed)}
}

// Thresholds is what the flags say.
func (a Artifacts) Thresholds() (artifacts.Thresholds, error) {
	t := artifacts.Thresholds{Bytes: a.ArtifactBytes, Tokens: a.ArtifactTokens}
	if err := t.Validate(); err != nil {
		return t, UsageError{Err: err}
	}
	return t, nil
}
