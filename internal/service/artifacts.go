package service

import (
	"flag"

	"spool/pkg/artifacts"
)

// Artifacts are the flags that say which results become artifacts by themselves (SPEC A4). The tags are kong's; the daemons
// use Flags.
type Artifacts struct {
	ArtifactBytes  int `env:"SPOOL_ARTIFACT_BYTES" placeholder:"BYTES" help:"A tool's result of more bytes becomes an artifact (default 65536)."`
	ArtifactTokens int `env:"SPOOL_ARTIFACT_TOKENS" placeholder:"TOKENS" help:"So does one of more tokens, estimated as a quarter of its characters (default 16000)."`
}

// artifactEnv is which environment variable stands for which flag.
var artifactEnv = map[string]string{"artifact-bytes": "SPOOL_ARTIFACT_BYTES", "artifact-tokens": "SPOOL_ARTIFACT_TOKENS"}

// Flags registers the flags on a standard flag set; Parse reads the environment.
func (a *Artifacts) Flags(fs *flag.FlagSet) {
	fs.IntVar(&a.ArtifactBytes, "artifact-bytes", 0, "a tool's result of more `bytes` becomes an artifact (default 65536)"+envNote(artifactEnv["artifact-bytes"]))
	fs.IntVar(&a.ArtifactTokens, "artifact-tokens", 0, "so does one of more `tokens`, estimated as a quarter of its characters (default 16000)"+envNote(artifactEnv["artifact-tokens"]))
}

// Thresholds is what the flags say.
func (a Artifacts) Thresholds() (artifacts.Thresholds, error) {
	t := artifacts.Thresholds{Bytes: a.ArtifactBytes, Tokens: a.ArtifactTokens}
	if err := t.Validate(); err != nil {
		return t, UsageError{Err: err}
	}
	return t, nil
}
