package sim

import (
	"context"
	"errors"
	"fmt"

	"spool/internal/memjs"
	"spool/internal/natsio"
)

// setup says what the streams and consumers of a program's server follow from.
func (p Program) setup() string { return fmt.Sprint(p.limits(), p.Payload) }

// layouts are the streams and consumers that a setup makes. A schedule begins with a copy: to make them anew would
// take a tenth of its time.
var layouts = map[string]memjs.Layout{}

var errNoLayout = errors.New("nobody made the streams: call MakeStreams before the program's bubble")

func layoutOf(p Program) (memjs.Layout, error) {
	l, made := layouts[p.setup()]
	if !made {
		return l, errNoLayout
	}
	return l, nil
}

// HasStreams reports whether MakeStreams has made the streams of a program.
func HasStreams(p Program) bool {
	_, made := layouts[p.setup()]
	return made
}

// MakeStreams sets up a server for a program, and keeps its streams for all programs of the same setup. It must be
// called in a bubble of its own: what happens in the program's bubble must not depend on which program came first.
func MakeStreams(p Program) error {
	forgetEarlier(p.Seed)
	srv := memjs.New(memjs.Config{MaxPayload: p.Payload})
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
	layouts[p.setup()], err = srv.Layout()
	return err
}
