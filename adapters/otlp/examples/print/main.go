// Command print writes the spans that a collector would be sent: a line each, with its session.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"spool/adapters/otlp"
	"spool/pkg/client"
)

func main() {
	ctx := context.Background()
	cl, err := client.Connect(ctx, client.Config{URL: os.Getenv("NATS_URL")})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(otlp.Run(ctx, cl, "print", otlp.Config{All: true, Upload: write, Log: slog.Default()}))
}

func write(_ context.Context, spans []*tracepb.ResourceSpans) error {
	for _, r := range spans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				for _, a := range s.Attributes {
					if a.Key == "gen_ai.conversation.id" {
						fmt.Println(a.Value.GetStringValue(), s.Name)
					}
				}
			}
		}
	}
	return nil
}
