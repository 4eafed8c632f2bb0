package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// storeFolder is where JetStream keeps its files in a data directory.
const storeFolder = "jetstream"

// StoreNote is a file of a data directory that says which store is in it.
const StoreNote = "store"

// ofCluster refuses what a server of a cluster stored: one that is alone leaves the streams of several copies aside, and would make new
// ones over them.
func ofCluster(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, storeFolder, "jetstream", "*", "_js_", "_meta_"))
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("%s holds what a NATS server of a cluster stored (%s), which one server cannot serve; nothing was written: "+
		"start the cluster, then spool backup there and spool restore into a new directory", dir, found[0])
}

// besides are the names that a data directory may have before JetStream's folder is in it: a start that did not come so
// far left them, the prompt history may be kept there, and a file system has its own.
var besides = []string{"lock", encryptedMark, StoreNote, "history.db", "lost+found"}

// ownDirectory refuses a directory that holds something else than a server's data: nothing is to be strewn into it. One
// that any version of Spool has served before has JetStream's folder; one that is not there yet, or empty, is taken.
// Hidden files are nobody's data.
func ownDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	foreign := ""
	for _, e := range entries {
		name := e.Name()
		if name == storeFolder && e.IsDir() {
			return nil
		}
		if foreign == "" && !strings.HasPrefix(name, ".") && !isBeside(name) {
			foreign = name
		}
	}
	if foreign == "" {
		return nil
	}
	return fmt.Errorf("%s is neither empty nor a data directory of Spool: it has %s, and nothing was written; "+
		"give a directory of its own, as %s", dir, foreign, filepath.Join(dir, "spool"))
}

func isBeside(name string) bool {
	for _, known := range besides {
		if name == known || strings.HasPrefix(name, known+"-") { // SQLite keeps files beside its own
			return true
		}
	}
	return false
}
