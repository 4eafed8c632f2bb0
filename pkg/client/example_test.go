package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"spool/internal/embedded"
	"spool/internal/natsio"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/sessions"
)

// connect stands for client.Connect(ctx, client.Config{URL: …}): the examples bring a server and a persister of their own.
func connect() (c *client.Client, done func()) {
	dir, err := os.MkdirTemp("", "spool-example-")
	check(err)
	srv, err := embedded.Start(embedded.Config{Dir: dir, Sync: time.Minute})
	check(err)
	conn, err := natsio.Dial(context.Background(), natsio.Config{InProcess: srv})
	check(err)
	check(conn.Ensure(context.Background(), natsio.Limits{EventsBytes: 64 << 20, ItemsBytes: 64 << 20}))
	stop, err := persister(conn)
	check(err)
	return client.New(conn), func() {
		stop()
		conn.Close()
		srv.Stop()
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// text is an item that an agent made itself.
func text(t events.Thread, s string) client.Entry {
	body, err := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": s}},
		"metadata": map[string]string{"type": "text"}})
	check(err)
	return client.Entry{Thread: t, Dialect: "item", Body: body}
}

// message is an entry of an oh-my-pi session.
func message(t events.Thread, id, role, s string) client.Entry {
	return client.Entry{Thread: t, Dialect: "omp", Body: fmt.Appendf(nil,
		`{"type":"message","id":%q,"timestamp":"2026-11-20T10:00:00.000Z","message":{"role":%q,"content":[{"type":"text","text":%q}]}}`, id, role, s)}
}

// stored publishes entries and waits until they are in their thread.
func stored(ctx context.Context, c *client.Client, entries ...client.Entry) {
	ack, err := c.Publisher(client.PublisherConfig{}).Publish(ctx, entries...)
	check(err)
	check(ack.Applied(ctx))
}

var build = events.Thread{Session: "build-42", Name: events.MainThread}

func ExamplePublisher() {
	c, done := connect()
	defer done()
	ctx := context.Background()

	p := c.Publisher(client.PublisherConfig{Producer: "ci-3", User: "ci"})
	ack, err := p.Publish(ctx, text(build, "compiling"), text(build, "tests pass")) // durable when it returns
	check(err)
	// Again, after an error say: the same producer and sequence add nothing.
	again := text(build, "compiling")
	again.Seq = 1
	_, err = c.Publisher(client.PublisherConfig{Producer: "ci-3"}).Publish(ctx, again)
	check(err)

	check(ack.Applied(ctx)) // now they are in the thread
	head, err := c.Thread(build).Head(ctx)
	check(err)
	fmt.Println(head.Entries, "entries")
	// Output: 2 entries
}

func ExampleAsync() {
	c, done := connect()
	defer done()
	ctx := context.Background()

	a := c.Async(client.AsyncConfig{Window: 8 << 20})
	for i := range 1000 {
		check(a.Publish(ctx, text(build, fmt.Sprint("step ", i)))) // waits only while 8 MiB are on their way
	}
	check(a.Close(ctx)) // all of them are durable
	for item, err := range c.Subscribe(ctx, client.Filter{Session: "build-42"}, client.Position{All: true}) {
		check(err)
		if item.N == 1000 {
			fmt.Println(item.Text())
			break
		}
	}
	// Output: step 999
}

func ExampleConfig_offline() {
	dir, err := os.MkdirTemp("", "spool-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()

	// No server listens there. With a directory that is no error, and what is published waits in it.
	c, err := client.Connect(context.Background(), client.Config{URL: "nats://127.0.0.1:1", Offline: dir})
	check(err)
	defer c.Close()
	_, err = c.Publisher(client.PublisherConfig{}).Publish(context.Background(), text(build, "on the train"))
	check(err)

	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(c.Flush(short)) // nil once a server has taken all of it
	// Output: context deadline exceeded
}

func ExampleThreadHandle_Output() {
	c, done := connect()
	defer done()
	ctx := context.Background()

	out, err := c.Thread(build).Output(ctx, client.OutputConfig{ID: "o1", Tool: "make", Input: []byte(`{"command":"make test"}`)})
	check(err)
	fmt.Fprintln(out, "gcc -c main.c")
	fmt.Fprintln(out.Stderr(), "warning: unused variable")
	check(out.Close(client.OutputEnd{ExitCode: 0})) // every byte is durable

	for frame, err := range c.Thread(build).Follow(ctx, "o1") {
		check(err)
		fmt.Print(string(frame.Text))
	}
	// Output:
	// gcc -c main.c
	// warning: unused variable
}

func ExampleThreadHandle_Ask() {
	c, done := connect()
	defer done()
	ctx := context.Background()

	person := make(chan struct{})
	go func() { // elsewhere
		defer close(person)
		for item, err := range c.Subscribe(ctx, client.Filter{Type: events.TypePendingPrompt}, client.Position{All: true}) {
			check(err)
			fmt.Println("asked:", item.Text())
			_, err = c.Thread(build).Answer(ctx, events.Answer{Prompt: "ship", Answer: json.RawMessage("true"), By: "mira"})
			check(err)
			return
		}
	}()
	answer, err := c.Thread(build).Ask(ctx, events.Prompt{ID: "ship", Kind: events.PromptApproval, Text: "Deploy to production?"})
	check(err)
	<-person
	fmt.Println(answer.Outcome, "by", answer.By)
	// Output:
	// asked: Deploy to production?
	// approved by mira
}

func ExampleClient_Subscribe() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"), text(build, "three"))

	// One thread from its second item on; also when SPOOL_ITEMS has forgotten it since.
	one := client.Filter{Session: "build-42", Thread: "main"}
	for item, err := range c.Subscribe(ctx, one, client.Position{N: 2}) {
		check(err)
		fmt.Println(item.N, item.Type(), item.Text())
		if item.N == 3 {
			break
		}
	}
	// Output:
	// 2 text two
	// 3 text three
}

func ExampleClient_SubscribeDurable() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"), text(build, "three"))

	read := func(n int) {
		for item, err := range c.SubscribeDurable(ctx, "indexer", client.Filter{}, client.Position{All: true}) {
			check(err)
			fmt.Println(item.Text())
			if n--; n == 0 {
				break // this one was not done: it comes again
			}
		}
	}
	read(2)
	fmt.Println("restarted")
	read(2)
	// Output:
	// one
	// two
	// restarted
	// two
	// three
}

func ExampleSessionHandle_Threads() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"))
	stored(ctx, c, text(events.Thread{Session: "build-42", Name: "reviewer"}, "looks good"))

	threads, err := c.Session("build-42").Threads(ctx)
	check(err)
	for _, t := range threads {
		fmt.Println(t.Thread, t.Head.Entries, t.Head.Status)
	}
	// Output:
	// build-42/main 2 active
	// build-42/reviewer 1 active
}

// The last entries of a thread, newest first, without reading the others.
func ExampleClient_Reader() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"), text(build, "three"), text(build, "four"))

	head, err := c.Thread(build).Head(ctx)
	check(err)
	page, err := c.Reader().Last(ctx, head.Head(), 2)
	check(err)
	for _, step := range page {
		content, err := step.ReadContent(ctx)
		check(err)
		fmt.Println(string(content.Text))
	}
	// Output:
	// {"content":[{"text":"four","type":"text"}],"metadata":{"type":"text"}}
	// {"content":[{"text":"three","type":"text"}],"metadata":{"type":"text"}}
}

// Items that SPOOL_ITEMS may have forgotten, from the thread's nodes.
func ExampleThreadHandle_ItemsFrom() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"), text(build, "three"))

	head, err := c.Thread(build).Head(ctx)
	check(err)
	for item, err := range c.Thread(build).ItemsFrom(ctx, head, 2) {
		check(err)
		fmt.Println(item.N, string(item.Data))
	}
}

func ExampleThreadHandle_Context() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, message(build, "a1", "user", "hello"), message(build, "a2", "assistant", "hi"), message(build, "a3", "user", "bye"))

	sent, err := c.Thread(build).Context(ctx, sessions.At("a2"), nil) // what the model was sent there
	check(err)
	fmt.Println(len(sent.Messages), "messages")
	// Output: 2 messages
}

func ExampleThreadHandle_Branch() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, message(build, "a1", "user", "hello"), message(build, "a2", "assistant", "hi"))

	_, err := c.Thread(build).Label(ctx, "a1", "before the answer")
	check(err)
	check(c.Thread(build).Branch(ctx, "a1")) // the next entry goes on from there; nothing is lost
	tree, err := c.Thread(build).Tree(ctx)
	check(err)
	fmt.Println(tree.Label("a1"), "· leaf", tree.Leaf().ID())
	// Output: before the answer · leaf a1
}

func ExampleThreadHandle_Fork() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"), text(build, "two"), text(build, "three"))

	retry := events.Thread{Session: "build-42", Name: "retry"}
	check(c.Thread(retry).Fork(ctx, events.Fork{Session: "build-42", Thread: "main", Index: 2})) // copies nothing
	stored(ctx, c, text(retry, "another three"))
	_, err := c.Thread(retry).Export(ctx, os.Stdout)
	check(err)
	// Output:
	// {"content":[{"text":"one","type":"text"}],"metadata":{"type":"text"}}
	// {"content":[{"text":"two","type":"text"}],"metadata":{"type":"text"}}
	// {"content":[{"text":"another three","type":"text"}],"metadata":{"type":"text"}}
}

func ExampleThreadHandle_End() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"))

	check(c.Thread(build).End(ctx, events.End{ReturnCode: 0, Summary: "all tests pass"}))
	threads, err := c.Session("build-42").Threads(ctx)
	check(err)
	fmt.Println(threads[0].Head.Status, threads[0].Ended != "")
	fmt.Println(c.Thread(build).End(ctx, events.End{}) != nil) // ErrEnded
	// Output:
	// completed true
	// true
}

func ExampleArtifactStore_Put() {
	c, done := connect()
	defer done()
	ctx := context.Background()
	stored(ctx, c, text(build, "one"))

	put, err := c.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{Session: "build-42"}, Tool: "make"},
		strings.NewReader("42 tests passed\n"))
	check(err)
	fmt.Println(put.Seq, put.Filename, put.Size)

	all, err := c.Session("build-42").Resolve(ctx, "artifact://0", artifacts.Lines{})
	check(err)
	fmt.Println(all.Size)
	r, size, err := c.Artifacts().Open(ctx, put)
	check(err)
	defer func() { check(r.Close()) }()
	b, err := io.ReadAll(r)
	check(err)
	fmt.Print(size, " bytes: ", string(b))
	// Output:
	// 0 0.make.log 16
	// 16
	// 16 bytes: 42 tests passed
}

func ExampleThreadHandle_StartRun() {
	c, done := connect()
	defer done()
	ctx := context.Background()

	run, err := c.Thread(build).StartRun(ctx, client.RunConfig{Agent: "coder", Lease: time.Minute})
	check(err)
	check(run.End(ctx, artifacts.RunCompleted, "all tests pass"))
	check(run.Wait(ctx))
	runs, err := c.Session("build-42").Runs(ctx)
	check(err)
	fmt.Println(runs[0].Agent, runs[0].State)
	// Output: coder completed
}
