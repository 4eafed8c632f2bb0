//go:build !unix

package embedded

import (
	"os"
	"path/filepath"
)

// lock opens the lock file; this system has no lock that ends with the process, so two servers on one directory are the
// operator's to avoid.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
