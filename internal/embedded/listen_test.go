package embedded_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"spool/internal/embedded"
	"spool/internal/must"
)

// An address that another process has is said to be that, at once, and nothing is left behind.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	other := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer other.Close()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: other.Addr().String()})
	if err == nil {
		s.Stop()
	}
	if !errors.Is(err, embedded.ErrStart) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("start at an address in use = %v, want ErrStart and why", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there (%v)", err)
	}
}
