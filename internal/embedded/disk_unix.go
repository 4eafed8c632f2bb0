//go:build unix

package embedded

import (
	"fmt"
	"syscall"
)

// Free is how many bytes this user may still write on the disk of the data directory.
func (s *Server) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", s.cfg.Dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
