// Package examples carries invented transcripts of three harnesses, laid out as the harnesses lay them out, so that
// everything can be tried without an agent.
package examples

import "embed"

// FS holds the trees claude (projects/…), codex (sessions/…) and omp (sessions/…).
//
//go:embed claude codex omp
var FS embed.FS
