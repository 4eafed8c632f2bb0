package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spool/internal/text"
)

// Pipe runs Lines for a person: it names each refused line on w, several with one reason once, and then says what was
// stored. It is an error when a line was refused.
func Pipe(ctx context.Context, r io.Reader, out Publisher, cfg Config, w io.Writer) error {
	cfg.Results = func(rs []Result, _ error) {
		for len(rs) > 0 {
			first, n := rs[0], 1
			for n < len(rs) && rs[n].OK == first.OK && rs[n].Error == first.Error {
				n++
			}
			switch last := rs[n-1]; {
			case first.OK:
			case n == 1:
				fmt.Fprintf(w, "line %d: %s\n", first.Line, first.Error)
			default:
				fmt.Fprintf(w, "lines %d to %d, %d of them: %s\n", first.Line, last.Line, n, first.Error)
			}
			rs = rs[n:]
		}
	}
	sum, err := Lines(ctx, r, out, cfg)
	fmt.Fprintf(w, "%d stored, %d refused\n", sum.Stored, sum.Refused)
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: lines that were not read are not stored")
	case err != nil:
		return err
	case sum.Refused > 0 && sum.Stored == 0:
		return text.Errorf("nothing is stored: %d refused lines", sum.Refused)
	case sum.Refused > 0:
		return fmt.Errorf("%d of %d lines were refused; the others are stored", sum.Refused, sum.Stored+sum.Refused)
	}
	return nil
}
