package watch

import (
	"os"
	"syscall"
)

// identity is what tells a file from another one that took its name, and when anything of it changed, in Unix
// nanoseconds.
func identity(info os.FileInfo) (device, inode uint64, changed int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 0
	}
	return uint64(s.Dev), s.Ino, s.Ctim.Nano()
}
