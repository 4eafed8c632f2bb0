package artifacts

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	toolExt  = ".log"
	agentExt = ".md"

	maxTool     = 64  // bytes of a tool's name in a file name
	maxFilename = 255 // bytes
)

// ToolFile is the default file name of a tool's output: <seq>.<tool>.log (SPEC A1). In the tool's name each run of
// characters other than A-Z a-z 0-9 _ - becomes "_", and 64 characters are kept; a tool without a name is "tool".
func ToolFile(n Seq, tool string) string {
	var b strings.Builder
	bad := false
	for _, r := range tool {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
		switch {
		case ok:
			b.WriteRune(r)
		case !bad:
			b.WriteByte('_')
		}
		bad = !ok
	}
	name := cmp.Or(b.String(), "tool")
	return string(n) + "." + name[:min(len(name), maxTool)] + toolExt
}

// AgentFile is the file name of an agent's output: <id>.md. An id may hold anything that was requested; a slash in it
// becomes "_", which cannot make two ids one, because indices differ.
func AgentFile(id string) string { return strings.ReplaceAll(id, "/", "_") + agentExt }

// CheckFilename refuses what is not one path segment. A file name is for people and downloads, and identifies nothing.
func CheckFilename(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: artifact filename must be a single path segment, got %q", ErrRecord, name)
	case len(name) > maxFilename:
		return fmt.Errorf("%w: artifact filename %.32q… is %d bytes long; use at most %d", ErrRecord, name, len(name), maxFilename)
	}
	return nil
}
