// Command ingest takes entries from agents that have no Spool client: over HTTP, or from standard input with "ingest -". It is spool
// ingest.
package main

import (
	"os"

	"spool/internal/daemon"
)

func main() { os.Exit(daemon.Run("ingest", daemon.Main("ingest"))) }
