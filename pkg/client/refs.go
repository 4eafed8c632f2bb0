package client

import (
	"bytes"
	"context"
	"fmt"

	"spool/internal/apply"
	"spool/pkg/casstore"
	"spool/pkg/dialect"
)

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
	if err != nil || len(step.Refs) == 0 {
		return err
	}
	refs := make([]casstore.Located, len(step.Refs))
	for i, text := range step.Refs {
		if refs[i], err = casstore.ParseLocated(text); err != nil {
			return fmt.Errorf("refs[%d]: %w", i, err)
		}
	}
	_, err = apply.FindRefs(ctx, p.client.conn, p.client.reader.Packs, p.client.store, refs)
	return err
}
