package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"spool/internal/record"
	"spool/pkg/artifacts"
	"spool/pkg/client"
	"spool/pkg/events"
)

// agent is who publishes: one process at a time, with durable producers that outlive it.
type agent struct {
	w     *World
	i     int
	lives int // processes that it was; each is another epoch for producers that count them
	proc  *process
	pubs  map[int]*client.Publisher
	seqs  map[int]uint64 // sequence of each durable producer's last entry, in its epoch
	done  chan struct{}  // closed when its last operation has ended

	replaced []*process // that it was, and that may live still
}

func (w *World) newAgent(i int) *agent {
	a := &agent{w: w, i: i, seqs: map[int]uint64{}}
	a.begin()
	return a
}

// begin gives the agent a new process.
func (a *agent) begin() {
	a.lives++
	a.proc, a.pubs = a.w.process(fmt.Sprintf("agent%d", a.i)), map[int]*client.Publisher{}
	for as := range a.seqs {
		if as%2 == 1 { // a new epoch counts from 1
			delete(a.seqs, as)
		}
	}
}

// idle reports whether its last operation has ended.
func (a *agent) idle() bool {
	if a.done == nil {
		return true
	}
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// start runs an operation beside the driver.
func (a *agent) start(index int, o Op) {
	a.done = make(chan struct{})
	a.w.busy.Add(1)
	proc, done := a.proc, a.done
	go func() {
		defer close(done)
		defer a.w.busy.Add(-1)
		patience := 5 * time.Minute // what waits for an answer asks for it some thousand times
		switch {
		case o.Ms > 0:
			patience = ms(o.Ms)
		case o.Do == Output: // its tool may run for that long
			patience = 30 * time.Minute
		}
		ctx, cancel := context.WithTimeout(proc.ctx, patience)
		defer cancel()
		err := a.do(ctx, &call{agent: a, proc: proc, index: index, op: o})
		a.w.trace.add("op %d ends: %s", index, short(err))
	}()
}

// call is one operation under way. What it learns after its process died nobody was told.
type call struct {
	*agent
	proc  *process
	index int
	op    Op
}

func (c *call) tell(told Told, ws ...*Wrote) {
	if !c.proc.dead.Load() {
		c.w.ledger.tell(told, ws...)
	}
}

func (a *agent) do(ctx context.Context, c *call) error {
	cl, err := c.proc.client()
	if err != nil {
		return err
	}
	o := c.op
	t := threadOf(o.Session, o.Thread)
	switch o.Do {
	case Publish:
		return c.publish(ctx, cl)
	case Async:
		return c.async(ctx, cl)
	case Echo:
		return c.echo(ctx, cl)
	case Skip:
		return c.skip(ctx)
	case Reuse:
		return c.countAgain(ctx)
	case Poison, PoisonOp:
		return c.poison(ctx)
	case Fork:
		if o.Kind == 1 { // as one who does not look first
			fork := events.Control{Op: events.OpFork, Fork: &events.Fork{Session: t.Session, Thread: t.Name, Whole: true}}
			return c.say(ctx, fmt.Sprintf("%s-forks%d", c.proc.name, c.index), 1, threadOf(o.ToSess, o.To), events.KindControl, fork.Encode())
		}
		return cl.Thread(threadOf(o.ToSess, o.To)).Fork(ctx, events.Fork{Session: t.Session, Thread: t.Name, Whole: true})
	case Rename, Remove:
		if o.Again {
			return c.operateTwice(ctx, t)
		}
		if o.Do == Rename {
			return cl.Thread(t).Rename(ctx, threadNames[o.To%len(threadNames)])
		}
		switch o.Kind {
		case 1:
			return cl.Thread(t).Remove(ctx, client.Force(true))
		case 2:
			head, err := cl.Thread(t).AwaitHead(ctx)
			if err == nil {
				_, err = cl.Internal().Retire(ctx, t, head)
			}
			return err
		}
		return cl.Thread(t).Remove(ctx)
	case End:
		return cl.Thread(t).End(ctx, events.End{Summary: "done"})
	case Delete:
		if o.Kind > 0 {
			return c.deleteUnforced(ctx, t)
		}
		_, err := cl.Session(t.Session).Delete(ctx, client.Deletion{Force: true, Plain: true})
		return err
	case Output:
		return c.output(ctx, cl, t)
	case Ask:
		if o.Kind == 2 { // as one who does not look first
			asks := events.PendingPrompt(fmt.Sprintf("q%d", o.N), string(events.PromptText), "and now?", nil)
			return c.say(ctx, fmt.Sprintf("%s-asks%d", c.proc.name, c.index), 1, t, events.KindEntry, asks.JSON())
		}
		_, err := cl.Thread(t).Ask(ctx, events.Prompt{ID: fmt.Sprintf("q%d", o.N), Kind: events.PromptText,
			Text: []string{"go on?", "stop?"}[o.Kind%2]})
		return err
	case Answer:
		return c.answer(ctx, cl, t)
	case Sign:
		return c.signs(ctx, t)
	case PutArtifact:
		return c.artifact(ctx, cl, t.Session)
	case Refer:
		return c.refer(ctx, cl, t)
	case Read:
		return c.read(ctx, cl, t)
	}
	return fmt.Errorf("no agent does %s", o.Do)
}

// producer is the name of the operation's durable producer.
func (c *call) producer() string { return fmt.Sprintf("agent%d-%d", c.i, c.op.As) }

// publisher is the producer of the operation. Producer 0 is one of the process; the others outlive it, and number
// their entries themselves. An odd one counts its lives as epochs.
func (c *call) publisher(cl *client.Client) *client.Publisher {
	if p := c.pubs[c.op.As]; p != nil {
		return p
	}
	p := cl.Publisher(c.publisherConfig())
	c.pubs[c.op.As] = p
	return p
}

func (c *call) publisherConfig() (cfg client.PublisherConfig) {
	if c.op.As != 0 {
		cfg.Producer = c.producer()
	}
	if c.op.As%2 == 1 {
		cfg.Epoch = uint64(c.lives)
	}
	return cfg
}

// entries makes the operation's entries, to one thread or, with Kind 1, to two in turn.
func (c *call) entries(producer string) (es []client.Entry, ws []*Wrote) {
	for i := range max(c.op.N, 1) {
		t := threadOf(c.op.Session, c.op.Thread)
		if c.op.Kind == 1 && i%2 == 1 {
			t = threadOf(c.op.ToSess, c.op.To)
		}
		w := c.write(t, producer, true)
		e := client.Entry{Thread: t, Dialect: "item", Body: body(w.Mark, c.op.Size, c.op.Image)}
		c.w.ledger.holds(w, e.Body)
		if c.op.As != 0 {
			c.seqs[c.op.As]++
			e.Seq = c.seqs[c.op.As]
		}
		if c.op.Split { // entries of one trace share a message
			e.Trace = fmt.Sprintf("00-%032x-%016x-01", c.index*1000+i+1, 1)
		}
		es, ws = append(es, e), append(ws, w)
	}
	return es, ws
}

// body is an entry that makes one item. An image becomes a blob, which all entries with that image share.
func body(mark string, size, image int) []byte {
	more := ""
	if image > 0 {
		more = fmt.Sprintf(`,{"type":"image","mimeType":"image/png","data":"%s"}`,
			strings.Repeat(string(rune('A'+image)), 2048))
	}
	what := `,"metadata":{"type":"text"}`
	if n := len(mark); mark[n-2]%2 == 0 { // a person's post
		what = ""
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s%s"}%s]%s}`, mark, strings.Repeat("x", size), more, what)
}

func (c *call) publish(ctx context.Context, cl *client.Client) error {
	p := c.publisher(cl)
	es, ws := c.entries(p.Producer())
	err := c.send(ctx, p, es)
	c.outcome(err, ws)
	return err
}

// send publishes entries, and again if the operation does where nobody knows whether they are stored.
func (c *call) send(ctx context.Context, p *client.Publisher, es []client.Entry) error {
	_, err := p.Publish(ctx, es...)
	for tries := 0; err != nil && c.op.Again && tries < 3 && c.proc.ctx.Err() == nil; tries++ {
		again, cancel := context.WithTimeout(c.proc.ctx, 30*time.Second)
		_, err = p.Publish(again, es...)
		cancel()
	}
	return err
}

// echo publishes the same bytes again and again, as a person says the same twice. What has no answer is sent again; what has one
// is not meant by the next.
func (c *call) echo(ctx context.Context, cl *client.Client) error {
	p := c.publisher(cl)
	w := c.write(threadOf(c.op.Session, c.op.Thread), p.Producer(), true)
	e := client.Entry{Thread: w.Thread, Dialect: "item",
		Body: fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}],"metadata":{"type":"text"}}`, w.Mark)}
	c.w.ledger.holds(w, e.Body)
	for range c.op.N {
		if c.op.As != 0 {
			c.seqs[c.op.As]++
			e.Seq = c.seqs[c.op.As]
		}
		err := c.send(ctx, p, []client.Entry{e})
		c.outcome(err, []*Wrote{w})
		if err != nil {
			return err
		}
		c.w.ledger.again(w)
	}
	return nil
}

// outcome notes what a publish said.
func (c *call) outcome(err error, ws []*Wrote) {
	switch {
	case err == nil:
		c.tell(Acked, ws...)
	case errors.Is(err, client.ErrOfflineFull):
		c.tell(Failed, ws...)
	}
}

func (c *call) async(ctx context.Context, cl *client.Client) error {
	a := cl.Async(client.AsyncConfig{PublisherConfig: c.publisherConfig()})
	name := c.producer()
	if c.op.As == 0 {
		name = fmt.Sprintf("%s-async%d", c.proc.name, c.index)
	}
	es, ws := c.entries(name)
	never := len(es)
	if c.op.Kind == 2 {
		never = len(es) / 2
		es[never].Open = func() (io.ReadCloser, error) { return nil, errUnread }
	}
	for i, e := range es {
		if never < len(es) {
			_ = sleep(ctx, 1)
		}
		if err := a.Publish(ctx, e); err != nil {
			_ = a.Close(ctx)
			c.tell(Unknown, ws[i:]...)
			c.neverStored(err, ws[min(never, i):])
			return err
		}
	}
	err := a.Close(ctx)
	c.neverStored(err, ws[never:])
	c.outcome(err, ws)
	return err
}

// errUnread: an entry cannot be read, and so it can never be stored.
var errUnread = errors.New("there is no such file")

// neverStored notes that entries are not stored, where one before them cannot be.
func (c *call) neverStored(err error, ws []*Wrote) {
	if errors.Is(err, errUnread) {
		c.tell(Failed, ws...)
	}
}

// poison publishes, in one call, what cannot be applied and entries that are linked to it.
func (c *call) poison(ctx context.Context) error {
	conn, err := c.proc.connect()
	if err != nil {
		return err
	}
	t, producer := threadOf(c.op.Session, c.op.Thread), fmt.Sprintf("%s-poison%d", c.proc.name, c.index)
	bad := c.write(t, producer, false)
	first := &events.Event{Producer: producer, Seq: 1, Kind: events.KindEntry, Dialect: "item", Thread: t,
		Body: body(bad.Mark, 0, 0)}
	switch {
	case c.op.Do == PoisonOp:
		first.Kind, first.Dialect = events.KindControl, ""
		first.Body = events.Control{Op: events.OpLabel, Label: &events.Label{Target: "nobody" + bad.Mark,
			Label: "x"}}.Encode()
	case c.op.Kind == 0:
		first.Dialect = "klingon"
	case c.op.Kind == 1:
		first.Body = append(first.Body, '{')
	default:
		first.Body = fmt.Appendf(nil, `{"content":%q}`, bad.Mark)
	}
	evs, ws := []*events.Event{first}, []*Wrote{bad}
	for i := range c.op.N {
		w := c.write(t, producer, true)
		evs = append(evs, &events.Event{Producer: producer, Seq: uint64(i + 2), Kind: events.KindEntry,
			Dialect: "item", Thread: t, Body: body(w.Mark, c.op.Size, c.op.Image)})
		c.w.ledger.holds(w, evs[i+1].Body)
		ws = append(ws, w)
	}
	if c.op.Unseen {
		m := nats.NewMsg(events.EventSubject(t, events.KindEntry))
		m.Header.Set("Status", "100")
		if _, err := conn.JetStream().PublishMsg(ctx, m); err != nil {
			return err
		}
	}
	err = conn.Events().PublishEvents(ctx, evs)
	if err == nil {
		c.tell(Acked, ws...)
	}
	return err
}

// output streams what a tool prints.
func (c *call) output(ctx context.Context, cl *client.Client, t events.Thread) error {
	if c.op.Again {
		return c.strays(ctx, t)
	}
	w := c.write(t, "output", true)
	out, err := cl.Thread(t).Output(ctx, client.OutputConfig{ID: fmt.Sprintf("o%d-%d", c.index, c.lives), Tool: "sh",
		Window: 64 << 10})
	if err != nil {
		return err
	}
	for i := range max(c.op.N, 1) {
		text := fmt.Sprintf("%s piece %d%s\n", w.Mark, i, strings.Repeat("y", c.op.Size))
		if _, err := out.Write([]byte(text)); err != nil {
			return err
		}
		_ = sleep(ctx, 100+c.op.Kind*c.op.Kind*9000)
	}
	if err := out.Close(client.OutputEnd{}); err != nil {
		return err
	}
	c.tell(Acked, w)
	return nil
}

// refer publishes a step that names a node by its hash, as it was some time before.
func (c *call) refer(ctx context.Context, cl *client.Client, t events.Thread) error {
	head, err := cl.Thread(t).Head(ctx)
	if err != nil || len(head.Recent) == 0 {
		return err
	}
	if err := sleep(ctx, c.op.N); err != nil {
		return err
	}
	to, p := threadOf(c.op.ToSess, c.op.To), cl.Publisher(client.PublisherConfig{})
	w := c.write(to, p.Producer(), true)
	_, err = p.Publish(ctx, client.Entry{Thread: to, Dialect: "step",
		Body: fmt.Appendf(nil, `{"role":"coder","content":%q,"refs":[%q]}`, w.Mark, head.Head())})
	c.outcome(err, []*Wrote{w})
	return err
}

func (c *call) answer(ctx context.Context, cl *client.Client, t events.Thread) error {
	if c.op.Kind == 1 { // as it was seen some time ago
		_, err := cl.Thread(t).Answer(ctx, events.Answer{Prompt: fmt.Sprintf("q%d", c.op.N), Answer: []byte(`"no"`), By: "somebody"})
		return err
	}
	open, err := cl.Session(t.Session).Prompts(ctx)
	if err != nil || len(open) == 0 {
		return err
	}
	p := open[0]
	by := fmt.Sprintf("%s by op %d", c.proc.name, c.index)
	if c.op.Kind == 2 { // it was seen some time ago, and arrives now
		_ = sleep(ctx, 3000)
		op := events.Control{Op: events.OpAnswer,
			Answer: &events.Answer{Prompt: p.ID, Answer: []byte(`"late"`), By: by, Life: p.Life}}
		return c.say(ctx, fmt.Sprintf("%s-late%d", c.proc.name, c.index), 1, p.Thread, events.KindControl, op.Encode())
	}
	_, err = cl.Thread(p.Thread).Answer(ctx, events.Answer{Prompt: p.ID, Answer: []byte(`"yes"`), By: by})
	if err == nil && !c.proc.dead.Load() {
		c.w.ledger.answered(fmt.Sprintf("%s %s asked at %d", p.Thread, p.ID, p.Asked.UnixMilli()), by)
	}
	return err
}

// artifact puts bytes under an id that others may want too: one of them gets it.
func (c *call) artifact(ctx context.Context, cl *client.Client, session string) error {
	id, text := artifacts.ID(fmt.Sprintf("art_20000101_000000_%d", c.op.N)), fmt.Sprintf("%s by %d", c.proc.name, c.index)
	if c.op.Kind == 1 {
		id = ""
	}
	r, err := cl.Artifacts().Put(ctx, client.NewArtifact{Record: artifacts.Record{ID: id, Session: session,
		Filename: "f"}}, strings.NewReader(text))
	c.w.ledger.mu.Lock()
	defer c.w.ledger.mu.Unlock()
	c.w.ledger.gaveUp = c.w.ledger.gaveUp || ctx.Err() != nil
	if err != nil || c.proc.dead.Load() {
		return err
	}
	id = r.ID
	if c.w.ledger.artifacts == nil {
		c.w.ledger.artifacts = map[artifacts.ID]artifact{}
	}
	if other, taken := c.w.ledger.artifacts[id]; taken && other.session == r.Session {
		c.w.ledger.faults = append(c.w.ledger.faults, fmt.Sprintf("artifact %s was given to two who put it: %q and %q",
			id, other.text, text))
	}
	c.w.ledger.artifacts[id] = artifact{r.Session, text}
	return nil
}

// read reads a thread to its beginning, with whatever the process has in memory of it.
func (c *call) read(ctx context.Context, cl *client.Client, t events.Thread) error {
	head, err := cl.Thread(t).Head(ctx)
	if err != nil {
		return err
	}
	var lines int
	for _, err = range cl.Internal().RawEntries(ctx, head) {
		if err != nil {
			break
		}
		lines++
	}
	if (errors.Is(err, client.ErrNotFound) || record.IsGone(err)) && !c.proc.dead.Load() {
		if now, again := cl.Thread(t).Head(ctx); again == nil && bytes.Equal(now.Encode(), head.Encode()) {
			c.w.ledger.fault("a reader of %s, whose head did not change, did not find what is stored: %v", t, err)
		}
	}
	return err
}

func short(err error) string {
	if err == nil {
		return "ok"
	}
	s := err.Error()
	return s[:min(len(s), 160)]
}
