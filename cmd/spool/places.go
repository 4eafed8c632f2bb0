package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spool/internal/service"
)

// places are where harnesses keep their transcripts: below a folder of the home directory, which a variable of the
// environment moves elsewhere.
var places = []struct {
	env, home string
	below     []string
}{
	{"CLAUDE_CONFIG_DIR", ".claude", []string{"projects"}},
	{"CODEX_HOME", ".codex", []string{"sessions", "archived_sessions"}},
	{"PI_CODING_AGENT_DIR", ".omp/agent", []string{"."}},
}

// knownPlaces are the directories of all harnesses, whether they are there or not.
func knownPlaces() (dirs []string, err error) {
	home, homeErr := os.UserHomeDir()
	for _, p := range places {
		dir := os.Getenv(p.env)
		switch {
		case filepath.IsAbs(dir):
		case homeErr != nil:
			return nil, service.UsageError{Err: fmt.Errorf("no home directory to look for transcripts in: name paths: %w", homeErr)}
		default:
			dir = filepath.Join(home, p.home)
		}
		for _, below := range p.below {
			dirs = append(dirs, filepath.Join(dir, below))
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
