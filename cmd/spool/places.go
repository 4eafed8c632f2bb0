package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spool/internal/interchange"
	"spool/internal/service"
	"spool/internal/transcript"
	"spool/internal/watch"
)

// directoryOf is where a harness keeps its transcripts on this machine.
func directoryOf(h interchange.Harness) (string, error) {
	for _, env := range h.Env {
		name, below, _ := strings.Cut(env, "/")
		if dir := os.Getenv(name); filepath.IsAbs(dir) {
			return filepath.Join(dir, below), nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", service.UsageError{Err: fmt.Errorf("no home directory to look for transcripts in: name paths: %w", err)}
	}
	return filepath.Join(home, h.Home), nil
}

// importing is how files of this machine are imported.
func importing(dialect, user string, inbox transcript.Inbox) transcript.Config {
	cfg := transcript.Config{Dialect: dialect, User: user, Host: hostname(), Inbox: inbox}
	cfg.Home, _ = os.UserHomeDir()
	if state, err := service.StateDir(); err == nil {
		cfg.By = watch.HomeName(state, cfg.Host, cfg.Home)
	}
	return cfg
}

// knownPlaces are the directories of all harnesses, whether they are there or not.
func knownPlaces() (dirs []string, err error) {
	for _, h := range interchange.Harnesses {
		dir, err := directoryOf(h)
		if err != nil {
			return nil, err
		}
		for _, below := range slices.Concat(h.Folders, h.Beside) {
			if !slices.Contains(dirs, dir) { // else all that is below it is looked through
				dirs = append(dirs, filepath.Join(dir, below))
			}
		}
	}
	return dirs, nil
}

// placesThere are the known places that are there.
func placesThere() (dirs []string, err error) {
	known, err := knownPlaces()
	if err != nil {
		return nil, err
	}
	for _, dir := range known {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) { // what cannot be read is told of later
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("none of %s is there: name the paths of transcripts", strings.Join(known, ", "))
	}
	return dirs, nil
}
