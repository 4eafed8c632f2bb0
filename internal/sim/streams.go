package sim

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/memjs"
	"spool/internal/natsio"
)

// limits are those of a program's streams.
func (p Program) limits() natsio.Limits {
	return natsio.Limits{EventsBytes: 1 << 30, ItemsBytes: 1 << 30}
}

// layouts are the streams and consumers that a setup makes, by their limits. A schedule begins with a copy: to make
// them anew would take a tenth of its time.
var layouts = map[string]memjs.Layout{}

var errNoLayout = errors.New("nobody made the streams: call MakeStreams before the program's bubble")

func layoutOf(p Program) (memjs.Layout, error) {
	l, made := layouts[fmt.Sprint(p.limits())]
	if !made {
		return l, errNoLayout
	}
	return l, nil
}

// HasStreams reports whether MakeStreams has made the streams of a program.
func HasStreams(p Program) bool {
	_, made := layouts[fmt.Sprint(p.limits())]
	return made
}

// MakeStreams sets up a server for a program, and keeps its streams for all programs of the same limits. It must be
// called in a bubble of its own: what happens in the program's bubble must not depend on which program came first.
func MakeStreams(p Program) error {
	forgetEarlier(p.Seed)
	srv := memjs.New(memjs.Config{})
	defer srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), restWithin)
	defer cancel()
	conn, err := natsio.Dial(ctx, natsio.Config{InProcess: srv})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Ensure(ctx, p.limits()); err != nil {
		return err
	}
	layouts[fmt.Sprint(p.limits())], err = srv.Layout()
	return err
}
