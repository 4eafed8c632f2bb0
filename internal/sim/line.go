package sim

// Line is what a worker says of a schedule: that it begins, and how it ended. A worker that dies in between has
// found something too.
type Line struct {
	Seed   uint64   `json:"seed"`
	Done   bool     `json:"done,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Broken []string `json:"broken,omitempty"`
	Steps  int      `json:"steps,omitempty"`
	Events int      `json:"events,omitempty"`

	Counts     map[string]int `json:"counts,omitempty"` // Result.Counts
	Operations int            `json:"operations,omitempty"`
}
