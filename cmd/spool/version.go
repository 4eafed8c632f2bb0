package main

import (
	"fmt"
	"runtime/debug"
)

type versionCmd struct{}

func (c *versionCmd) Run(a *app) error {
	version, commit := "devel", ""
	info, ok := debug.ReadBuildInfo()
	if ok {
		if v := info.Main.Version; v != "" && v != "(devel)" {
			version = v
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(a.out, "spool %s%s %s\n", version, commit, info.GoVersion)
	return err
}
