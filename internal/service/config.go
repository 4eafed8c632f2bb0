package service

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"spool/internal/retention"
)

// ConfigEnv names the configuration file where no flag does.
const ConfigEnv = "SPOOL_CONFIG"

// Daemons are the programs beside spool. Each has a table of its name in the configuration file.
var Daemons = []string{"gc", "ingest", "persister"}

// Config is what a configuration file says: TOML, whose keys are flags, at the top for every program, or in the table of a
// command ("up", "session.ls") or a daemon.
type Config struct {
	path     string
	values   map[Setting]any
	policies []retention.Policy
}

// Setting is a key of the file. Section is the path of its table, joined with dots; "" at the top.
type Setting struct{ Section, Key string }

func (s Setting) String() string { return strings.TrimPrefix(s.Section+"."+s.Key, ".") }

// OpenConfig reads the file at path, which must exist. Where path is empty, it is $XDG_CONFIG_HOME/spool/config.toml, else
// ~/.config/spool/config.toml, if there is one.
func OpenConfig(path string) (*Config, error) {
	byDefault := path == ""
	if byDefault {
		dir, err := xdg("XDG_CONFIG_HOME", ".config", "configuration in: give --config FILE")
		if err != nil {
			return &Config{}, nil
		}
		path = filepath.Join(dir, "config.toml")
	}
	text, err := os.ReadFile(path)
	if byDefault && errors.Is(err, fs.ErrNotExist) {
		return &Config{}, nil
	}
	if err != nil {
		return nil, UsageError{Err: fmt.Errorf("configuration: %w", err)}
	}
	c := &Config{path: path, values: map[Setting]any{}}
	var root map[string]any
	if err := toml.Unmarshal(text, &root); err != nil {
		return nil, UsageError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	if err := c.takePolicies(root); err != nil {
		return nil, err
	}
	return c, c.take("", root)
}

func (c *Config) take(section string, table map[string]any) error {
	for key, v := range table {
		at := Setting{section, key}
		if sub, ok := v.(map[string]any); ok {
			if err := c.take(at.String(), sub); err != nil {
				return err
			}
			continue
		}
		text, err := plain(v)
		if err != nil {
			return c.Bad(at, err)
		}
		c.values[at] = text
	}
	return nil
}

// plain is a value as it would stand on the command line: a string, or a list of them as kong takes it.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case bool:
		return strconv.FormatBool(v), nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			text, err := plain(v[i])
			if _, ok := text.(string); !ok && err == nil {
				err = errors.New("a list in a list")
			}
			if err != nil {
				return nil, err
			}
			list[i] = text
		}
		return list, nil
	}
	return nil, fmt.Errorf("%T is no value of a flag: write a string, a number, true or false", v)
}

// Settings are the keys of the file, in order.
func (c *Config) Settings() []Setting {
	return slices.SortedFunc(maps.Keys(c.values), func(a, b Setting) int { return strings.Compare(a.String(), b.String()) })
}

// Value is what a key is set to: a string or a []any of strings; nil when it is not set.
func (c *Config) Value(s Setting) any { return c.values[s] }

// Bad is an error about a key of the file.
func (c *Config) Bad(s Setting, err error) error {
	return UsageError{Err: fmt.Errorf("%s: %s: %w", c.path, s, err)}
}

// Unknown is the error about a key that is no flag of the program.
func (c *Config) Unknown(s Setting, program string) error {
	return c.Bad(s, fmt.Errorf("unknown key: %s has no flag or command of this name; see %s --help", program, program))
}

// InEnv reports whether one of the environment variables says something, which the file then does not change.
func InEnv(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name != "" && os.Getenv(name) != "" })
}
