//go:build linux

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"spool/e2e/internal/proc"
	"spool/internal/must"
)

// namespace is a mount namespace of its own, which a process holds: what is mounted in there nobody else sees, and it goes with
// that process, whatever becomes of the test. The server runs in there.
type namespace struct {
	w       *world
	holder  *proc.Process
	nsenter string
	at      string // where the server's files are mounted
}

// isolate gives the world a mount namespace and skips the row where that is not to be had.
func (w *world) isolate(tools ...string) {
	w.t.Helper()
	if os.Geteuid() != 0 {
		skip(w.t, "mounts a filesystem, which needs root")
	}
	for _, tool := range append([]string{"unshare", "nsenter", "mount", "umount"}, tools...) {
		if _, err := exec.LookPath(tool); err != nil {
			skip(w.t, "needs "+tool+", which is not installed")
		}
	}
	unshare, _ := exec.LookPath("unshare")
	nsenter, _ := exec.LookPath("nsenter")
	if out, err := exec.Command(unshare, "-m", "true").CombinedOutput(); err != nil {
		skip(w.t, fmt.Sprintf("no mount namespace: %v: %s", err, strings.TrimSpace(string(out))))
	}
	ns := &namespace{w: w, nsenter: nsenter, at: filepath.Join(w.dir, "mnt")}
	must.Do(w.t, os.Mkdir(ns.at, 0o700))
	ns.holder = proc.Start(w.t, exec.Command(unshare, "-m", "--propagation", "private", "sh", "-c", "echo held; exec sleep 20000"))
	ns.holder.Await("held")
	w.inside, w.data = ns, filepath.Join(ns.at, "jetstream")
}

func (ns *namespace) do(name string, args ...string) error {
	all := append([]string{"-t", strconv.Itoa(ns.holder.Pid()), "-m", "--", name}, args...)
	if out, err := exec.Command(ns.nsenter, all...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// path is where a file of the namespace is to be found from outside.
func (ns *namespace) path(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", ns.holder.Pid(), name)
}

// disk is an ext4 filesystem in a file, whose power can be cut.
type disk struct {
	ns    *namespace
	image string
}

// format makes a disk of so many bytes and mounts it.
func (ns *namespace) format(size int64) *disk {
	t := ns.w.t
	t.Helper()
	d := &disk{ns: ns, image: filepath.Join(ns.w.dir, "disk.img")}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	must.Do(t, err)
	if out, err := exec.Command("mkfs.ext4", "-q", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if err := d.mount(); err != nil {
		skip(t, fmt.Sprintf("cannot mount a file: %v", err))
	}
	return d
}

func (d *disk) mount() error { return d.ns.do("mount", "-o", "loop", d.image, d.ns.at) }

// The ioctl that shuts an ext4 filesystem down at once, and how: what is not on the disk yet, the journal's own buffers
// included, never comes there.
const (
	extShutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
	noLogFlush  = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
)

// cut is the power cut; the server must be killed next, or it notices.
func (d *disk) cut() error {
	f, err := os.Open(d.ns.path(d.ns.at))
	if err != nil {
		return err
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), extShutdown, uintptr(unsafe.Pointer(&flags))); e != 0 {
		return fmt.Errorf("shut the filesystem down: %w", e)
	}
	return nil
}

// again is the power coming back: the journal is replayed and nothing of the old page cache is left.
func (d *disk) again() error { return errors.Join(d.ns.do("umount", d.ns.at), d.mount()) }
