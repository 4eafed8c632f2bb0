package service

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// What the linker is told, by -X, where there is no repository to build from.
var version, commit string

// Version is what this program was built from: the version of the module, "devel" where there is none, and the commit, where
// it is known.
func Version() (v, revision string) {
	v, revision = version, commit
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return cmp.Or(v, "devel"), revision
	}
	if m := info.Main.Version; m != "(devel)" {
		v = cmp.Or(v, m)
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = cmp.Or(revision, s.Value)
		}
	}
	return cmp.Or(v, "devel"), revision
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
