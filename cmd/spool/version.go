package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"spool/internal/service"
)

type versionCmd struct {
	JSON bool `help:"As one line of JSON."`
}

func (c *versionCmd) Run(a *app) error {
	version, commit := service.Version()
	if c.JSON {
		return json.NewEncoder(a.out).Encode(map[string]string{"version": version, "commit": commit, "go": runtime.Version(),
			"platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	if commit != "" {
		commit = " " + commit
	}
	_, err := fmt.Fprintf(a.out, "spool %s%s %s %s/%s\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
