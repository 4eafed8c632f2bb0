// Command spool-otlp sends the turns of agents to a collector of traces.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

	"spool/adapters/otlp"
	"spool/internal/service"
	"spool/pkg/client"
)

type flags struct {
	Name      string       `default:"otlp" placeholder:"NAME" help:"Name under which the place is kept: a program of the same name goes on there."`
	Session   string       `placeholder:"S" help:"Send this session alone."`
	All       bool         `help:"Where the name is new, begin with the first turn that is kept; else with the next one."`
	Content   bool         `help:"Send what users, agents and tools said, too: up to 32 KiB of each."`
	LogFormat string       `name:"log-format" default:"text" enum:"text,json" help:"text or json."`
	NATS      service.NATS `embed:""`
}

const help = `Sends each turn of an agent, when it ends, as spans by OTLP over HTTP. Where to: OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of
OpenTelemetry's exporters. The names of the attributes are not settled yet; say that you know:
OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental`

func main() {
	var c flags
	kong.Parse(&c, kong.Name("spool-otlp"), kong.Description(help))
	os.Exit(service.Exit("spool-otlp", run(c), os.Stderr))
}

const (
	optInVar = "OTEL_SEMCONV_STABILITY_OPT_IN"
	optIn    = "gen_ai_latest_experimental"
)

func run(c flags) error {
	if !slices.Contains(strings.Split(os.Getenv(optInVar), ","), optIn) {
		return service.UsageError{Err: fmt.Errorf("the names that spans have may change with their conventions: set %s=%s", optInVar, optIn)}
	}
	ctx, cancel := service.Signals()
	defer cancel()
	log, err := service.Log(os.Stderr, c.LogFormat, "info")
	if err != nil {
		return err
	}
	conn, err := c.NATS.Dial(ctx, "spool otlp", log)
	if err != nil {
		return err
	}
	defer conn.Close()
	out := otlptracehttp.NewClient()
	if err := out.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = out.Stop(context.WithoutCancel(ctx)) }()
	err = otlp.Run(ctx, client.New(conn), c.Name, otlp.Config{Session: c.Session, All: c.All, Content: c.Content,
		Upload: out.UploadTraces, Log: log})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
