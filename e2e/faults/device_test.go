//go:build linux

package faults_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// device is the file that a disk is made of, as this process gives it (FUSE): so a disk fails as told.
type device struct {
	fd   int
	file *os.File // what is stored for good
	size int64
	done chan struct{}

	mu     sync.Mutex
	writes syscall.Errno    // of every write and flush; 0 = they succeed
	reads  syscall.Errno    // of every read
	lies   bool             // what is written is not stored, and is said to be
	cache  map[int64][]byte // sectors that are not stored
}

const sector = 512

// The requests of FUSE that a kernel makes of one file (linux/fuse.h, version 7.31).
const (
	fuseForget, fuseGetattr, fuseSetattr, fuseOpen, fuseRead, fuseWrite = 2, 3, 4, 14, 15, 16
	fuseStatfs, fuseRelease, fuseFsync, fuseFlush, fuseInit             = 17, 18, 20, 25, 26
	fuseInterrupt, fuseDestroy, fuseForgets                             = 36, 38, 42
	fuseHeader, fuseMost                                                = 40, 128 << 10
)

// serve mounts a file of its own over the disk's, in the namespace, and answers what is asked of it.
func (ns *namespace) serve(image string) (*device, error) {
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/fuse: %w", err)
	}
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	d := &device{fd: fd, file: file, size: info.Size(), done: make(chan struct{}), cache: map[int64][]byte{}}
	over := filepath.Join(ns.w.dir, "device")
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		return nil, err
	}
	dup, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "/dev/fuse")
	defer f.Close()
	mount := exec.Command(ns.nsenter, "-t", fmt.Sprint(ns.holder.Pid()), "-m", "--", "mount", "-i", "-t", "fuse", "-o",
		"fd=3,rootmode=100600,user_id=0,group_id=0", "spool-test", over)
	mount.ExtraFiles = []*os.File{f}
	if out, err := mount.CombinedOutput(); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("mount: %w: %s", err, out)
	}
	go d.run() // not before: nobody may read what is not mounted
	ns.w.t.Cleanup(func() {
		if ns.w.server != nil {
			ns.w.server.Kill()
		}
		d.fail(0, 0)
		_ = ns.do("umount", ns.at)
		if err := ns.do("umount", over); err != nil {
			_ = ns.do("umount", "-l", over)
		}
		<-d.done
		_ = file.Close()
	})
	return d, nil
}

func (d *device) fail(writes, reads syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes, d.reads = writes, reads
}

// lie has nothing stored from now on that is written.
func (d *device) lie() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = true
}

// forget is what a power cut does to a disk that lies; it tells the truth from then on.
func (d *device) forget() (sectors int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sectors = len(d.cache)
	d.lies, d.cache = false, map[int64][]byte{}
	return sectors
}

func (d *device) run() {
	defer close(d.done)
	buf := make([]byte, fuseMost+4096)
	for {
		n, err := syscall.Read(d.fd, buf)
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EAGAIN):
			continue
		case err != nil || n < fuseHeader: // it is mounted no more
			_ = syscall.Close(d.fd)
			return
		}
		op, id := binary.LittleEndian.Uint32(buf[4:]), binary.LittleEndian.Uint64(buf[8:])
		if op == fuseForget || op == fuseForgets || op == fuseInterrupt {
			continue
		}
		body, failed := d.answer(op, buf[fuseHeader:n])
		out := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
		out = binary.LittleEndian.AppendUint32(out, uint32(-int32(failed)))
		out = append(binary.LittleEndian.AppendUint64(out, id), body...)
		_, _ = syscall.Write(d.fd, out)
	}
}

// answer is what the kernel is given for a request.
func (d *device) answer(op uint32, in []byte) ([]byte, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	le := binary.LittleEndian
	switch op {
	case fuseInit:
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[8:], le.Uint32(in[8:])) // read ahead
		le.PutUint16(out[16:], 12)
		le.PutUint16(out[18:], 9)
		le.PutUint32(out[20:], fuseMost)
		le.PutUint32(out[24:], 1)
		return out, 0
	case fuseGetattr, fuseSetattr:
		out := make([]byte, 104)
		le.PutUint64(out[16:], 1)
		le.PutUint64(out[24:], uint64(d.size))
		le.PutUint64(out[32:], uint64(d.size/sector))
		le.PutUint32(out[76:], syscall.S_IFREG|0o600)
		le.PutUint32(out[80:], 1)
		le.PutUint32(out[96:], 4096)
		return out, 0
	case fuseOpen:
		out := make([]byte, 16)
		le.PutUint32(out[8:], 1) // nothing of it in the kernel's memory
		return out, 0
	case fuseRead:
		return d.read(int64(le.Uint64(in[8:])), int64(le.Uint32(in[16:])))
	case fuseWrite:
		at, data := int64(le.Uint64(in[8:])), in[40:40+le.Uint32(in[16:])]
		return le.AppendUint64(nil, uint64(len(data))), d.write(at, data)
	case fuseFsync:
		return nil, d.writes
	case fuseStatfs:
		return make([]byte, 80), 0
	case fuseFlush, fuseRelease, fuseDestroy:
		return nil, 0
	}
	return nil, syscall.ENOSYS
}

func (d *device) read(at, n int64) ([]byte, syscall.Errno) {
	if d.reads != 0 {
		return nil, d.reads
	}
	out := make([]byte, max(min(n, d.size-at), 0))
	if _, err := d.file.ReadAt(out, at); err != nil && len(out) > 0 {
		return nil, syscall.EIO
	}
	for i := int64(0); i+sector <= int64(len(out)); i += sector {
		if b := d.cache[at+i]; b != nil {
			copy(out[i:], b)
		}
	}
	return out, 0
}

func (d *device) write(at int64, data []byte) syscall.Errno {
	switch {
	case d.writes != 0:
		return d.writes
	case !d.lies:
		if _, err := d.file.WriteAt(data, at); err != nil {
			return syscall.EIO
		}
		return 0
	}
	for i := 0; i+sector <= len(data); i += sector {
		d.cache[at+int64(i)] = append([]byte(nil), data[i:i+sector]...)
	}
	return 0
}
