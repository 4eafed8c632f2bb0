package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// homeMark is an empty file in the state folder of a home: which file it is tells homes apart.
const homeMark = "home"

// HomeName names a home, by its state folder: no other one has the name, on this machine or on one that has the same host name and the
// same directories, be it a copy of this one with all that is in it. A copy of the mark is another file, or has other times. Where the mark
// is lost or cannot be made, the home has another name than before, or that of its directory: whoever tells homes apart by it may take one
// for two, and must lose nothing by that.
func HomeName(state, host, home string) string {
	path := filepath.Join(state, homeMark)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.MkdirAll(state, 0o700)
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_ = f.Close()
		}
		info, err = os.Stat(path)
	}
	var mark Stat
	if err == nil {
		mark = statOf(info)
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not there: the rest says enough
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d %d", host, machine, home, mark.Inode, mark.Changed, mark.Modified))
	return fmt.Sprintf("%x", sum[:8])
}
