package main

import "spool/internal/bench"

type benchThreadsCmd struct {
	benchArgs
	Entries int `default:"100000" placeholder:"N" help:"Entries of the long thread (${default})."`
	Rounds  int `default:"5" placeholder:"R" help:"How often every reading runs; the medians count (${default})."`
	Nodes   int `placeholder:"N" help:"Instead: build a store of so many nodes, and read, check and repack it; 1000000 takes some minutes and 8 GB of disk."`
	Depth   int `default:"1000" placeholder:"N" help:"With --nodes: forks of forks (${default})."`
	Wide    int `default:"10000" placeholder:"N" help:"With --nodes: forks of one thread (${default})."`
}

func (c *benchThreadsCmd) Run(a *app) error {
	if c.Nodes != 0 {
		rep, err := bench.Store(a.ctx, bench.StoreConfig{Nodes: c.Nodes, Depth: c.Depth, Forks: c.Wide, Dir: c.Dir, Note: c.note(a)})
		return c.tell(a, rep, err)
	}
	rep, err := bench.Threads(a.ctx, bench.ThreadsConfig{Entries: c.Entries, Rounds: c.Rounds, Dir: c.Dir, Note: c.note(a)})
	return c.tell(a, rep, err)
}
