package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"spool/internal/bench"
	"spool/internal/service"
)

// benchCmd measures on servers of its own; it needs no NATS system and touches none.
type benchCmd struct {
	Fleet     benchFleetCmd     `cmd:"" help:"What an entry costs by the number of sessions at work, of agents that publish one at a time, and what live readers wait for."`
	GC        benchGCCmd        `cmd:"" name:"gc" help:"Collecting: marking, repacking, and what it costs whoever writes meanwhile."`
	Pipeline  benchPipelineCmd  `cmd:"" default:"withargs" help:"Publish to item and head (the default)."`
	Soak      benchSoakCmd      `cmd:"" help:"An hour of entries, each when it is due; kill -9 of the server in the middle; then every entry is read and compared."`
	Subscribe benchSubscribeCmd `cmd:"" help:"Reading live: 1,000 readers of two kinds, slow ones beside them, and catching up."`
	Threads   benchThreadsCmd   `cmd:"" help:"Reading threads: the tail and whole contexts; with --nodes, a large store."`
}

// benchArgs are those of every bench.
type benchArgs struct {
	Dir   string `placeholder:"DIR" type:"existingdir" help:"Where the servers keep their data while they run; it should be on the disk that counts."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
	Check bool   `help:"Fail when a figure is below its floor or above its ceiling."`
}

// note tells a person how far a bench is.
func (benchArgs) note(a *app) func(string) {
	if service.IsTerminal(a.err) {
		return func(s string) { fmt.Fprintln(a.err, s) }
	}
	return nil
}

type benchReport interface {
	Write(io.Writer) error
	Missed() []string // what is below its floor
}

// tell shows what a bench found.
func (b benchArgs) tell(a *app, rep benchReport, err error) error {
	if errors.Is(err, bench.ErrConfig) {
		return service.UsageError{Err: err}
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if b.JSON {
		err = json.NewEncoder(a.out).Encode(bench.Shaped(rep))
	} else {
		err = rep.Write(a.out)
	}
	if missed := rep.Missed(); err == nil && b.Check && len(missed) > 0 {
		err = fmt.Errorf("bench: %s", strings.Join(missed, "; "))
	}
	return err
}

type benchPipelineCmd struct {
	benchArgs
	Seconds    int    `default:"5" placeholder:"N" help:"Seconds that each part publishes (${default})."`
	Rounds     int    `default:"3" placeholder:"R" help:"How often every part runs; the medians count (${default})."`
	Entries    int64  `placeholder:"N" help:"Entries of each part at most; else as many as its time allows."`
	Batch      int    `default:"500" placeholder:"N" help:"Entries in one publish of Spool's publishers, over 50 sessions in turn: with 50 or fewer no two are of one session (${default})."`
	Sync       string `default:"both" enum:"always,default,both" help:"When the servers force data to disk: with every acked write, every two minutes as JetStream does, or measure both (${enum})."`
	InProcess  bool   `help:"Connect in process, without a socket, not over loopback TCP as other processes do; every part."`
	CPUProfile string `type:"path" name:"cpuprofile" placeholder:"FILE" help:"Write a CPU profile of Spool's first run."`
}

func (c *benchPipelineCmd) Run(a *app) error {
	rep, err := bench.Run(a.ctx, bench.Config{
		Seconds: c.Seconds, Rounds: c.Rounds, Entries: c.Entries, Batch: c.Batch, Sync: c.Sync, Dir: c.Dir, TCP: !c.InProcess,
		CPUProfile: c.CPUProfile, Note: c.note(a),
	})
	return c.tell(a, rep, err)
}
