//go:build !unix

package embedded

import "errors"

// Free is how many bytes this user may still write on the disk of the data directory.
func (s *Server) Free() (int64, error) {
	return 0, errors.New("free space is not known on this system")
}
