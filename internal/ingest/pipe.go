package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Pipe runs Lines for a person: it names each refused line on w, and then says what was stored. It is an error when a line
// was refused.
func Pipe(ctx context.Context, r io.Reader, out Publisher, cfg Config, w io.Writer) error {
	cfg.Results = func(rs []Result, _ error) {
		for _, r := range rs {
			if !r.OK {
				fmt.Fprintf(w, "line %d: %s\n", r.Line, r.Error)
			}
		}
	}
	sum, err := Lines(ctx, r, out, cfg)
	fmt.Fprintf(w, "%d stored, %d refused\n", sum.Stored, sum.Refused)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: lines that were not read are not stored")
	case err != nil:
		return err
	case sum.Refused > 0:
		return fmt.Errorf("%d of %d lines were refused; the others are stored", sum.Refused, sum.Stored+sum.Refused)
	}
	return nil
}
