package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"spool/internal/bench"
	"spool/internal/service"
)

// benchCmd measures on servers of its own; it needs no NATS system and touches none.
type benchCmd struct {
	GC        benchGCCmd        `cmd:"" name:"gc" help:"Collecting: marking, repacking, and what it costs whoever writes meanwhile."`
	Pipeline  benchPipelineCmd  `cmd:"" default:"withargs" help:"Publish to item and head (the default)."`
	Subscribe benchSubscribeCmd `cmd:"" help:"Reading live: 1,000 readers of two kinds, slow ones beside them, and catching up."`
	Threads   benchThreadsCmd   `cmd:"" help:"Reading threads: the tail, contexts, forks, verification."`
}

type benchPipelineCmd struct {
	Seconds    int    `default:"5" placeholder:"N" help:"Seconds that each part publishes (${default})."`
	Rounds     int    `default:"3" placeholder:"R" help:"How often every part runs; the medians count (${default})."`
	Entries    int64  `placeholder:"N" help:"Entries of each part at most; else as many as its time allows."`
	Batch      int    `default:"500" placeholder:"N" help:"Entries in one publish of Spool's publishers, over 50 sessions in turn: with 50 or fewer no two are of one session (${default})."`
	Sync       string `default:"both" enum:"always,default,both" help:"When the servers force data to disk: with every acked write, every two minutes as JetStream does, or measure both (${enum})."`
	Dir        string `placeholder:"DIR" type:"existingdir" help:"Where the servers keep their data while they run; it should be on the disk that counts."`
	InProcess  bool   `help:"Connect in process, without a socket, not over loopback TCP as other processes do; every part."`
	JSON       bool   `name:"json" help:"Print one JSON object."`
	Check      bool   `help:"Fail when a ratio is below its floor or a latency above its ceiling."`
	CPUProfile string `name:"cpuprofile" placeholder:"FILE" help:"Write a CPU profile of Spool's first run."`
}

func (c *benchPipelineCmd) Run(a *app) error {
	cfg := bench.Config{
		Seconds: c.Seconds, Rounds: c.Rounds, Entries: c.Entries, Batch: c.Batch, Sync: c.Sync, Dir: c.Dir, TCP: !c.InProcess, CPUProfile: c.CPUProfile,
	}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		cfg.Note = func(s string) { fmt.Fprintln(f, s) }
	}
	rep, err := bench.Run(a.ctx, cfg)
	if errors.Is(err, bench.ErrConfig) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(a.out).Encode(rep)
	} else {
		err = rep.Write(a.out)
	}
	if err != nil {
		return err
	}
	if missed := rep.Missed(); c.Check && len(missed) > 0 {
		return fmt.Errorf("bench: %s", strings.Join(missed, "; "))
	}
	return nil
}
