package service

import "spool/pkg/artifacts"

// Artifacts are the flags that say which results become artifacts by themselves (SPEC A4).
type Artifacts struct {
	ArtifactBytes  int `env:"SPOOL_ARTIFACT_BYTES" placeholder:"BYTES" help:"A tool's result of more bytes becomes an artifact (default 65536)."`
	ArtifactTokens int `env:"SPOOL_ARTIFACT_TOKENS" placeholder:"TOKENS" help:"So does one of more tokens, estimated as a quarter of its characters (default 16000)."`
}

// Thresholds is what the flags say.
func (a Artifacts) Thresholds() (artifacts.Thresholds, error) {
	t := artifacts.Thresholds{Bytes: a.ArtifactBytes, Tokens: a.ArtifactTokens}
	if err := t.Validate(); err != nil {
		return t, UsageError{Err: err}
	}
	return t, nil
}
