//go:build unix

package offline

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of a queue, if nobody has it. It ends with the process, however that ends. The lock of a file
// that was removed meanwhile, by who had its lock, is none: another file may be in its place.
func tryLock(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		ours, e1 := f.Stat()
		if there, e2 := os.Stat(path); e1 == nil && e2 == nil && os.SameFile(ours, there) {
			return f, true, nil
		} else if err = e1; !errors.Is(e2, os.ErrNotExist) {
			err = errors.Join(e1, e2)
		}
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, err
}
