package interchange

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// projectRoot is the file in which Gemini CLI says whose a folder of sessions is.
const projectRoot = ".project_root"

// claimed is a file's name in the folder that Gemini CLI has, or would take, for a working directory: the one that says so, or the first
// after its name that is nobody's. Where the directory is not known the name stays.
func claimed(dir *os.Root, file, cwd string) (string, error) {
	if cwd == "" {
		return file, nil
	}
	in := func(folder string) string { return path.Join("tmp", folder, "chats", path.Base(file)) }
	owner := func(folder string) string {
		said, _ := fs.ReadFile(dir.FS(), path.Join("tmp", folder, projectRoot)) // one that cannot be read is nobody's
		return string(bytes.TrimSpace(said))
	}
	folders, err := fs.Glob(dir.FS(), "tmp/*/"+projectRoot)
	if err != nil {
		return "", err
	}
	for _, f := range folders {
		if folder := path.Base(path.Dir(f)); owner(folder) == cwd {
			return in(folder), nil
		}
	}
	name := slug(path.Base(cwd))
	for folder, n := name, 1; ; n++ {
		if owner(folder) == "" {
			return in(folder), nil
		}
		folder = fmt.Sprintf("%s-%d", name, n)
	}
}
