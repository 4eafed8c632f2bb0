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
	if c.JSON {
		version, commit := service.Version()
		return json.NewEncoder(a.out).Encode(map[string]string{"version": version, "commit": commit, "go": runtime.Version(),
			"platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintln(a.out, "spool", service.Build())
	return err
}
