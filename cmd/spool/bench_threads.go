package main

import "spool/internal/bench"

type benchThreadsCmd struct {
	benchArgs
	Entries int `default:"100000" placeholder:"N" help:"Entries of the long thread (${default})."`
	Forks   int `default:"100" placeholder:"N" help:"Forks (${default})."`
	Rounds  int `default:"5" placeholder:"R" help:"How often every reading runs; the medians count (${default})."`
	Nodes   int `placeholder:"N" help:"Instead: build a store of so many nodes, and read, check and repack it; 1000000 takes some minutes and 8 GB of disk."`
	Depth   int `default:"1000" placeholder:"N" help:"With --nodes: forks of forks (${default})."`
}

func (c *benchThreadsCmd) Run(a *app) error {
	if c.Nodes != 0 {
		rep, err := bench.Store(a.ctx, bench.StoreConfig{Nodes: c.Nodes, Depth: c.Depth, Dir: c.Dir, Note: c.note(a)})
		return c.tell(a, rep, err)
	}
	rep, err := bench.Threads(a.ctx, bench.ThreadsConfig{Entries: c.Entries, Forks: c.Forks, Rounds: c.Rounds, Dir: c.Dir,
		Note: c.note(a)})
	return c.tell(a, rep, err)
}
