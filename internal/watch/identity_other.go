//go:build !linux && !darwin

package watch

import "os"

// identity is not told here: the size and the time of modification are what tells a file from another one.
func identity(os.FileInfo) (device, inode uint64, changed int64) { return 0, 0, 0 }
