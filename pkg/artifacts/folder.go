package artifacts

import (
	"context"
	"io"
	"io/fs"
	"strings"
)

// DirName is the name under which a record is listed in its session's folder: an agent's output under its file name, all
// else under one that begins with its number, so that artifact://<seq> finds it whatever its file is called.
func (r Record) DirName() string {
	if r.Writer == FromAgent || r.Seq == "" || strings.HasPrefix(r.Filename, string(r.Seq)+".") {
		return r.Filename
	}
	return string(r.Seq) + "." + r.Filename
}

// NewFolder shows the records of a root session as a Dir. Open reads the bytes of one of them.
func NewFolder(records []Record, open func(ctx context.Context, r Record) (io.ReadCloser, int64, error)) Dir {
	f := recordFolder{make(map[string]Record, len(records)), open}
	for _, r := range records {
		f.records[r.DirName()] = r
	}
	return f
}

type recordFolder struct {
	records map[string]Record
	open    func(context.Context, Record) (io.ReadCloser, int64, error)
}

func (f recordFolder) Names(context.Context) ([]string, error) {
	names := make([]string, 0, len(f.records))
	for name := range f.records {
		names = append(names, name)
	}
	return names, nil
}

func (f recordFolder) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	r, ok := f.records[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return f.open(ctx, r)
}
