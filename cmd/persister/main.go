// Command persister applies events to threads. Any number of them share the partitions of one NATS system. It is spool persister.
package main

import (
	"os"

	"spool/internal/daemon"
)

func main() { os.Exit(daemon.Run("persister", daemon.Main("persister"))) }
