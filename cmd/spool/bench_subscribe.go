package main

import "spool/internal/bench"

type benchSubscribeCmd struct {
	benchArgs
	Readers int `default:"1000" placeholder:"N" help:"Readers of each kind, NATS subscriptions and HTTP event streams (${default})."`
	Slow    int `default:"100" placeholder:"N" help:"Readers that stop reading, beside them (${default})."`
	Seconds int `default:"5" placeholder:"N" help:"Seconds of each load (${default})."`
	Behind  int `default:"1000000" placeholder:"N" help:"Items that a reader catches up with (${default}); a million take about 1 GB of disk."`
}

func (c *benchSubscribeCmd) Run(a *app) error {
	rep, err := bench.Subscribe(a.ctx, bench.SubscribeConfig{
		Readers: c.Readers, Slow: c.Slow, Seconds: c.Seconds, Behind: c.Behind, Dir: c.Dir, Note: c.note(a),
	})
	return c.tell(a, rep, err)
}
