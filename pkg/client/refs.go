package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"spool/internal/apply"
	"spool/internal/natsio"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
	"spool/pkg/events"
)

// MaxBlob is the longest blob that HTTP and the commands take, in bytes: it is held in memory. What is longer is an artifact.
const MaxBlob = 8 << 20

// PutBlob stores bytes under their SHA-256 and returns when they are durable, so that a step can refer to them. Publish the step
// next: a collector takes what nothing refers to.
func (c *Client) PutBlob(ctx context.Context, b []byte) (casstore.Ref, error) {
	return c.store.PutBlob(ctx, b)
}

// ErrMissingRef: a step refers to what is not stored. Nothing was published.
var ErrMissingRef = apply.ErrMissingRef

// checkRefs finds what a step refers to before it is published: what is missing is its agent's mistake, and it hears of it
// now (SPEC B2). A node without its pack is looked for where the persister looks.
func (p *Publisher) checkRefs(ctx context.Context, e Entry) error {
	if e.Dialect != "step" || e.Open != nil || !bytes.Contains(e.Body, []byte(`"refs"`)) {
		return nil
	}
	d, ok := dialect.Lookup(e.Dialect)
	if !ok {
		return nil
	}
	step, err := d.Read(e.Body, nil)
	if err != nil {
		return err
	}
	return p.client.Internal().CheckRefs(ctx, step.Refs)
}

// CheckRefs finds out whether what a step refers to is stored, each by its address. ErrMissingRef: one is not.
func (i Internal) CheckRefs(ctx context.Context, addresses []string) (err error) {
	if len(addresses) == 0 {
		return nil
	}
	refs := make([]casstore.Located, len(addresses))
	for i, text := range addresses {
		if refs[i], err = casstore.ParseLocated(text); err != nil {
			return fmt.Errorf("refs[%d]: %w", i, err)
		}
	}
	_, err = apply.FindRefs(ctx, refStore{i.c.records, i.c.conn.Objects()}, i.c.reader.Packs, i.c.store, refs)
	return err
}

// CheckEntry reports, ahead of its publication, why an entry of the dialect item or step would become a dead letter (SPEC B2):
// it refers to what is not stored (ErrMissingRef), or asks under the id of another question (ErrPromptTaken). read is the
// entry as its dialect reads it. After any other error that is not known.
func (i Internal) CheckEntry(ctx context.Context, e *events.Event, read dialect.Entry) error {
	if err := i.CheckRefs(ctx, read.Refs); err != nil || e.Dialect != "item" {
		return err
	}
	for _, it := range read.Items {
		p, ok := events.ParsePrompt(it)
		if !ok || it.Type != events.TypePendingPrompt {
			continue
		}
		if err := i.CheckPrompt(ctx, e.Thread, p); err != nil && !errors.Is(err, ErrNoPrompt) {
			return err
		}
	}
	return nil
}

// refStore is where steps' references are looked for.
type refStore struct {
	records
	natsio.Objects
}

// records is named in lower case because a field Records would hide the role's method of that name.
type records = natsio.Records
