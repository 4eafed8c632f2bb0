package watch

import (
	"io"
	"io/fs"
	"os"
)

// Disk is every file of the machine under the name that the operating system gives it, but for the file of a change:
// that ends where the change does.
type Disk struct{ Change }

// Open implements fs.FS.
func (d Disk) Open(name string) (fs.File, error) {
	f, err := os.Open(name)
	if err != nil || name != d.Path {
		return f, err
	}
	return &beginningOf{f, io.LimitReader(f, d.Until), d.Until}, nil
}

// Stat implements fs.StatFS.
func (d Disk) Stat(name string) (fs.FileInfo, error) {
	info, err := os.Stat(name)
	if err != nil || name != d.Path {
		return info, err
	}
	return cut{info, d.Until}, nil
}

// ReadDir implements fs.ReadDirFS.
func (Disk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

type beginningOf struct {
	*os.File
	r     io.Reader
	until int64
}

func (f *beginningOf) Read(p []byte) (int, error) { return f.r.Read(p) }

func (f *beginningOf) Stat() (fs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return cut{info, f.until}, nil
}

type cut struct {
	fs.FileInfo
	until int64
}

func (c cut) Size() int64 { return min(c.FileInfo.Size(), c.until) }
