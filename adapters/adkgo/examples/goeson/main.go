// Command goeson is an agent that counts what it was asked. Started again, it goes on in the same session.
package main

import (
	"context"
	"fmt"
	"iter"
	"log"
	"os"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"spool/adapters/adkgo"
	"spool/pkg/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cl, err := client.Connect(ctx, client.Config{URL: os.Getenv("NATS_URL")})
	if err != nil {
		return err
	}
	defer cl.Close()
	counter, err := agent.New(agent.Config{Name: "counter", Run: count})
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: "orchard", Agent: counter, SessionService: adkgo.New(cl), AutoCreateSession: true})
	if err != nil {
		return err
	}
	for e, err := range r.Run(ctx, "mira", "count", genai.NewContentFromText("How often did I ask?", genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return err
		}
		fmt.Println(e.Content.Parts[0].Text)
	}
	return nil
}

// count is what stands for a model here.
func count(in agent.InvocationContext) iter.Seq2[*session.Event, error] {
	return func(yield func(*session.Event, error) bool) {
		asked := 0
		for e := range in.Session().Events().All() {
			if e.Author == "user" {
				asked++
			}
		}
		e := session.NewEvent(in, in.InvocationID())
		e.Author = "counter"
		e.Content = genai.NewContentFromText(fmt.Sprintf("asked %d times", asked), genai.RoleModel)
		yield(e, nil)
	}
}
