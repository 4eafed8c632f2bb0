package artifacts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"spool/internal/family"
	"spool/internal/jsonscan"
)

// TaskStatus is where a task stands after its log was replayed.
type TaskStatus string

const (
	TaskPending   TaskStatus = "pending"
	TaskRunning   TaskStatus = "running"
	TaskBlocked   TaskStatus = "blocked"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

var taskStatuses = []TaskStatus{TaskPending, TaskRunning, TaskBlocked, TaskCompleted, TaskFailed, TaskCancelled}

// ErrTaskLog is wrapped by what is wrong with a task log. Such a log is never a candidate.
var ErrTaskLog = family.Invalid.New("unreadable task log")

// ReplayTasks gives the status of each task that a log is about. The log is one JSON object an event:
// {"event_type":"task_completed","task_id":"t1","step_id":null,"payload":{…},…}. Only events of the task itself count: a
// step that fails, or a payload that mentions an event's name, does not end a task (SPEC A10). Unknown events are ignored.
func ReplayTasks(events iter.Seq[[]byte]) (map[string]TaskStatus, error) {
	status := map[string]TaskStatus{}
	n := 0
	for raw := range events {
		n++
		if jsonscan.Valid(raw) != nil || jsonscan.KindOf(raw) != jsonscan.KindObject {
			return nil, fmt.Errorf("%w: event %d is no JSON object", ErrTaskLog, n)
		}
		typ, ok := jsonscan.Text(jsonscan.Get(raw, "event_type"))
		if !ok {
			return nil, fmt.Errorf("%w: event %d has no event_type", ErrTaskLog, n)
		}
		task, _ := jsonscan.Text(jsonscan.Get(raw, "task_id"))
		status[task] = afterEvent(cmp.Or(status[task], TaskPending), typ, jsonscan.Get(raw, "payload"))
	}
	return status, nil
}

func afterEvent(status TaskStatus, event string, payload []byte) TaskStatus {
	switch event {
	case "task_running":
		return TaskRunning
	case "task_reopened":
		return TaskPending
	case "task_completed":
		return TaskCompleted
	case "task_failed":
		return TaskFailed
	case "task_cancelled":
		return TaskCancelled
	case "task_updated":
		return afterUpdate(status, payload)
	}
	return status
}

// afterUpdate applies either the whole task in task_summary, or the operations.
func afterUpdate(status TaskStatus, payload []byte) TaskStatus {
	if summary := jsonscan.Get(payload, "task_summary"); jsonscan.KindOf(summary) == jsonscan.KindObject {
		text, _ := jsonscan.Text(jsonscan.Get(summary, "status"))
		if slices.Contains(taskStatuses, TaskStatus(text)) {
			return TaskStatus(text)
		}
		return status
	}
	_ = jsonscan.Array(jsonscan.Get(payload, "operations"), func(op []byte) bool {
		kind, _ := jsonscan.Text(jsonscan.Get(op, "op"))
		to, _ := jsonscan.Text(jsonscan.Get(op, "status"))
		// An update blocks a task and frees a blocked one; it cannot end one or bring one back.
		if kind == "update_task" && (to == string(TaskBlocked) || to == string(TaskPending) && status == TaskBlocked) {
			status = TaskStatus(to)
		}
		return true
	})
	return status
}

// TaskLog is a log with the statuses that ReplayTasks gave.
type TaskLog struct {
	Path     string // below the project's task folder
	Modified time.Time
	Tasks    map[string]TaskStatus
}

// TaskCleanup says which task logs to remove. The zero value takes the logs of completed tasks.
type TaskCleanup struct {
	IncludeFailed    bool
	IncludeCancelled bool
	OlderThan        time.Time // only logs modified before; zero = any age
}

// ReasonTask is why a task log is a candidate.
const ReasonTask = "terminal_task_wal"

// Plan is the paths of the logs to remove, sorted: those whose tasks have all ended, in a way that the cleanup includes. A
// log without any task is kept.
func (c TaskCleanup) Plan(logs []TaskLog) []string {
	var plan []string
	for _, log := range logs {
		if c.selects(log) {
			plan = append(plan, log.Path)
		}
	}
	slices.Sort(plan)
	return plan
}

func (c TaskCleanup) selects(log TaskLog) bool {
	if len(log.Tasks) == 0 || !c.OlderThan.IsZero() && !log.Modified.Before(c.OlderThan) {
		return false
	}
	for _, status := range log.Tasks {
		ended := status == TaskCompleted || status == TaskFailed && c.IncludeFailed || status == TaskCancelled && c.IncludeCancelled
		if !ended {
			return false
		}
	}
	return true
}
