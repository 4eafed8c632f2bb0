package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// mostHook is more than a hook says.
const mostHook = 16 << 20

// hook imports the session that a hook of Claude Code names, with what lies beside its file. Whatever fails ends with exit code 1: 2 would
// tell Claude Code not to go on.
func (c *importCmd) hook(a *app) error {
	if len(c.Paths) > 0 {
		return errors.New("--hook reads on stdin which file it imports: give no path")
	}
	var said struct {
		Transcript string `json:"transcript_path"`
		Agent      string `json:"agent_transcript_path"` // of SubagentStop, by later versions
	}
	b, err := io.ReadAll(io.LimitReader(a.in, mostHook))
	if err == nil {
		err = json.Unmarshal(b, &said)
	}
	if err == nil && said.Transcript == "" {
		err = errors.New("it says no transcript_path")
	}
	if err != nil {
		return fmt.Errorf("what a hook says on stdin: %w", err)
	}
	for _, path := range []string{said.Transcript, said.Agent, strings.TrimSuffix(said.Transcript, ".jsonl")} {
		if _, err := os.Stat(path); err == nil && path != "" {
			c.Paths = append(c.Paths, path)
		}
	}
	if len(c.Paths) == 0 {
		return nil // a session in which nothing was said has no file
	}
	quiet := *a
	quiet.out = io.Discard
	var notes strings.Builder
	quiet.err = &notes
	if err := c.run(&quiet); err != nil {
		return fmt.Errorf("%s%s", notes.String(), err.Error())
	}
	return nil
}
