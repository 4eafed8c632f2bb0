// Command natsd is a NATS server without Spool, for tests that kill persisters and leave the server alone. It says
// "ready" and its address on stderr, and stops with SIGTERM.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"spool/internal/embedded"
	"spool/internal/service"
)

func main() { os.Exit(service.Exit("natsd", run(os.Args[1:]), os.Stderr)) }

func run(args []string) error {
	fs := flag.NewFlagSet("natsd", flag.ContinueOnError)
	dir := fs.String("data", "", "data `directory`")
	listen := fs.String("listen", "127.0.0.1:0", "`address`")
	if err := fs.Parse(args); err != nil {
		return service.UsageError{Err: err}
	}
	ctx, cancel := service.Signals()
	defer cancel()
	s, err := embedded.Start(embedded.Config{Dir: *dir, Listen: *listen, Sync: time.Second})
	if err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintln(os.Stderr, "ready", s.ClientURL())
	<-ctx.Done()
	return nil
}
