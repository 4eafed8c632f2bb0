package service

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Version is what this program was built from: the version of the module, "devel" where there is none, and the commit, where
// it is known.
func Version() (version, commit string) {
	version = "devel"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}

// Build is Version in words, with what runs it: "v1.2.0 4e1f… go1.26 linux/amd64".
func Build() string {
	version, commit := Version()
	return strings.Join(strings.Fields(version+" "+commit+" "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH), " ")
}

// semantic is the version as NATS services want it: without a v, and never without numbers.
func semantic() string {
	version, _ := Version()
	if m := semver.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return "0.0.0-devel"
}

var semver = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)`)
