//go:build unix

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes this process the only one that serves a data directory. The lock ends with the process, however it ends.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("data directory %s is served by another process: stop it, or choose another directory: %w", dir, err)
	}
	return f, nil
}
