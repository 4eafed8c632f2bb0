package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"spool/internal/text"
	"spool/pkg/artifacts"
)

type tasksCmd struct {
	Cleanup tasksCleanupCmd `cmd:"" help:"Remove the logs of tasks that have ended; without --apply only say which."`
}

type tasksCleanupCmd struct {
	Project          string        `arg:"" type:"existingdir" help:"Directory of the project: its task logs are .soong-agent/tasks/**/*.wal.jsonl."`
	IncludeFailed    bool          `help:"Also of tasks that failed."`
	IncludeCancelled bool          `help:"Also of tasks that were cancelled."`
	OlderThan        time.Duration `placeholder:"DURATION" help:"Only logs that were not written to for longer."`
	Apply            bool          `help:"Remove them."`
	unasked
	JSON bool `name:"json" help:"The report as one JSON object."`
}

func (c *tasksCleanupCmd) Help() string {
	return "A log is removed when every task in it has ended, by its events and not by what they mention. Logs are a project's, " +
		"and no session's: deleting a session keeps them."
}

// taskFolder is where a project's task logs are (SPEC A10).
const taskFolder = ".soong-agent/tasks"

// maxTaskLine is the longest line of a task log that is read, in bytes.
const maxTaskLine = 16 << 20

func (c *tasksCleanupCmd) Run(a *app) error {
	dir, err := os.OpenRoot(filepath.Join(c.Project, filepath.FromSlash(taskFolder)))
	if errors.Is(err, fs.ErrNotExist) {
		return c.report(a, nil, nil, nil)
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	logs, problems := readTaskLogs(dir)
	how := artifacts.TaskCleanup{IncludeFailed: c.IncludeFailed, IncludeCancelled: c.IncludeCancelled}
	if c.OlderThan > 0 {
		how.OlderThan = time.Now().Add(-c.OlderThan)
	}
	plan := how.Plan(logs)
	if !c.Apply || len(plan) == 0 {
		return c.report(a, plan, nil, problems)
	}
	if err := a.confirm(c.Yes, text.Sprintf("remove %d task logs for ever", len(plan))); err != nil {
		return err
	}
	var deleted []string
	for _, name := range plan {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("failed to delete task log: %w", err))
			continue
		}
		deleted = append(deleted, name)
	}
	return c.report(a, plan, deleted, problems)
}

// readTaskLogs replays every log below a folder; one that can not be read is named and kept.
func readTaskLogs(dir *os.Root) (logs []artifacts.TaskLog, problems []error) {
	err := fs.WalkDir(dir.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path.Base(name), ".wal.jsonl") {
			return err
		}
		log, err := readTaskLog(dir, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			return nil
		}
		logs = append(logs, log)
		return nil
	})
	if err != nil {
		problems = append(problems, err)
	}
	return logs, problems
}

func readTaskLog(dir *os.Root, name string) (log artifacts.TaskLog, err error) {
	f, err := dir.Open(name)
	if err != nil {
		return log, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return log, err
	}
	log = artifacts.TaskLog{Path: name, Modified: info.ModTime()}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxTaskLine)
	log.Tasks, err = artifacts.ReplayTasks(func(yield func([]byte) bool) {
		for lines.Scan() {
			if line := lines.Bytes(); len(line) > 0 && !yield(line) {
				return
			}
		}
	})
	return log, errors.Join(err, lines.Err())
}

func (c *tasksCleanupCmd) report(a *app, plan, deleted []string, problems []error) error {
	if c.JSON {
		return errors.Join(append(problems, c.writeJSON(a.out, plan, deleted, problems))...)
	}
	for _, name := range plan {
		if _, err := fmt.Fprintf(a.out, "%s\t%s\n", name, artifacts.ReasonTask); err != nil {
			return err
		}
	}
	if c.Apply {
		fmt.Fprintf(a.err, "%d of %d task logs were removed\n", len(deleted), len(plan))
	} else {
		text.Fprintf(a.err, "%d task logs would be removed: say --apply\n", len(plan))
	}
	return errors.Join(problems...)
}

func (c *tasksCleanupCmd) writeJSON(w io.Writer, plan, deleted []string, problems []error) error {
	type candidate struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	}
	out := struct {
		DryRun     bool        `json:"dry_run"`
		Candidates []candidate `json:"candidates"`
		Deleted    []string    `json:"deleted"`
		Errors     []string    `json:"errors"`
	}{!c.Apply, []candidate{}, append([]string{}, deleted...), []string{}}
	for _, name := range plan {
		out.Candidates = append(out.Candidates, candidate{name, artifacts.ReasonTask})
	}
	for _, err := range problems {
		out.Errors = append(out.Errors, err.Error())
	}
	return json.NewEncoder(w).Encode(out)
}
