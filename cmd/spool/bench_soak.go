package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"spool/internal/bench"
)

type benchSoakCmd struct {
	benchArgs
	For      time.Duration `default:"1h" placeholder:"DURATION" help:"How long entries are published; in the middle the server is killed (${default}). An hour at 500 a second takes about 12 GB of disk."`
	Rate     float64       `default:"500" placeholder:"N" help:"Entries a second, one at a time, each when it is due (${default})."`
	Sessions int           `default:"200" placeholder:"N" help:"Sessions that they are of (${default})."`
	Sync     string        `default:"always" placeholder:"always|DURATION" help:"When the server forces data to disk, as of spool up (${default})."`
}

func (c *benchSoakCmd) Run(a *app) error {
	if _, err := parseSync(c.Sync); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	rep, err := bench.Soak(a.ctx, bench.SoakConfig{
		For: c.For, Rate: c.Rate, Sessions: c.Sessions, Dir: c.Dir, Note: c.note(a),
		Up: func(dir, listen string) *exec.Cmd {
			cmd := exec.Command(self, "up", "--data", dir, "--listen", listen, "--http", "127.0.0.1:0", "--sync", c.Sync)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
				return strings.HasPrefix(v, "NATS_") || strings.HasPrefix(v, "SPOOL_")
			})
			return cmd
		},
	})
	return c.tell(a, rep, err)
}
