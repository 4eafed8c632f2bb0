// Command gc collects garbage, every so often or once. Any number may run: one of them runs each cycle. It acts: -dry-run says what it
// would do. It is spool gc --every WHEN, or --once.
package main

import (
	"os"

	"spool/internal/daemon"
)

func main() { os.Exit(daemon.Run("gc", daemon.Main("gc"))) }
