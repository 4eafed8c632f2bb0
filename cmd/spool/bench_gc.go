package main

import "spool/internal/bench"

type benchGCCmd struct {
	benchArgs
	Nodes   []int `default:"10000,100000,1000000" placeholder:"N,…" help:"Sizes of the stores that are marked (${default}). 10000000 takes about 2 GB of memory and a minute."`
	Packs   int   `default:"400" placeholder:"N" help:"Packs of the store that is repacked, of 200 KiB or so each (${default})."`
	Seconds int   `default:"5" placeholder:"N" help:"Seconds of load beside a collector that runs every second, and as long without one; 0: none (${default})."`
	Rounds  int   `default:"3" placeholder:"R" help:"How often both run; the medians count (${default})."`
	Rate    int   `default:"1000" placeholder:"N" help:"Entries a second of that load (${default})."`
}

func (c *benchGCCmd) Run(a *app) error {
	rep, err := bench.GC(a.ctx, bench.GCConfig{Nodes: c.Nodes, Packs: c.Packs, Seconds: orNone(c.Seconds), Rounds: c.Rounds,
		Rate: c.Rate, Dir: c.Dir, Note: c.note(a)})
	return c.tell(a, rep, err)
}
