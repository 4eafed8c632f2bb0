package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
)

func init() { scriptCommands["tty"] = tty }

// tty runs a command whose output is a terminal of 80 columns, and writes what the terminal was given into a file:
// tty FILE COMMAND…
func tty(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: tty FILE COMMAND…")
	}
	screen, end, err := terminal(80, 24)
	ts.Check(err)
	defer screen.Close()
	cmd := exec.Command(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0]+"/"+args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "NATS_URL", "PAGER", "NO_COLOR", "TERM"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = end, &out
	ts.Check(cmd.Start())
	_ = end.Close()
	shown, _ := io.ReadAll(screen) // ends with EIO when nobody has the terminal open
	err = cmd.Wait()
	if (err != nil) != neg {
		ts.Fatalf("tty %v: %v\n%s", args, err, out.Bytes())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.ReplaceAll(shown, []byte("\r\n"), []byte("\n")), 0o644))
}

// terminal makes one: what is written to end comes out of screen.
func terminal(columns, rows uint16) (screen, end *os.File, err error) {
	if screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	call := func(request uintptr, arg unsafe.Pointer) error {
		if _, _, no := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(arg)); no != 0 {
			return fmt.Errorf("ioctl %#x of a terminal: %w", request, no)
		}
		return nil
	}
	var locked, number int32
	size := [4]uint16{rows, columns}
	for _, step := range []struct {
		request uintptr
		arg     unsafe.Pointer
		// TIOCSPTLCK, TIOCGPTN
	}{{0x40045431, unsafe.Pointer(&locked)}, {0x80045430, unsafe.Pointer(&number)}, {syscall.TIOCSWINSZ, unsafe.Pointer(&size)}} {
		if err := call(step.request, step.arg); err != nil {
			return nil, nil, err
		}
	}
	end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return screen, end, err
}
