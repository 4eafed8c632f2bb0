//go:build unix

package offline

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// tryLock takes the lock of a queue, if nobody has it. It ends with the process, however that ends. The lock of a file
// that was removed meanwhile, by who had its lock, is none: another file may be in its place.
func tryLock(path string) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = lockAlone(int(f.Fd()))
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

// lockAlone waits for those who look (isHeld), which have the lock shared and for microseconds. EWOULDBLOCK: a process
// has it.
func lockAlone(fd int) error {
	for {
		err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if err := syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
			return err
		}
		if err := syscall.Flock(fd, syscall.LOCK_UN); err != nil {
			return err
		}
		runtime.Gosched()
	}
}

// isHeld reports whether a process has a lock. It makes no file.
func isHeld(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // ends the lock
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
