package interchange

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	_ "modernc.org/sqlite" // the driver of sql.Open
)

// indexed is the file below a directory of Codex that its index names for a thread, "" where it names none. Codex believes the index before
// the file that it finds, and would go on in another home's where the directory was copied: such a name wraps ErrThere. The index is read
// as its file is, without what its program has not written there yet, and without a lock: nothing of it changes.
func indexed(dir *os.Root, at, thread string) (name string, err error) {
	all, err := fs.Glob(dir.FS(), "state_*.sqlite")
	if err != nil || len(all) == 0 {
		return "", err
	}
	newest := slices.MaxFunc(all, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	index := filepath.Join(at, newest)
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: index, RawQuery: "mode=ro&immutable=1"}).String())
	if err != nil {
		return "", fmt.Errorf("%s: %w", index, err)
	}
	defer func() { _ = db.Close() }()
	var file string
	err = db.QueryRow("SELECT rollout_path FROM threads WHERE id = ?", thread).Scan(&file)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s: which file Codex has of the session %s: %w", index, thread, err)
	}
	// Where a link leads to the directory, the index has its name before or behind the link.
	for _, of := range [][2]string{{at, file}, {behindLinks(at), file}, {behindLinks(at), behindLinks(file)}} {
		rel, err := filepath.Rel(of[0], of[1])
		if err == nil && filepath.IsLocal(rel) && filepath.Ext(rel) == sessionExt {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", fmt.Errorf("%s: %w: it says that the session %s is in %s, where Codex would go on with it", index, ErrThere, thread, file)
}

// behindLinks is a name without links, as far as it is there.
func behindLinks(name string) string {
	there, err := filepath.EvalSymlinks(name)
	if folder := filepath.Dir(name); err != nil && folder != name {
		return filepath.Join(behindLinks(folder), filepath.Base(name))
	}
	return there
}
