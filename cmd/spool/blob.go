package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"spool/internal/service"
	"spool/internal/text"
	"spool/pkg/client"
)

type blobCmd struct {
	Put blobPutCmd `cmd:"" help:"Store a file, or what comes on standard input, as a blob, and print its ref."`
}

type blobPutCmd struct {
	File string `arg:"" optional:"" default:"-" help:"File to store; - is standard input."`
	JSON bool   `help:"Ref and size as one line of JSON, instead of the ref."`
}

func (c *blobPutCmd) Help() string {
	return "The refs of a step name a blob; publish the step next, since gc takes what nothing refers to. It has at most 8 MiB. " +
		"spool cat REF writes it."
}

func (c *blobPutCmd) Run(a *app) error {
	b, err := c.read(a)
	if err != nil {
		return err
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	ref, err := cl.PutBlob(a.ctx, b)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.out).Encode(map[string]any{"id": ref.String(), "size": len(b)})
	}
	_, err = fmt.Fprintln(a.out, ref)
	return err
}

func (c *blobPutCmd) read(a *app) ([]byte, error) {
	in := a.stdin()
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, client.MaxBlob+1))
	if err == nil && len(b) > client.MaxBlob {
		err = service.UsageError{Err: fmt.Errorf("a blob has at most %s: store it with spool artifact put", text.Bytes(client.MaxBlob))}
	}
	return b, err
}
