package main

import "spool/internal/bench"

type benchFleetCmd struct {
	benchArgs
	Sessions   []int  `default:"200,5000,20000" placeholder:"N,…" help:"Sizes to compare: sessions at work in turn. The first is the measure (${default})."`
	Agents     int    `default:"1000" placeholder:"N" help:"Agents that publish an entry at a time and wait for its ack, beside the same with ten; 0: none (${default})."`
	Readers    int    `default:"1000" placeholder:"N" help:"Live readers, at 80 % of what all of them can follow; 0: none (${default})."`
	Seconds    int    `default:"5" placeholder:"N" help:"Seconds that each size publishes (${default})."`
	Rounds     int    `default:"3" placeholder:"R" help:"How often every size runs (${default})."`
	Batch      int    `default:"500" placeholder:"N" help:"Entries in one publish (${default})."`
	InARow     int    `default:"10" placeholder:"N" help:"Entries of a session before the next one has its turn (${default})."`
	HeadBytes  int    `placeholder:"N" help:"Bytes of heads that the persister keeps in memory; else as many as it does by itself."`
	CPUProfile string `type:"path" name:"cpuprofile" placeholder:"FILE" help:"Write a CPU profile of the first run of the last size."`
}

func (c *benchFleetCmd) Run(a *app) error {
	rep, err := bench.Fleet(a.ctx, bench.FleetConfig{
		Sessions: c.Sessions, Agents: orNone(c.Agents), Readers: orNone(c.Readers), Seconds: c.Seconds, Rounds: c.Rounds,
		Batch: c.Batch, Run: c.InARow, HeadBytes: c.HeadBytes, Dir: c.Dir,
		Profile: c.CPUProfile, Note: c.note(a),
	})
	return c.tell(a, rep, err)
}

// orNone is how a configuration says none of what it has a default for.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
