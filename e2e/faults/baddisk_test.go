//go:build linux

package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"spool/internal/faulttest"
	"spool/internal/must"
)

// onDevice puts the server's files on an ext4 filesystem on a device that fails as told.
func (w *world) onDevice() (*device, *disk) {
	w.t.Helper()
	w.isolate("mkfs.ext4")
	disk := w.inside.format(512 << 20)
	must.Do(w.t, w.inside.do("umount", w.inside.at))
	dev, err := w.inside.serve(disk.image)
	if err != nil {
		skip(w.t, fmt.Sprintf("no device of its own: %v", err))
	}
	disk.image = filepath.Join(w.dir, "device")
	if err := disk.mount(); err != nil {
		skip(w.t, fmt.Sprintf("cannot mount a device of its own: %v", err))
	}
	return dev, disk
}

// TestDiskFails has the disk of the server fail under load: its writes; its reads, behind a start; its filesystem,
// which goes read-only as ext4 does on an error of its own. Nothing is acked that is not there afterwards, all who
// look are told, gc deletes nothing, and with the disk mended and the server started again everything goes on.
func TestDiskFails(t *testing.T) {
	for name, fault := range map[string]func(*world, *device, *disk) error{
		"writes": func(_ *world, dev *device, _ *disk) error { dev.fail(syscall.EIO, 0); return nil },
		"read-only": func(w *world, _ *device, d *disk) error {
			return d.breakFilesystem(w)
		},
		"reads": func(w *world, dev *device, d *disk) error {
			w.server.Kill()
			if err := d.again(); err != nil { // nothing of the files is in memory
				return err
			}
			w.serve()
			dev.fail(0, syscall.EIO)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			row(t)
			if !long && name != "reads" {
				skip(t, "what it looks at is not promised in every case: SPOOL_FAULTS=long")
			}
			w := newWorld(t)
			dev, disk := w.onDevice()
			w.serve()
			persister := w.fleet()
			load := w.publish(faulttest.NewLedger(small()))
			load.acks(200)
			must.Do(t, fault(w, dev, disk))
			if name != "reads" { // a server that writes on does not need what it cannot read
				w.eventually("readiness is red", func() error {
					if w.ready() == nil {
						return fmt.Errorf("ready, and the disk fails")
					}
					return nil
				})
				t.Logf("ready: %v", w.ready())
				if out, code := w.run("spool", "doctor"); code != 1 {
					t.Errorf("doctor: exit code %d\n%s", code, out)
				}
			} else {
				lasts(3 * time.Second)
				out, code := w.run("spool", "fsck")
				t.Logf("fsck: exit code %d\n%.600s", code, out)
			}
			out, code := w.run("gc", "-once", "-allow", "share")
			if code != 1 && name != "reads" {
				t.Errorf("gc: exit code %d, want 1\n%s", code, out)
			}
			w.server.Kill()
			dev.fail(0, 0)
			must.Do(t, disk.again())
			w.serve()
			load.acks(50)
			load.stop()
			w.mend()
			load.check()
			if persister.Ended() {
				t.Error("the persister ended")
			}
		})
	}
}

// mend repairs what the server took back behind its ack: items, which are derived, and nothing else.
func (w *world) mend() {
	w.t.Helper()
	must.Do(w.t, faulttest.Settle(w.t.Context(), w.dial()))
	out, code := w.run("spool", "fsck", "--items")
	for line := range strings.Lines(out) {
		told := strings.HasPrefix(line, "checked") || strings.Contains(line, "finding")
		if !told && !strings.Contains(line, "SPOOL_ITEMS") {
			w.t.Errorf("fsck: %s", line)
		}
	}
	if code != 0 {
		w.t.Logf("fsck: exit code %d\n%.600s", code, out)
		w.run("spool", "fsck", "--items", "--repair", "--yes")
		w.must("spool", "fsck", "--items")
	}
}

// breakFilesystem has ext4 find an error in itself: it goes read-only, as by default on most systems.
func (d *disk) breakFilesystem(w *world) error {
	if err := w.inside.do("mount", "-o", "remount,errors=remount-ro", w.inside.at); err != nil {
		return err
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", w.inside.holder.Pid()))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == w.inside.at {
			return os.WriteFile("/sys/fs/ext4/"+filepath.Base(f[0])+"/trigger_fs_error", []byte("1"), 0)
		}
	}
	return fmt.Errorf("%s is not mounted", w.inside.at)
}

// TestDiskLies has the disk say that it stores what it forgets at the next power cut. What was stored before is
// whole, nothing is made up, and everything goes on; what was acked since is lost, and nobody can tell.
func TestDiskLies(t *testing.T) {
	row(t)
	w := newWorld(t)
	dev, disk := w.onDevice()
	w.serve()
	persister := w.fleet()
	l := faulttest.NewLedger(small())
	load := w.publish(l)
	load.acks(200)
	load.stop()
	w.check(l)
	whole := w.items(l)
	must.Do(t, w.inside.do("sync", "-f", w.inside.at))
	dev.lie()
	other := small()
	other.Name = "lost"
	lost := w.publish(faulttest.NewLedger(other))
	lost.acks(100)
	lost.stop()
	persister.Kill()
	w.server.Signal(syscall.SIGSTOP)
	w.eventually("the server stands still", func() error { return stopped(w.server) })
	must.Do(t, disk.cut())
	w.server.Kill()
	must.Do(t, w.inside.do("umount", w.inside.at))
	t.Logf("%d sectors are forgotten", dev.forget())
	must.Do(t, disk.mount())
	w.serve()
	w.persister()
	if w.compare(l, whole) {
		t.Error("something is missing that was stored before")
	}
	w.must("spool", "fsck", "--items")
	load = w.publish(l)
	load.acks(50)
	load.check()
}
