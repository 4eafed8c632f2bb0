package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"spool/internal/project"
	"spool/internal/record"
	"spool/internal/text"
	"spool/pkg/casstore"
	"spool/pkg/client"
	"spool/pkg/events"
	"spool/pkg/threads"
	"spool/pkg/truncate"
)

// patience is how long an item may take to reach the subscriber.
const patience = 20 * time.Second

// checkLive: the subscriber saw each thread's items as 1, 2, 3, … up to what its head says.
func (d *Demo) checkLive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var problems []error
	var total int64
	for _, t := range d.threads() {
		head, err := d.cl.Thread(t).Head(ctx)
		if err != nil {
			return err
		}
		items, err := d.live.wait(ctx, t, head.N)
		problems = append(problems, err)
		for i, it := range items {
			if it.N != int64(i+1) {
				problems = append(problems, fmt.Errorf("%s: item %d came as number %d", t, it.N, i+1))
				break
			}
		}
		total += head.N
	}
	d.out.Summary.Threads = len(d.files)
	d.check("live", fmt.Sprintf("%d items seen live, numbered without gaps in %d threads", total, len(d.files)), problems...)
	return nil
}

// checkExport: what comes out is what went in.
func (d *Demo) checkExport(ctx context.Context) error {
	var problems []error
	size := 0
	for _, f := range d.files {
		var out bytes.Buffer
		if _, err := d.cl.Thread(f.ID()).Export(ctx, &out); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", f.File, err))
		} else if !bytes.Equal(out.Bytes(), f.raw) {
			problems = append(problems, fmt.Errorf("%s: the export differs: %d bytes, the file has %d", f.File, out.Len(), len(f.raw)))
		}
		size += len(f.raw)
	}
	d.check("export", fmt.Sprintf("%d files, %s, byte for byte as they were", len(d.files), text.Bytes(int64(size))), problems...)
	return nil
}

// checkAgain: a second import adds nothing.
func (d *Demo) checkAgain(ctx context.Context) error {
	before := d.p.Stats()
	res, err := d.importOnce(ctx)
	if err != nil {
		return err
	}
	after := d.p.Stats()
	var problems []error
	if res.Published != 0 || after.Items != before.Items || after.Entries != before.Entries {
		problems = append(problems, fmt.Errorf("%d lines published again, %d items added", res.Published, after.Items-before.Items))
	}
	d.check("import again", "0 lines published, 0 items added", problems...)
	return nil
}

// checkRules: the size rules were needed and held.
func (d *Demo) checkRules(ctx context.Context) error {
	var problems []error
	var cut, largest int
	for _, t := range d.threads() {
		items, err := d.live.wait(ctx, t, 0)
		if err != nil {
			return err
		}
		for _, it := range items {
			n := truncate.PythonLen(it.Raw)
			largest = max(largest, n)
			if n > truncate.ItemBudget {
				problems = append(problems, fmt.Errorf("%s: item %d has %d bytes", t, it.N, n))
			}
			if bytes.Contains(it.Metadata, []byte(`"truncated":true`)) {
				cut++
			}
		}
	}
	d.check("item budget", fmt.Sprintf("%d oversized items cut; the largest of all has %d of %d bytes", cut, largest,
		truncate.ItemBudget), append(problems, need(cut, "item over the budget"))...)
	st := d.p.Stats()
	d.check("entry rules", fmt.Sprintf("%d entries cut at 500,000 characters, %d images moved to blobs, all restored in the export",
		st.Truncated, st.Externalized),
		need(int(st.Truncated), "entry over 500,000 characters"), need(int(st.Externalized), "image"))
	return nil
}

func need(n int, what string) error {
	if n == 0 {
		return fmt.Errorf("the examples hold no %s: nothing was shown", what)
	}
	return nil
}

// checkRebuild: the items made again from the nodes are the items that were sent.
func (d *Demo) checkRebuild(ctx context.Context) error {
	var problems []error
	n := 0
	for _, t := range d.threads() {
		head, err := d.cl.Thread(t).Head(ctx)
		if err != nil {
			return err
		}
		sent, err := d.live.wait(ctx, t, head.N)
		if err != nil {
			return err
		}
		for step, err := range d.cl.Reader().Entries(ctx, head) {
			if err != nil {
				return err
			}
			content, err := step.ReadContent(ctx)
			if err != nil {
				return err
			}
			posted, err := project.Rebuild(t, step.At.Ref, step.State, content.Text)
			problems = append(problems, err)
			for _, p := range posted {
				if n++; !bytes.Equal(sent[p.N-1].Raw, p.Data) {
					problems = append(problems, fmt.Errorf("%s: item %d is rebuilt differently", t, p.N))
				}
			}
		}
	}
	d.check("rebuild", fmt.Sprintf("%d items made again from the nodes, equal to those sent", n), problems...)
	return nil
}

// checkFork: a fork shares the past and goes on by itself.
func (d *Demo) checkFork(ctx context.Context) error {
	source := d.files[0].ID()
	for _, f := range d.files {
		if f.ID().Name == events.MainThread && f.Lines > 5 {
			source = f.ID()
		}
	}
	fork := events.Thread{Session: source.Session, Name: "retry"}
	before, nodes := d.p.Stats(), int64(0)
	if err := d.cl.Thread(fork).Fork(ctx, events.Fork{Session: source.Session, Thread: source.Name}); err != nil {
		return err
	}
	after := d.p.Stats()
	nodes = after.Nodes - before.Nodes
	from, err := d.cl.Thread(source).Head(ctx)
	if err != nil {
		return err
	}
	head, err := d.cl.Thread(fork).Head(ctx)
	if err != nil {
		return err
	}
	var problems []error
	shared := slices.ContainsFunc(from.Recent[1:], func(l casstore.Located) bool { return l.Ref == head.Recent[1].Ref })
	if !shared || head.Start.Ref != from.Start.Ref {
		problems = append(problems, fmt.Errorf("%s does not share the nodes of %s", fork, source))
	}
	pub := d.cl.Publisher(client.PublisherConfig{})
	if _, err := pub.Publish(ctx, client.Entry{Thread: fork, Dialect: "item",
		Body: []byte(`{"content":[{"type":"text","text":"again, from here"}]}`)}); err != nil {
		return err
	}
	items, err := d.live.wait(ctx, fork, 1)
	problems = append(problems, err)
	if len(items) > 0 && items[0].N != head.N+1 {
		problems = append(problems, fmt.Errorf("the fork goes on with item %d, not %d", items[0].N, head.N+1))
	}
	d.out.Session, d.out.Fork = source.String(), fork.String()
	d.check("fork", fmt.Sprintf("%s begins at entry %d of %s; %d nodes written, %s; it goes on with item %d", fork, head.Entries-1, source,
		nodes, text.Bytes(after.BytesStored-before.BytesStored), head.N+1), problems...)
	return nil
}

// checkStore: every hash, position and number holds, and nothing went to the dead letters.
func (d *Demo) checkStore(ctx context.Context) error {
	list, err := d.cl.Sessions(ctx, "")
	if err != nil {
		return err
	}
	var problems []error
	n := 0
	for _, s := range list {
		for _, t := range s.Threads {
			n++
			if err := threads.Verify(ctx, d.cl.Reader(), t.Head); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", t.Thread, err))
			}
		}
	}
	d.out.Summary.Sessions = len(list)
	d.out.Summary.Threads = n
	d.check("verify", fmt.Sprintf("every hash, ref and number of %d threads in %d sessions holds", n, len(list)), problems...)

	usage, err := d.admin.Usage(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(usage, func(u record.Usage) bool { return u.Stream == events.DeadStream })
	if i < 0 {
		return errors.New("no stream " + events.DeadStream)
	}
	var dead error
	if n := usage[i].Messages; n > 0 {
		dead = fmt.Errorf("%d events went to the dead letters", n)
	}
	d.check("dead letters", "none", dead)
	return nil
}
