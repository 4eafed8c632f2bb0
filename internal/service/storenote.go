package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"spool/internal/embedded"
)

// A data directory says which store is in it, so that the next start finds out whether it is there still before anything is written:
// a server that does not find its streams looks like a new one. Each tenant has a store, under the inbox of its admin.

// knownStores reads what a data directory says, by inbox; the inbox of a server without accounts is empty.
func knownStores(dir string) (map[string]string, error) {
	path := filepath.Join(dir, embedded.StoreNote)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, fmt.Errorf("%s does not say which store is in its directory: %w; if you know that it is the right one, remove that file",
			path, err)
	}
	return known, nil
}

// noteStore writes what knownStores reads, where it says something else. A crash before leaves the directory without a note, which the next
// start writes.
func noteStore(dir, inbox, store string) error {
	known, err := knownStores(dir)
	if err != nil || known[inbox] == store {
		return err
	}
	known[inbox] = store
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+embedded.StoreNote+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, embedded.StoreNote))
}
