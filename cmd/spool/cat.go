package main

import (
	"encoding/json"
	"fmt"
	"io"

	"spool/internal/natsio"
	"spool/internal/service"
	"spool/pkg/casstore"
)

type catCmd struct {
	Ref  string `arg:"" help:"blob:sha256:… or node:sha256:…"`
	Pack string `placeholder:"ID" help:"Pack that holds the node, as thread show --json names it (default: look in all)."`
}

func (c *catCmd) Run(a *app) error {
	ref, err := casstore.ParseRef(c.Ref)
	if err != nil {
		return fullState(err)
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	store := conn.Store(0)
	if ref.Kind() == casstore.KindBlob {
		b, err := store.OpenBlob(a.ctx, ref)
		if err == nil {
			_, err = io.Copy(a.out, b)
		}
		return err
	}
	node, err := c.find(a, store, ref)
	if err != nil {
		return err
	}
	return writeNode(a, node)
}

// find reads a node from its pack, or from the first pack that has it.
func (c *catCmd) find(a *app, store *natsio.Store, ref casstore.Ref) (casstore.Node, error) {
	if c.Pack == "" {
		return store.Find(a.ctx, ref)
	}
	id, err := casstore.ParsePackID(c.Pack)
	if err != nil {
		return casstore.Node{}, service.UsageError{Err: err}
	}
	p, err := store.Pack(a.ctx, id)
	if err != nil {
		return casstore.Node{}, err
	}
	return p.Node(ref)
}

func writeNode(a *app, n casstore.Node) error {
	payload, err := casstore.DecodeValue(n.Payload)
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	refs := make([]any, len(n.Refs))
	for i, r := range n.Refs {
		if !r.IsZero() {
			refs[i] = r.String()
		}
	}
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(map[string]any{"type": n.Type, "payload": payload, "refs": refs})
}
