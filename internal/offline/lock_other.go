//go:build !unix

package offline

import "os"

// tryLock creates the lock file, which nobody may have made: this system has no lock that ends with the process, so a queue
// whose process died waits until its lock file is removed.
func tryLock(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if os.IsExist(err) {
		return nil, false, nil
	}
	return f, err == nil, err
}

// isHeld reports whether a process has a lock, or had it when it died.
func isHeld(path string) (bool, error) {
	_, err := os.Stat(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}
